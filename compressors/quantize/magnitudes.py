"""A sign a value and magnitudes that the values share: what is left after dropping.

Aji & Heafield 2017, section 5.4, quantize what survives gradient dropping to one bit with
the smallest surviving magnitude ("threshold"), the average of all, or that of each column,
and to two bits, which they do not define.

They, 1-bit SGD (Seide et al. 2014) and Dryden et al. 2016 share values within a column of a weight
matrix. Their layers compute ``W^T v + a``: a column holds the weights into one unit of the next
layer. torch stores that matrix transposed, so a column here is all that lies at one index of the
first axis (of a convolution: one filter). A tensor of one dimension is one column.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from compressors.base import mean
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, neither
from compressors.kernels import sign
from compressors.parts import BasePart, Place, Symbols
from compressors.quantize.sign import sign_codes, with_signs
from compressors.settings import check_one_of, check_whole, plain


def column_lengths(place: Place, columns: bool = True) -> Tensor:
    """How many of the k values lie in each column that has any, in order: int64 (c,).

    Both sides know it: it follows from the shape and the positions. ``columns`` False: the
    whole tensor counts as one column. Without values the result is empty.

    Example:
        >>> column_lengths(Place(torch.tensor([0, 1, 5]), torch.Size((2, 3))))
        tensor([2, 1])
    """
    indices, shape = place
    if place.k == 0:
        return torch.zeros(0, dtype=torch.int64, device="cpu")
    if not columns or len(shape) < 2:
        return torch.tensor([place.k], device="cpu")
    width = shape.numel() // shape[0]
    if indices is None:
        return torch.full((shape[0],), width, dtype=torch.int64, device="cpu")
    return torch.unique_consecutive(indices // width, return_counts=True)[1]


def column_means(values: Tensor, counts: Tensor) -> Tensor:
    """The mean of the values at or above zero, and of those below, of each column: float32 (c, 2).

    ``values`` (k,) float32 are ordered by column, ``counts`` (c,) of them in each. Sums in
    float64. The mean of none is zero.
    """
    means = sign.sign_means(values.detach().contiguous().numpy(), counts.numpy())
    return torch.from_numpy(means)


Value = Literal["min", "avg", "column"]


class _Shared(NamedTuple):
    levels: Tensor  # (c,) one a column, or (2,) those of the lower and the upper half
    counts: Tensor | None  # (c,) values in each column; None with two halves


@dataclass(frozen=True)
class SharedMagnitude(BasePart):
    """The sign of each value and a magnitude that values share (Aji & Heafield 2017, section 5.4).

        x_hat_i = sign(x_i) a_i,  sign(0) = 1
        a_i = min_j |x_j| (min) or mean_j |x_j| (avg, column)

    j runs over all values, with ``column`` over those in the column of i, and with ``bits=2`` over
    those on the side of the median magnitude M where i is: |x_j| >= M or |x_j| < M.

    ``value`` as the paper's Figure 8 has it: ``min``, the smallest magnitude among the values
    (of ``topk``: the threshold); ``avg``, the mean magnitude; ``column``, the mean magnitude
    of each column (one index of the first axis).
    ``bits=2`` adds one magnitude bit, which the paper leaves open: the values are split at
    their median magnitude, which belongs to the upper half as all that equals it does; ``min``
    is then the lower edge of each half and ``avg`` its mean. Where nothing lies below the
    median both halves are the same.

    Inside ``ef`` the minimum lets the memory grow, slowly: an entry that is larger than the
    threshold in every update gets the threshold alone. The means do not.

    Side information: 32 bits per magnitude. Zeros count as plus, and become plus the magnitude:
    meant for what a sparsifier chose. Raises ``ValueError`` for another ``value`` or ``bits``,
    and for columns in two halves.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.tensor([4.0, -1.0, 0.5, -3.0])}
        >>> compress(parse("topk(0.75) | magnitude(min)"), x)[0].sent["w"].decoded
        tensor([ 1., -1.,  0., -1.])
        >>> compress(parse("magnitude(avg, 2)"), x)[0].sent["w"].decoded
        tensor([ 3.5000, -0.7500,  0.7500, -3.5000])
    """

    codec_id: ClassVar[str] = "magnitude"
    projects: ClassVar[bool] = True  # see compressors.bounds
    value: Value = "avg"
    bits: int = 1

    def __post_init__(self) -> None:
        plain(self)
        check_one_of("magnitude: value", self.value, get_args(Value))
        check_whole("magnitude: bits", self.bits, 1, 2)
        if self.value == "column" and self.bits == 2:
            raise ValueError("magnitude: value is 'column', which goes with bits 1, not 2")

    @property
    def _alphabet(self) -> int:
        return 1 << self.bits

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Signs, and with two bits the half as the lower bit; magnitudes as side information."""
        codes = sign_codes(values)
        if self.bits == 2:
            sizes = values.abs()
            median = torch.kthvalue(sizes, sizes.numel() // 2 + 1).values
            upper = sizes >= median
            high, low = sizes[upper], sizes[~upper]
            low = low if low.numel() else high
            if self.value == "min":
                levels = torch.stack([low.min(), median])
            else:
                levels = torch.tensor([mean(low), mean(high)], dtype=torch.float32, device="cpu")
            codes, side = 2 * codes + upper, _Shared(levels, None)
        else:
            sizes = values.abs()
            counts = column_lengths(place, self.value == "column")
            least = self.value == "min"
            levels = sizes.min()[None] if least else column_means(sizes, counts)[:, 0]
            side = _Shared(levels, counts)
        out.float32s(side.levels.numpy())
        return Symbols(codes, self._alphabet, side)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, _Shared]:
        """The magnitudes."""
        counts = None if self.bits == 2 else column_lengths(place, self.value == "column")
        levels = bits.float32s(2 if counts is None else counts.numel())
        return self._alphabet, _Shared(torch.from_numpy(levels), counts)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        codes, _, side = symbols
        levels = side.levels
        if side.counts is None:
            low, high = levels
            return with_signs(torch.where((codes & 1).bool(), high, low), codes >> 1)
        return with_signs(levels.repeat_interleave(side.counts), codes)

    def bound_on(self, k: int) -> Bound:
        """1 / k for means; none for minima."""
        if self.value == "min":
            return neither("the smallest magnitude may be anything above 0: delta tends to 0")
        return contraction(1 / max(k, 1), "at least 1 / d: ||x||_1^2 / (d ||x||_2^2)")


