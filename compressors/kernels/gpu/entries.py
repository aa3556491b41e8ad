"""Which entries of a vector a kernel handles, and the first lines that kernels share.

A program handles up to so many entries of one segment as its layout says; what is true of the
segment it looks up in tables.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors.kept_arrays import keeps_arrays
from compressors.kernels.gpu.language import constexpr, jit, tl
from compressors.kernels.gpu.layout import Layout, layout_of, upload

ENTRIES = 1024  # per program
_FEWEST = 32  # lanes of a program


@jit
def lanes(segment, first, found, LANES: constexpr):
    """The program's segment, its entries in that segment, and which of them there are."""
    b = tl.program_id(0)
    s = tl.load(segment + b)
    i = tl.load(first + b) + tl.arange(0, LANES)
    return s, i, i < tl.load(found + s)


@jit
def place_of(chosen, origins, s, i, inside, CHOSEN: constexpr):
    """Where entry i of what segment s sends stands in that segment."""
    place = i
    if CHOSEN:
        place = tl.load(chosen + tl.load(origins + s) + i, mask=inside, other=0)
    return place


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries that are sent, all on one device; tables are int64 (segments,).

    Args:
        flat: the vector, float32.
        starts: where each segment starts in it.
        chosen: positions within the segments, int64; None where every entry is sent.
        origins: where each segment's positions start in ``chosen``.
        found: how many each segment sends.
        outs: where each segment's symbols and values go.
        most: upper bounds of ``found``, from which the programs follow.
    """

    flat: Tensor
    starts: Tensor
    chosen: Tensor | None
    origins: Tensor
    found: Tensor
    outs: Tensor
    most: tuple[int, ...]

    @property
    def positions(self) -> Tensor:
        """What a kernel is given as ``chosen``: tensors alone, and it does not look at this one."""
        return self.origins if self.chosen is None else self.chosen

    def layout(self) -> Layout:
        """Their programs."""
        return layout_of(self.most, self.flat.device, ENTRIES)


@dataclass(frozen=True, eq=False)
class Buckets:
    """Segments cut into buckets of ``size`` entries each, the last of a segment shorter.

    Args:
        size: entries per bucket.
        segment: of each bucket: int64 (buckets,).
        rank: of each bucket, its place among those of its segment: int64 (buckets,).
        bases: the first bucket of each segment: int64 (segments,).
        layout: the programs of a kernel that handles buckets as segments.
        tables: ``segment``, the first entry of each bucket in it, and ``bases``, on the device.
    """

    size: int
    segment: np.ndarray
    rank: np.ndarray
    bases: np.ndarray
    layout: Layout
    tables: tuple[Tensor, Tensor, Tensor]

    def counts(self, found: np.ndarray) -> np.ndarray:
        """How many entries each bucket has, of ``found`` (segments,): int64 (buckets,)."""
        return np.clip(found[self.segment] - self.rank * self.size, 0, self.size)

    def cut(self, entries: Entries) -> Entries:
        """The entries with buckets in the place of segments."""
        of, first, _ = self.tables
        inside = entries.chosen is None
        return Entries(
            flat=entries.flat,
            starts=entries.starts[of] + (first if inside else 0),
            chosen=entries.chosen,
            origins=entries.origins[of] + first,
            found=(entries.found[of] - first).clamp(0, self.size),
            outs=entries.outs[of] + first,
            most=self.layout.sizes,
        )


@keeps_arrays
def buckets_of(most: tuple[int, ...], size: int, device: torch.device) -> Buckets:
    """The buckets of segments of up to ``most`` entries.

    Example:
        >>> cut = buckets_of((5, 0, 3), 2, torch.device("cpu"))
        >>> cut.rank.tolist(), cut.counts(np.array([3, 0, 1])).tolist()
        ([0, 1, 2, 0, 1], [2, 1, 0, 1, 0])
    """
    sizes = np.asarray(most, np.int64).reshape(-1)
    many = -(-sizes // size)
    bases = np.cumsum(many) - many
    segment = np.repeat(np.arange(sizes.size), many)
    rank = np.arange(segment.size) - bases[segment]
    parts = np.minimum(size, sizes[segment] - rank * size)
    block = min(ENTRIES, max(_FEWEST, 1 << (size - 1).bit_length()))
    layout = layout_of(tuple(parts.tolist()), device, block)
    of, first, there = upload(device, segment, rank * size, bases)
    return Buckets(size, segment, rank, bases, layout, (of, first, there))
