"""One bit per value and two means per column: 1-bit SGD (Seide et al. 2014)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction
from compressors.parts import BasePart, Place, Symbols
from compressors.quantize import columns
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
    column is one index of the first axis (``compressors.quantize.columns`` has the reason);
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
        counts = columns.lengths(place, self.columns)
        levels = columns.two_means(values, counts)
        out.float32s(levels.numpy())
        return Symbols(sign_codes(values), 2, _Means(levels, counts))

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, _Means]:
        """The means of the columns that have values."""
        counts = columns.lengths(place, self.columns)
        levels = torch.from_numpy(bits.float32s(2 * counts.numel())).view(-1, 2)
        return 2, _Means(levels, counts)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The mean of each value's column and side."""
        high, low = symbols.side.levels.repeat_interleave(symbols.side.counts, 0).unbind(1)
        return torch.where(symbols.codes.bool(), low, high)

    def bound_on(self, k: int) -> Bound:
        """At least 1 / k, and one over the longest column."""
        return contraction(1 / max(k, 1), "at least 1 / d; one over the length of a column")