def ternary() -> SharedMagnitude:
    """Sign and mean magnitude of the kept entries (sparse ternary compression).

        x_hat_i = sign(x_i) mean_j |x_j|,  j over the kept entries

    Behind a sparsifier a tensor then holds three values: zero, and plus or minus the mean
    magnitude of what was kept (Sattler et al. 2020, Algorithm 1). The same as ``magnitude``.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("topk(0.5) | ternary"), {"w": torch.tensor([1.0, 4, 0, -2])})
        >>> packet.sent["w"].decoded
        tensor([ 0.,  3.,  0., -3.])
    """
    return SharedMagnitude("avg", 1)


@dataclass(frozen=True)
class Mean(BasePart):
    """All sent entries as their mean: 32 bits per tensor and none per value.

        x_hat_i = mean_j x_j

    j runs over the entries that are sent (SBC; Sattler et al. 2018, Algorithm 2).

    Only sensible, and only accepted by ``Pipeline``, behind a sparsifier that never
    mixes signs. A tensor that sends nothing has no mean in the message.
    """

    codec_id: ClassVar[str] = "mean"
    projects: ClassVar[bool] = True  # see compressors.bounds
    one_sign: ClassVar[bool] = True

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """One symbol for all; the mean is the side information."""
        codes = torch.zeros(values.numel(), dtype=torch.uint8, device=values.device)
        side = np.array([mean(values)], np.float32)
        out.float32s(side)
        return Symbols(codes, 1, torch.from_numpy(side)[0])

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Tensor]:
        """The mean."""
        return 1, torch.from_numpy(bits.float32s(1))[0]

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        mean_of_all: Tensor = symbols.side
        return mean_of_all.expand(symbols.codes.numel())

    def bound_on(self, k: int) -> Bound:
        """delta = 1 / k: values of one sign, so (sum v)^2 >= sum v^2."""
        note = "1 / k: values of one sign; one entry against k - 1 zeros"
        return contraction(1 / max(k, 1), note)
