"""Values as IEEE numbers."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, exact, neither
from compressors.parts import IEEE, BasePart, Place, Symbols


@dataclass(frozen=True)
class Float32(BasePart):
    """Values as they are, 32 bits each.

        x_hat_i = x_i

    The format is binary32 (IEEE 754, 2019).
    """

    codec_id: ClassVar[str] = "float32"

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The IEEE bits as symbols; no side information."""
        return Symbols(values.contiguous().view(torch.int32), IEEE)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, None]:
        return IEEE, None

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        return symbols.codes.view(torch.float32)

    def bound_on(self, k: int) -> Bound:
        """Lossless."""
        return exact()


@dataclass(frozen=True)
class _Short(BasePart):
    """A float of 16 bits: the nearest, ties to even; beyond the largest finite one, that one."""

    _dtype: ClassVar[torch.dtype]

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The 16 bits of each value as symbols; no side information."""
        largest = torch.finfo(self._dtype).max
        short = values.detach().clamp(-largest, largest).to(self._dtype)
        return Symbols(short.view(torch.int16).to(torch.int32) & 0xFFFF, 1 << 16)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, None]:
        return 1 << 16, None

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The numbers as float32, exactly."""
        return symbols.codes.to(torch.int16).view(self._dtype).to(torch.float32)


@dataclass(frozen=True)
class Float16(_Short):
    """Values as binary16 (IEEE 754, 2019): 5 bits of exponent and 10 of mantissa, 2**-24 to 65504.

        x_hat_i = sign(x_i) min(u round(|x_i| / u), 65504)
        u = 2^(max(floor(log2 |x_i|), -14) - 10)

    Rounded to the nearest, ties to even. Above 65504 in magnitude a value becomes 65504 of its
    sign (biased; the standard's rule would make infinity of 65520 and more); below 2**-25
    it becomes zero.

    Example:
        >>> from compressors import compress, parse
        >>> update = {"w": torch.tensor([0.1, -1e6])}
        >>> compress(parse("float16"), update)[0].sent["w"].decoded.tolist()
        [0.0999755859375, -65504.0]
    """

    codec_id: ClassVar[str] = "float16"
    _dtype: ClassVar[torch.dtype] = torch.float16

    def bound_on(self, k: int) -> Bound:
        """None: its range is narrower than that of updates."""
        return neither("below 2^-25 all is lost; relative error at most 2^-11 in 2^-14 to 65504")


@dataclass(frozen=True)
class BFloat16(_Short):
    """Values as bfloat16 (Kalamkar et al. 2019): float32's 8 bits of exponent and 7 of mantissa.

        x_hat_i = sign(x_i) min(u round(|x_i| / u), F),  F = (2 - 2^-7) 2^127
        u = 2^(max(floor(log2 |x_i|), -126) - 7)

    Rounded to the nearest, ties to even. Above F, the largest finite number, in magnitude a value
    becomes F of its sign.

    Example:
        >>> from compressors import compress, parse
        >>> update = {"w": torch.tensor([0.1, -1e6])}
        >>> compress(parse("bfloat16"), update)[0].sent["w"].decoded.tolist()
        [0.10009765625, -999424.0]
    """

    codec_id: ClassVar[str] = "bfloat16"
    _dtype: ClassVar[torch.dtype] = torch.bfloat16

    def bound_on(self, k: int) -> Bound:
        """Half a step of 2^-7 of each entry."""
        return contraction(1 - 2.0**-16, "relative error at most 2^-8, denormal numbers apart")
