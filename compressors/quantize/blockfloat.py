"""Values as floats of 4, 6 or 8 bits that share a power of two per block: FP8, FP4 and the like.

Formats: Micikevicius et al., FP8 Formats for Deep Learning, 2022, https://arxiv.org/abs/2209.05433,
and Rouhani et al., Microscaling Data Formats for Deep Learning, 2023,
https://arxiv.org/abs/2310.10537.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, unbiased
from compressors.errors import PayloadError
from compressors.kernels import blockfloat as kernel
from compressors.kernels.dither import look_up_buckets
from compressors.kernels.noise import key
from compressors.parts import BasePart, Place, Symbols
from compressors.settings import check_one_of, check_whole, plain


class Format(NamedTuple):
    """A small float: its width, mantissa, smallest normal exponent and largest number."""

    bits: int
    mantissa: int
    lowest: int
    largest: float


FORMATS = {
    "e4m3": Format(8, 3, -6, 448.0),
    "e5m2": Format(8, 2, -14, 57344.0),
    "e3m2": Format(6, 2, -2, 28.0),
    "e2m3": Format(6, 3, 0, 7.5),
    "e2m1": Format(4, 1, 0, 6.0),
    "e3m0": Format(4, 0, -2, 16.0),
}
"""Named by the bits of exponent and mantissa. What the standards keep for NaN is never sent."""

_BIAS = 127  # of a scale's byte, as in E8M0


@dataclass(frozen=True)
class BlockFloat(BasePart):
    """Small floats times one power of two per block of values (microscaling, MX).

        s = max(ceil(log2(max_j |x_j| / F)), -112)
        x_hat_i = 2^s round(x_i / 2^s)

    F is the format's largest number and j runs over the block of i. ``round`` takes one of the
    format's two numbers a <= y <= b around y: at random b with chance (y - a) / (b - a), or the
    nearest. A block of zeros has s = 0.

    So a block's scale is the least power of two at which its largest magnitude is within the format
    (Rouhani et al. 2023, section 2, take half of it where the largest magnitude is then cut off;
    nothing is cut off here, so that random rounding is unbiased). Side information: 8 bits per
    block. A symbol is the format's own bits: sign, exponent, mantissa. Scales end at 2**-112: of
    smaller blocks less than the format's precision is left. A draw has 32 bits: a value below
    2**-32 of its step becomes zero. What would be rounded beyond float32 becomes the largest number
    within it. The numbers of e3m0, which has no mantissa, are 0 and 2^-2, 2^-1, ..., 2^4.

    Args:
        format: e4m3 or e5m2 (8 bits), e3m2 or e2m3 (6 bits), e2m1 or e3m0 (4 bits).
        block: values that share a scale, in the order in which they are sent; at least 1.
        rounding: random (unbiased) or nearest (ties to even; of e3m0 to the larger of two powers,
            and from half of the least one to 0).

    Raises ``ValueError`` for any other setting.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.tensor([0.3, -6.0, 2.9])}
        >>> packet, _ = compress(parse("mx(e2m1, rounding=nearest)"), x)
        >>> packet.sent["w"].decoded, packet.spans["values"], packet.spans["side"]
        (tensor([ 0.5000, -6.0000,  3.0000]), 12, 8)
    """

    codec_id: ClassVar[str] = "mx"
    format: str
    block: int = 32
    rounding: str = "random"

    def __post_init__(self) -> None:
        plain(self)
        check_one_of("mx: format", self.format, tuple(FORMATS))
        check_whole("mx: block", self.block, 1, (1 << 31) - 1)
        check_one_of("mx: rounding", self.rounding, ("random", "nearest"))

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The format's bits of each value; a scale per block is the side information."""
        bits, mantissa, lowest, largest = FORMATS[self.format]
        x = values.detach().contiguous().numpy()
        exponents = np.empty(-(-x.size // self.block), np.int16)
        codes = np.empty(x.size, np.uint8)
        kernel.scale_exponents(x, self.block, largest, exponents)
        kernel.to_floats(
            x,
            self.block,
            mantissa,
            lowest,
            bits - 1,
            self.rounding == "nearest",
            *key(seed),
            exponents,
            codes,
        )
        out.uints((exponents + _BIAS).astype(np.uint32), 8)
        scales = np.ldexp(np.float32(1), exponents.astype(np.int32))
        return Symbols(torch.from_numpy(codes), 1 << bits, scales)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, np.ndarray]:
        """The scales (blocks,), float32; ``PayloadError`` for one that is not a number."""
        read = bits.uints(-(-place.k // self.block), 8, np.uint32)
        if read.size and int(read.max()) == 255:
            raise PayloadError("mx: a scale's byte is 255, which stands for no number")
        scales = np.ldexp(np.float32(1), read.astype(np.int32) - _BIAS)
        return 1 << FORMATS[self.format].bits, scales

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """Scale times number, a float32 product without rounding."""
        codes, _, scales = symbols
        values = np.empty(codes.numel(), np.float32)
        look_up_buckets(_numbers(self.format), codes.numpy(), scales, self.block, values)
        return torch.from_numpy(values)

    def bound_on(self, k: int) -> Bound:
        """A step is 2^-m of its number, or the format's least step q where numbers are small.

        With u the largest number, a block's largest value is above u / 2 of its scale. So the error
        is at most 4^-(m + 1) + (b - 1) q^2 / u^2 of the block's square norm, by either rounding.
        """
        _, mantissa, lowest, largest = FORMATS[self.format]
        block = max(1, min(k, self.block))
        rounding_bound = 4.0 ** -(mantissa + 1)
        share = rounding_bound + (block - 1) * (2.0 ** (lowest - mantissa) / largest) ** 2
        source = "ours: 4^-(m + 1) + (b - 1) q^2 / u^2, scales above 2^-112"
        if self.rounding == "random":
            return unbiased(share, source)
        return contraction(max(1 - share, (1 - rounding_bound) / block), source)


def fp8(format: str = "e4m3", rounding: str = "random") -> BlockFloat:
    """FP8: ``mx`` with 8 bits, e4m3 or e5m2, and a scale for 32 values. Raises as ``BlockFloat``.

        fp8(format, rounding) = mx(format, 32, rounding)

    Formats: Micikevicius et al. (2022); scales: microscaling (Rouhani et al. 2023).

    Example:
        >>> fp8() == BlockFloat("e4m3", 32, "random")
        True
    """
    check_one_of("fp8: format", format, ("e4m3", "e5m2"))
    return BlockFloat(format, rounding=rounding)


def fp4(rounding: str = "random") -> BlockFloat:
    """FP4: ``mx(e2m1)``, 4 bits and a scale for 32 values. Raises as ``BlockFloat``.

        fp4(rounding) = mx(e2m1, 32, rounding)

    Source: microscaling (Rouhani et al. 2023).

    Example:
        >>> fp4() == BlockFloat("e2m1", 32, "random")
        True
    """
    return BlockFloat("e2m1", rounding=rounding)


def fp4_e3m0(rounding: str = "random") -> BlockFloat:
    """The 4-bit floats of Streaming DiLoCo's outer gradients: a sign and 3 bits of exponent.

        fp4_e3m0(rounding) = mx(e3m0, 32, rounding)

    Source: Douillard et al. 2025, section 2.4 (https://arxiv.org/abs/2501.18512), which names the
    format alone. The scale, a power of two for 32 values, is that of microscaling (Rouhani et al.
    2023), and the rounding is ours. Raises as ``BlockFloat``.

    Example:
        >>> from compressors import compress, parse
        >>> update = {"w": torch.tensor([5.0, -1.4, 0.3, 0.02])}
        >>> compress(parse("fp4_e3m0(nearest)"), update)[0].sent["w"].decoded  # 8, 4, ..., 1 / 8, 0
        tensor([ 4.0000, -1.0000,  0.2500,  0.0000])
    """
    return BlockFloat("e3m0", rounding=rounding)


@lru_cache(maxsize=8)
def _numbers(format: str) -> np.ndarray:
    """The number of every symbol (2**bits,), float32."""
    bits, mantissa, lowest, _ = FORMATS[format]
    code = np.arange(1 << bits - 1)
    exponent = np.maximum(code >> mantissa, 1) - 1
    steps = code - (exponent << mantissa)
    positive = np.ldexp(steps.astype(np.float32), lowest - mantissa + exponent)
    numbers = np.concatenate([positive, -positive]).astype(np.float32)
    numbers.flags.writeable = False
    return numbers
