"""TernGrad: sign, or zero, times the largest magnitude of a clipped tensor."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither, unbiased
from compressors.kernels import dither as kernel
from compressors.parts import BasePart, Place, Symbols
from compressors.quantize.levels import bucket_norms, level_codes, values_of
from compressors.settings import check_number, plain

_ALPHABET = 3


@dataclass(frozen=True)
class TernGrad(BasePart):
    """Three symbols per value: 0, -s, +s, with s the largest magnitude after clipping.

        x_hat_i = s sign(x_i) with chance min(|x_i|, s) / s, else 0
        s = min(max_j |x_j|, clip sigma)

    sigma is the standard deviation of the tensor's values (Wen et al. 2017,
    https://arxiv.org/abs/1705.07878, equations 3 to 5): standard dithering with one level in the
    infinity norm. Values are first clipped to ``clip`` standard deviations of the tensor's values
    either side of zero (equation 9, layer-wise): what is clipped loses the excess, so the method is
    BIASED unless ``clip`` is None; only the clipped values arrive right in the mean. A tensor of
    equal values has no spread and is not clipped. s travels as a float32; nothing sent, no s.

    Args:
        clip: standard deviations, above zero; None or 0 for no clipping.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("terngrad(none)"), {"w": torch.tensor([4.0, 0.0, -4.0])})
        >>> packet.sent["w"].decoded, packet.spans["values"]
        (tensor([ 4.,  0., -4.]), 6)
    """

    codec_id: ClassVar[str] = "terngrad"
    clip: float | None = 2.5

    def __post_init__(self) -> None:
        plain(self)
        clip = self.clip
        if clip is None or (clip == 0 and not isinstance(clip, bool)):
            object.__setattr__(self, "clip", None)
        else:
            allowed = "give a number of standard deviations above 0 and below 1e9, or none"
            check_number("terngrad: clip", clip, lambda c: 0 < c < 1e9, allowed)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Symbols 0, 1 and 2 for 0, -s and +s; s is the side information."""
        k = values.numel()
        values = values.contiguous()
        scale = self.scale(values)
        out.float32s(scale)
        return Symbols(level_codes(values, scale, k, 1, False, seed), _ALPHABET, scale)

    def scale(self, values: Tensor) -> np.ndarray:
        """s of the ``values`` (k,), k > 0, as a float32 array (1,)."""
        largest = bucket_norms(values, "inf", values.numel())
        bound = 0.0 if self.clip is None else self.clip * deviation(values)
        if bound > 0:
            return np.minimum(largest, np.array([min(bound, 1e300)])).astype(np.float32)
        return largest

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Any]:
        """s as a float32 array (1,)."""
        return _ALPHABET, bits.float32s(1)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        codes, _, scale = symbols
        return values_of(codes, scale, codes.numel(), 1, False)

    def bound_on(self, k: int) -> Bound:
        """(sqrt k - 1) / 2, the most of ||x||_inf ||x||_1 / ||x||^2 - 1; clipping is biased."""
        if self.clip is not None:
            return neither("clipping is biased; without it omega = (sqrt(d) - 1) / 2")
        return unbiased((math.sqrt(max(k, 1)) - 1) / 2, "(sqrt(d) - 1) / 2, reached")


def deviation(values: Tensor) -> float:
    """The standard deviation of ``values`` (k,) about their mean, in float64; 0 if all are equal.

    Example:
        >>> deviation(torch.tensor([3.0, 1.0]))
        1.0
    """
    return math.sqrt(kernel.variance(values.contiguous().numpy()))
