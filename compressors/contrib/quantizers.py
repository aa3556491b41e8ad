"""1-bit SGD, one bit per value and two means per column; and random rounding to whole numbers."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, neither
from compressors.errors import PayloadError
from compressors.kernels import rounding as kernel
from compressors.kernels.noise import key
from compressors.parts import IEEE, BasePart, Place, Symbols, code_dtype
from compressors.quantize.levels import fresh
from compressors.quantize.magnitudes import column_lengths, column_means
from compressors.quantize.sign import sign_codes
from compressors.settings import check_flags, plain


class _Means(NamedTuple):
    levels: Tensor  # (c, 2): at or above zero, below zero
    counts: Tensor  # (c,): values in each column


@dataclass(frozen=True)
class OneBit(BasePart):
    """Each value as the mean of its side of zero: 1-bit SGD (Seide et al. 2014, section 3).

        x_hat_i = mean(x_j >= 0) where x_i >= 0, else mean(x_j < 0),  j over the column of i

    One bit says whether a value is below zero; the two means of a column, of what is at or above
    zero and of what is below, are its side information: two float32 per column that has values. A
    column is one index of the first axis (``compressors.quantize.magnitudes`` has the reason);
    ``columns=False`` takes the whole tensor as one. Made for error feedback: means are the best two
    values, so the error never exceeds the values in norm. Behind a sparsifier the columns are those
    of the entries that are sent.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("onebit"), {"w": torch.tensor([[3.0, 1.0, -1.0]])})
        >>> packet.sent["w"].decoded
        tensor([[ 2.,  2., -1.]])
    """

    codec_id: ClassVar[str] = "onebit"
    projects: ClassVar[bool] = True  # see compressors.bounds
    columns: bool = True

    def __post_init__(self) -> None:
        plain(self)
        check_flags("onebit", columns=self.columns)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Which values are below zero; the means are the side information."""
        counts = column_lengths(place, self.columns)
        levels = column_means(values, counts)
        out.float32s(levels.numpy())
        return Symbols(sign_codes(values), 2, _Means(levels, counts))

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, _Means]:
        """The means of the columns that have values."""
        counts = column_lengths(place, self.columns)
        levels = torch.from_numpy(bits.float32s(2 * counts.numel())).view(-1, 2)
        return 2, _Means(levels, counts)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The mean of each value's column and side."""
        high, low = symbols.side.levels.repeat_interleave(symbols.side.counts, 0).unbind(1)
        return torch.where(symbols.codes.bool(), low, high)

    def bound_on(self, k: int) -> Bound:
        """At least 1 / k, and one over the longest column."""
        return contraction(1 / max(k, 1), "at least 1 / d; one over the length of a column")


_WHOLE = 1 << 24  # from here on every float32 is a whole number


@dataclass(frozen=True)
class RandomInteger(BasePart):
    """C_int: a value becomes one of the two whole numbers around it by chance; unbiased.

        x_hat_i = floor(x_i) + 1 with chance x_i - floor(x_i), else floor(x_i)

    The counterexample of natural compression (Horváth et al. 2022, section 2.3, Theorem 4): no
    omega bounds its variance, since near zero the second moment is |x| where the square is x * x.

    One bit of side information says how symbols are meant. 0: all results lie within
    +-2**24; the least follows in 32 bits (two's complement), then an Elias gamma code of the
    number of whole numbers from least to greatest, and symbols count from the least. 1: some
    are larger, and are whole already as any float32 from 2**24 on: symbols are the IEEE
    bits of the results. Zero has no sign. Nothing sent, no side information.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("cint"), {"w": torch.tensor([-1.0, 0.0, 2.0])})
        >>> packet.sent["w"].decoded, packet.spans["values"], packet.spans["side"]
        (tensor([-1.,  0.,  2.]), 6, 38)
    """

    codec_id: ClassVar[str] = "cint"

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Whole numbers from the least one, or IEEE bits; which, is the side information."""
        values = values.contiguous()
        near = fresh(values.numel(), torch.float32)
        kernel.round_integers(values.numpy(), *key(seed), near.numpy())
        low, high = (float(end) for end in torch.aminmax(near))
        wide = max(-low, high) > _WHOLE
        out.uint(int(wide), 1)
        if wide:
            return Symbols(near.view(torch.int32), IEEE)
        least, alphabet = int(low), int(high) - int(low) + 1
        out.uint(least & 0xFFFFFFFF, 32)
        out.gamma(alphabet)
        codes = fresh(near.numel(), code_dtype(alphabet))
        kernel.add_number(near.numpy(), -least, codes.numpy())
        return Symbols(codes, alphabet, least)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, int | None]:
        """The alphabet, and the least number or None for IEEE bits."""
        if bits.uint(1):
            return IEEE, None
        least = bits.uint(32)
        alphabet = bits.gamma()
        least -= (least >> 31) << 32
        if least < -_WHOLE or least + alphabet - 1 > _WHOLE:
            raise PayloadError(f"{alphabet} whole numbers from {least} on leave +-2**24")
        return alphabet, least

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The whole numbers, exact in float32."""
        codes, _, least = symbols
        if least is None:
            return codes.view(torch.float32)
        values = fresh(codes.numel(), torch.float32)
        kernel.add_number(codes.numpy(), least, values.numpy())
        return values

    def bound_on(self, k: int) -> Bound:
        """None (Theorem 4)."""
        return neither(
            "unbiased, but no omega is finite: near 0 the second moment is |x|, not x^2 "
            "(Theorem 4 of Horváth et al. 2022); at most 1/4 per entry"
        )
