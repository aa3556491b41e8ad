"""Which entries of a vector a kernel handles, and the first lines that kernels share.

A program handles up to so many entries of one segment as its layout says; what is true of the
segment it looks up in tables.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors.arraycache import keeps_arrays
from compressors.kernels.gpu.language import constexpr, jit, tl
from compressors.kernels.gpu.layout import Programs, programs_of, upload

ENTRIES = 1024  # per program
_FEWEST = 32  # lanes of a program


@jit
def lanes(segment, first, counts, LANES: constexpr):
    """The program's segment, its entries in that segment, and which of them there are."""
    b = tl.program_id(0)
    s = tl.load(segment + b)
    i = tl.load(first + b) + tl.arange(0, LANES)
    return s, i, i < tl.load(counts + s)


@jit
def place_of(chosen, origins, s, i, inside, CHOSEN: constexpr):
    """The place in segment s of the i-th entry that it sends."""
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
        counts: how many each segment sends.
        symbol_offsets: where each segment's symbols and values go.
        capacities: upper bounds of ``counts``, from which the programs follow.
    """

    flat: Tensor
    starts: Tensor
    chosen: Tensor | None
    origins: Tensor
    counts: Tensor
    symbol_offsets: Tensor
    capacities: tuple[int, ...]

    @property
    def positions(self) -> Tensor:
        """The argument ``chosen`` of a kernel: tensors alone, and it does not look at this one."""
        return self.origins if self.chosen is None else self.chosen

    def layout(self) -> Programs:
        """Their programs."""
        return programs_of(self.capacities, self.flat.device, ENTRIES)

    def arguments(self, layout: Programs) -> tuple[Tensor, ...]:
        """A kernel's ``segment, first, counts, origins, starts, chosen, flat``."""
        tables = (self.counts, self.origins, self.starts, self.positions, self.flat)
        return *layout.tables[:2], *tables


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
    layout: Programs
    tables: tuple[Tensor, Tensor, Tensor]

    def counts(self, entry_counts: np.ndarray) -> np.ndarray:
        """How many entries each bucket has, of ``entry_counts`` (segments,): int64 (buckets,)."""
        return np.clip(entry_counts[self.segment] - self.rank * self.size, 0, self.size)

    def cut(self, entries: Entries) -> Entries:
        """The entries with buckets in the place of segments."""
        of, first, _ = self.tables
        inside = entries.chosen is None
        return Entries(
            flat=entries.flat,
            starts=entries.starts[of] + (first if inside else 0),
            chosen=entries.chosen,
            origins=entries.origins[of] + first,
            counts=(entries.counts[of] - first).clamp(0, self.size),
            symbol_offsets=entries.symbol_offsets[of] + first,
            capacities=self.layout.sizes,
        )


@keeps_arrays
def buckets_of(capacities: tuple[int, ...], size: int, device: torch.device) -> Buckets:
    """The buckets of segments of up to ``capacities`` entries.

    Example:
        >>> cut = buckets_of((5, 0, 3), 2, torch.device("cpu"))
        >>> cut.rank.tolist(), cut.counts(np.array([3, 0, 1])).tolist()
        ([0, 1, 2, 0, 1], [2, 1, 0, 1, 0])
    """
    sizes = np.asarray(capacities, np.int64).reshape(-1)
    many = -(-sizes // size)
    bases = np.cumsum(many) - many
    segment = np.repeat(np.arange(sizes.size), many)
    rank = np.arange(segment.size) - bases[segment]
    parts = np.minimum(size, sizes[segment] - rank * size)
    block = min(ENTRIES, max(_FEWEST, 1 << (size - 1).bit_length()))
    layout = programs_of(tuple(parts.tolist()), device, block)
    of, first, base_tensor = upload(device, segment, rank * size, bases)
    return Buckets(size, segment, rank, bases, layout, (of, first, base_tensor))
