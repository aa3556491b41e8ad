"""Sorted magnitudes as a sum of two exponentials (DeepReduce)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither
from compressors.errors import PayloadError
from compressors.kernels import exponentials as kernel
from compressors.kernels.curve import LARGEST
from compressors.parts import BasePart, Place, Symbols, code_dtype
from compressors.quantize.curvefit import value_ranks

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
        plain = values.detach().numpy()
        codes, curve = value_ranks(np.abs(plain))
        codes = 2 * codes + (plain < 0)
        parameters = curve if k <= _FEW else kernel.fit_exponentials(curve)
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
            curve = kernel.evaluate_exponentials(curve, alphabet // 2)
        magnitudes = torch.from_numpy(np.clip(curve, 0, LARGEST).astype(np.float32))
        both = codes.long()
        values = magnitudes[both >> 1]
        return torch.where(both % 2 == 1, -values, values)

    def bound_on(self, k: int) -> Bound:
        """None."""
        return neither("the search for two rates promises no fit")
