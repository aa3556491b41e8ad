"""Sorted values as a curve: piecewise polynomials, or a sum of two exponentials (DeepReduce)."""

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
from compressors.kernels import curve as curves
from compressors.kernels.curve import LARGEST
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
        starts = curves.split_curve(curve, np.count_nonzero(curve > 0), capacity, self.degree + 1)
        coefs = curves.fit_curve(curve, starts, self.degree + 1)
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
        curve = torch.from_numpy(curves.evaluate_curve(side[1], side[0], k, self.degree + 1))
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


_FEW = 4  # values that are as short themselves as the parameters of a curve


@dataclass(frozen=True)
class FitDExp(BasePart):
    """Sorted magnitudes as a e^(b t) + c e^(d t) (Fit-DExp; Kostopoulou et al. 2021, section 5).

        x_hat_i = sign(x_i) max(a e^(b t) + c e^(d t), 0),  t = rank(i) / (k - 1)

    rank(i) is the place of |x_i| in descending order, from 0, and k the number of values.

    One curve of four parameters over all values, without segments. It is put through the
    magnitudes in descending order, and signs travel with the symbols, as in the authors'
    program; the paper's text leaves open what is sorted, and a smooth curve through signed
    values would miss the jump between the smallest of both signs that a top-r sparsifier leaves.
    The rates b and d are searched for (a grid, then steps that shrink), at most 2048 evenly
    spaced ranks being looked at; a and c are least squares. Biased: use error feedback.

    A symbol is 2 rank + sign, 1 + ceil(log2 k) bits for k values. Side information: four
    float32 parameters; at most four values are instead sent as they are, in order of rank.
    The amplitudes are those at t = 0 for falling terms and at t = 1 for rising ones.

    Example:
        >>> from compressors import compress, parse
        >>> x = torch.exp(-torch.arange(100.0) / 20) + 0.1
        >>> packet, _ = compress(parse("fit_dexp"), {"w": -x})
        >>> bool((packet.sent["w"].decoded + x).abs().max() < 0.03), packet.spans["side"]
        (True, 128)
    """

    codec_id: ClassVar[str] = "fit_dexp"

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Ranks and signs; the curve is the side information."""
        k = place.k
        flat = values.detach().numpy()
        codes, curve = value_ranks(np.abs(flat))
        codes = 2 * codes + (flat < 0)
        parameters = curve if k <= _FEW else curves.fit_exponentials(curve)
        side = np.clip(parameters, -LARGEST, LARGEST).astype(np.float32)
        out.float32s(side)
        symbols = torch.from_numpy(codes).to(code_dtype(2 * k))
        return Symbols(symbols, 2 * k, side)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Any]:
        """Four finite parameters, or at most four magnitudes; the alphabet is 2 k."""
        k = place.k
        side = bits.float32s(min(k, _FEW))
        if not np.isfinite(side).all():
            raise PayloadError("fit_dexp: a curve with a parameter that is NaN or infinite")
        return 2 * k, side

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The curve at the ranks, with the signs; never beyond float32."""
        codes, alphabet, side = symbols
        curve = side.astype(np.float64)
        if alphabet > 2 * _FEW:
            curve = curves.evaluate_exponentials(curve, alphabet // 2)
        magnitudes = torch.from_numpy(np.clip(curve, 0, LARGEST).astype(np.float32))
        both = codes.long()
        values = magnitudes[both >> 1]
        return torch.where(both % 2 == 1, -values, values)

    def bound_on(self, k: int) -> Bound:
        """None."""
        return neither("the search for two rates promises no fit")
