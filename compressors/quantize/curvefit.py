"""Sorted values as piecewise polynomials (DeepReduce)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, neither
from compressors.errors import PayloadError
from compressors.grammar import shown
from compressors.kernels import curve as kernel
from compressors.parts import BasePart, Place, Symbols, code_dtype
from compressors.settings import check_whole, plain

_MOST = 1024  # pieces


@dataclass(frozen=True)
class FitPoly(BasePart):
    """Sorted values as piecewise polynomials (Fit-Poly; Kostopoulou et al. 2021, section 5).

        P_j = argmin_P sum_r (P(t_r) - y_r)^2,  r in piece j,  t_r = 2 (r - r_j) / (N_j - 1) - 1
        x_hat_i = P_j(t_r),  r = rank(i)

    y is x in descending order, rank(i) the place of x_i in it, from 0. Piece j has N_j ranks from
    r_j on, and P is a polynomial of ``degree``.

    Values are sorted in descending order. The curve is cut where it leaves the positive side, then
    again and again at the value farthest from the chord of its piece, each piece keeping
    degree + 1 values or more; a straight piece is not cut. Each piece becomes its least-squares
    polynomial in the rank, scaled to [-1, 1]; one with fewer values than degree + 1 a polynomial
    through all of them. A value is decoded as the curve at its rank: biased, so use error
    feedback.

    A symbol is the value's rank: the paper's map from the original to the sorted order, in
    ceil(log2 k) bits for k values. Side information: the number of pieces (a gamma code), their
    starts in ceil(log2 k) bits each, and degree + 1 float32 coefficients a piece, of
    polynomials that are orthonormal on its ranks.

    Args:
        degree: of the polynomials, 0 to 15.
        segments: pieces at most, 1 to 1024 (8 in the paper's figure 5), or ``heuristic``: the
            paper's ceil(2 sqrt(M)), M the difference of the curve's first and last steps. That
            depends on the values' scale: for gradients it is 1.

    Raises ``ValueError`` for other settings.

    Example:
        >>> from compressors import compress, parse
        >>> x = torch.arange(-50.0, 50.0) ** 3
        >>> packet, _ = compress(parse("fit_poly(3, 2)"), {"w": x})
        >>> bool((packet.sent["w"].decoded - x).abs().max() < 0.1), packet.spans["values"]
        (True, 700)
    """

    codec_id: ClassVar[str] = "fit_poly"
    projects: ClassVar[bool] = True  # see compressors.bounds
    degree: int = 5
    segments: int | str = 8

    def __post_init__(self) -> None:
        plain(self)
        check_whole("fit_poly: degree", self.degree, 0, 15)
        if self.segments == "heuristic":
            return
        if isinstance(self.segments, str):
            raise ValueError(
                f"fit_poly: segments is {shown(self.segments)}: give a whole number "
                f"from 1 to {_MOST}, or heuristic"
            )
        check_whole("fit_poly: segments", self.segments, 1, _MOST)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The rank of each value; the pieces are the side information."""
        k = place.k
        codes, curve = value_ranks(values.detach().numpy())
        if not isinstance(self.segments, str):
            capacity = min(self.segments, k)
        else:
            spread = 0.0 if k < 2 else abs((curve[0] - curve[1]) - (curve[-2] - curve[-1]))
            capacity = min(_MOST, max(1, math.ceil(2 * math.sqrt(spread))), k)
        starts = kernel.split_curve(curve, np.count_nonzero(curve > 0), capacity, self.degree + 1)
        coefs = kernel.fit_curve(curve, starts, self.degree + 1)
        out.gamma(starts.size)
        out.uints(starts[1:].astype(np.uint64), (k - 1).bit_length())
        out.float32s(coefs)
        symbols = torch.from_numpy(codes).to(code_dtype(k))
        return Symbols(symbols, k, (starts, coefs))

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Any]:
        """The starts (pieces,) and the coefficients of the pieces; the alphabet is k."""
        k = place.k
        pieces = bits.gamma()
        capacity = _MOST if isinstance(self.segments, str) else self.segments
        if pieces > min(capacity, k):
            raise PayloadError(f"{pieces} pieces announced for {k} values: at most {capacity}")
        starts = np.zeros(pieces, np.int64)
        starts[1:] = bits.uints(pieces - 1, (k - 1).bit_length())
        sizes = np.diff(starts, append=k)
        if sizes.min() < 1:
            raise PayloadError("the starts of a curve's pieces do not rise to its end")
        coefs = bits.float32s(int(np.minimum(sizes, self.degree + 1).sum()))
        return k, (starts, coefs)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The fitted curve at the ranks."""
        codes, k, side = symbols
        curve = torch.from_numpy(kernel.evaluate_curve(side[1], side[0], k, self.degree + 1))
        return curve[codes.long()]

    def bound_on(self, k: int) -> Bound:
        """At least 1 / k where every piece has one sign: no fit is worse than its piece's mean."""
        if isinstance(self.segments, str) or self.segments < 2:
            return neither("one piece may hold both signs, and a constant through them be zero")
        note = "ours: at least 1 / d, a piece's mean; far more for curves"
        return contraction(1 / max(k, 1), note)


def value_ranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each value's rank in descending order (k,), ties by place, and the sorted values, float64."""
    order = np.argsort(-values, kind="stable")
    codes = np.empty(values.size, np.int64)
    codes[order] = np.arange(values.size)
    return codes, values[order].astype(np.float64)
