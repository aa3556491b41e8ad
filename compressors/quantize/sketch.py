"""Quantile buckets: values of equal rank share a mean (SketchML)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction
from compressors.errors import PayloadError
from compressors.parts import BasePart, Place, Symbols, code_dtype
from compressors.settings import check_whole, plain

_MOST = 1 << 16


@dataclass(frozen=True)
class Sketch(BasePart):
    """Each value as the mean of its quantile bucket (SketchML, Jiang et al. 2018, section 3.2).

        e_b = y_r,  r = floor(b n / B),  b = 0, ..., B - 1
        x_hat_i = mean(x_j with b_j = b_i),  b_i = max(b with e_b <= x_i)

    y are the n values of one sign in ascending order, from rank 0, and B the buckets of that sign.

    The values below zero and the others are sorted apart, each side gets buckets in
    proportion to its number of values (at least one), and a side's buckets begin at equal
    ranks of it, so a bucket never holds both signs. Equal values share a bucket, so ties leave
    some buckets empty; these are not sent. The quantiles are exact, by sorting; the paper
    approximates the same ones with a streaming sketch. A bucket arrives as the mean of its values,
    which has the least error; in the paper as the middle of its two ends.

    A symbol is a bucket's number; side information is the number of buckets and their
    means, 32 bits each. ``buckets`` is a whole number from 2 to 65536; ``ValueError`` else.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.tensor([1.0, 2.0, 8.0, 9.0, -4.0, -6.0])}
        >>> compress(parse("sketch(3)"), x)[0].sent["w"].decoded
        tensor([ 1.5000,  1.5000,  8.5000,  8.5000, -5.0000, -5.0000])
    """

    codec_id: ClassVar[str] = "sketch"
    projects: ClassVar[bool] = True  # see compressors.bounds
    buckets: int = 256

    def __post_init__(self) -> None:
        plain(self)
        check_whole("sketch: buckets", self.buckets, 2, _MOST)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The numbers of the buckets; their means are the side information."""
        ordered = torch.from_numpy(np.sort(values.detach().numpy()))  # ten times as fast as torch's
        below = int(torch.searchsorted(ordered, ordered.new_zeros(1)))
        low = max(round(self.buckets * below / place.k), int(below > 0))
        low = min(low, self.buckets - int(below < place.k))
        ranks = [_equal_ranks(0, below, low), _equal_ranks(below, place.k, self.buckets - low)]
        # the smallest value of each bucket that is not empty
        edges = torch.unique(ordered[torch.cat(ranks)])
        starts = torch.searchsorted(ordered, edges)
        stops = np.append(starts.numpy(), ordered.numel())
        sums = np.add.reduceat(ordered.numpy(), stops[:-1], dtype=np.float64)
        means = torch.from_numpy((sums / np.diff(stops)).astype(np.float32))
        out.uint(means.numel() - 1, self._width)
        out.float32s(means.numpy())
        codes = torch.searchsorted(edges, values.contiguous(), right=True, out_int32=True) - 1
        return Symbols(codes.to(code_dtype(means.numel())), means.numel(), means)

    @property
    def _width(self) -> int:
        return (self.buckets - 1).bit_length()

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Tensor]:
        """The means of the buckets; their number is the alphabet."""
        count = bits.uint(self._width) + 1
        if count > min(self.buckets, place.k):
            raise PayloadError(
                f"{count} buckets announced for {place.k} values in {self.buckets} buckets"
            )
        return count, torch.from_numpy(bits.float32s(count))

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        means: Tensor = symbols.side
        return means[symbols.codes.int()]  # as they are, uint8 codes would be a mask

    def bound_on(self, k: int) -> Bound:
        """At least 1 / k: one entry may share its bucket with all others."""
        note = "at least 1 / d: a bucket's mean; far more for spread values"
        return contraction(1 / max(k, 1), note)


def _equal_ranks(start: int, stop: int, buckets: int) -> Tensor:
    """The ranks at which ``buckets`` equal parts of ``start`` to ``stop`` begin: none of none."""
    if start == stop:
        return torch.zeros(0, dtype=torch.int64, device="cpu")
    return start + torch.arange(buckets, device="cpu") * (stop - start) // buckets
