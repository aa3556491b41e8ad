"""The k largest of every segment, exactly, by radix: twin of ``compressors.kernels.select``.

A key is the IEEE bits of a magnitude, 31 bits, and orders as the magnitudes do; with two sides
(``one_sided``) entries above zero and entries below zero are selected each by themselves. A
histogram of the leading 11 bits says in which bin the k-th largest key lies. A second pass over
the vector keeps the entries from that bin on, block by block, in order; two more histograms
of 10 bits each look at those few alone. Ties go to the lowest index, and zeros are never selected.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from compressors.kernels.gpu.language import constexpr, jit, launch, tl
from compressors.kernels.gpu.layout import BLOCK, Layout, upload

_LEADING, _REST = 2048, 1024
_CHUNK = 512  # candidates of a block that are looked at together
_BLOCKS = 1024  # blocks whose counts are added up together


@jit
def _leading(segment, first, sizes, starts, bits, counts, SIDES: constexpr,
             BLOCK: constexpr):  # fmt: skip
    s = tl.load(segment + tl.program_id(0))
    i = tl.load(first + tl.program_id(0)) + tl.arange(0, BLOCK)
    inside = i < tl.load(sizes + s)
    word = tl.load(bits + tl.load(starts + s) + i, mask=inside, other=0)
    BINS: tl.constexpr = SIDES * 2048
    found = tl.histogram((word >> 20) & (BINS - 1), BINS, mask=(word & 0x7FFFFFFF) != 0)
    j = tl.arange(0, BINS)
    tl.atomic_add(counts + s * BINS + j, found, mask=found > 0, sem="relaxed")


@jit
def _pick(counts, wanted, prefix, SHIFT: constexpr, BINS: constexpr):
    p = tl.program_id(0)
    bins = BINS - 1 - tl.arange(0, BINS)
    here = tl.load(counts + p * BINS + bins)
    most = tl.load(wanted + p)
    passed = tl.cumsum(here, 0) < most
    place = tl.maximum(BINS - 1 - tl.sum(passed.to(tl.int32), 0), 0)
    taken = tl.sum(tl.where(bins > place, here, 0), 0)
    tl.store(prefix + p, (tl.load(prefix + p) << SHIFT) | place)
    tl.store(wanted + p, most - taken)


@jit
def _candidates(segment, first, sizes, starts, bits, prefix, slots, many, SIDES: constexpr,
                BLOCK: constexpr):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    s = tl.load(segment + b)
    lane = tl.arange(0, BLOCK)
    i = tl.load(first + b) + lane
    word = tl.load(bits + tl.load(starts + s) + i, mask=i < tl.load(sizes + s), other=0)
    key = word & 0x7FFFFFFF
    least = tl.load(prefix + s * SIDES)
    if SIDES == 2:
        least = tl.where(word < 0, tl.load(prefix + s * 2 + 1), least)
    taken = ((key != 0) & ((key >> 20) >= least)).to(tl.int32)
    place = tl.cumsum(taken, 0) - 1
    tl.store(slots + b * BLOCK + place, lane.to(tl.int16), mask=taken != 0)
    tl.store(many + b, tl.sum(taken, 0))


@jit
def _rest(segment, first, starts, bits, slots, many, prefix, counts, DOWN: constexpr,
          SIDES: constexpr, CHUNK: constexpr, BLOCK: constexpr):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    s = tl.load(segment + b)
    base = bits + tl.load(starts + s) + tl.load(first + b)
    count = tl.load(many + b)
    for start in range(0, count, CHUNK):
        c = start + tl.arange(0, CHUNK)
        lane = tl.load(slots + b * BLOCK + c, mask=c < count, other=0)
        word = tl.load(base + lane, mask=c < count, other=0)
        key = word & 0x7FFFFFFF
        p = s * SIDES + tl.where(word < 0, SIDES - 1, 0)
        edge = (c < count) & ((key >> (DOWN + 10)) == tl.load(prefix + p))
        bin_ = (key >> DOWN) & 1023
        tl.atomic_add(counts + p * 1024 + bin_, 1, mask=edge, sem="relaxed")


@jit
def _tally(segment, first, starts, bits, slots, many, prefix, above, ties, SIDES: constexpr,
           CHUNK: constexpr, BLOCK: constexpr):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    s = tl.load(segment + b)
    base = bits + tl.load(starts + s) + tl.load(first + b)
    count = tl.load(many + b)
    for side in tl.static_range(SIDES):
        edge = tl.load(prefix + s * SIDES + side)
        over = 0
        same = 0
        for start in range(0, count, CHUNK):
            c = start + tl.arange(0, CHUNK)
            lane = tl.load(slots + b * BLOCK + c, mask=c < count, other=0)
            word = tl.load(base + lane, mask=c < count, other=0)
            mine = c < count
            if SIDES == 2:
                mine = mine & ((word < 0) == (side == 1))
            key = word & 0x7FFFFFFF
            over += tl.sum((mine & (key > edge)).to(tl.int32), 0)
            same += tl.sum((mine & (key == edge)).to(tl.int32), 0)
        tl.store(above + b * SIDES + side, over)
        tl.store(ties + b * SIDES + side, same)


@jit
def _share(first_block, wanted, origin, above, ties, taken, place, found, SIDES: constexpr,
           LANES: constexpr):  # fmt: skip
    p = tl.program_id(0).to(tl.int64)
    s = p // SIDES
    end = tl.load(first_block + s + 1)
    left = tl.load(wanted + p).to(tl.int64)
    start = tl.load(origin + p)
    out = start
    for block in range(tl.load(first_block + s), end, LANES):
        b = block + tl.arange(0, LANES)
        at = b * SIDES + p % SIDES
        same = tl.load(ties + at, mask=b < end, other=0).to(tl.int64)
        over = tl.load(above + at, mask=b < end, other=0).to(tl.int64)
        mine = tl.minimum(tl.maximum(left - (tl.cumsum(same, 0) - same), 0), same)
        here = over + mine
        tl.store(taken + at, mine, mask=b < end)
        tl.store(place + at, out + tl.cumsum(here, 0) - here, mask=b < end)
        left -= tl.sum(same, 0)
        out += tl.sum(here, 0)
    tl.store(found + p, out - start)


@jit
def _compact(segment, first, starts, bits, slots, many, prefix, taken, place, chosen, sums,
             edges, SIDES: constexpr, CHUNK: constexpr, BLOCK: constexpr):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    s = tl.load(segment + b)
    at = tl.load(first + b)
    base = bits + tl.load(starts + s) + at
    count = tl.load(many + b)
    for side in tl.static_range(SIDES):
        edge = tl.load(prefix + s * SIDES + side)
        left = tl.load(taken + b * SIDES + side)
        out = chosen + tl.load(place + b * SIDES + side)
        total = tl.zeros((CHUNK,), tl.float64)
        least = tl.full((CHUNK,), 0x7FFFFFFF, tl.int32)
        for start in range(0, count, CHUNK):
            c = start + tl.arange(0, CHUNK)
            lane = tl.load(slots + b * BLOCK + c, mask=c < count, other=0)
            word = tl.load(base + lane, mask=c < count, other=0)
            key = word & 0x7FFFFFFF
            mine = c < count
            if SIDES == 2:
                mine = mine & ((word < 0) == (side == 1))
            tie = (mine & (key == edge)).to(tl.int32)
            keep = (mine & (key > edge)) | ((tie != 0) & (tl.cumsum(tie, 0) <= left))
            rank = tl.cumsum(keep.to(tl.int32), 0) - 1
            tl.store(out + rank, at + lane, mask=keep)
            value = tl.where(keep, key, 0).to(tl.float32, bitcast=True)
            total += value.to(tl.float64)
            least = tl.minimum(least, tl.where(keep, key, 0x7FFFFFFF))
            out += tl.sum(keep.to(tl.int32), 0)
            left -= tl.sum(tie, 0)
        tl.atomic_add(sums + s * SIDES + side, tl.sum(total, 0), sem="relaxed")
        tl.atomic_min(edges + s * SIDES + side, tl.min(least, 0), sem="relaxed")


@dataclass(frozen=True)
class Chosen:
    """What was selected, still on the device.

    Args:
        positions: int64 (sides * room,); those of a segment, sorted, stand from
            ``side * room`` plus the sum of the k before it on.
        found: how many there are: int64 (segments, sides).
        sums: the sums of their magnitudes: float64 (segments, sides), in no fixed order.
        edges: the least magnitude of them as IEEE bits (2**31 - 1 of none): int32, likewise.
        room: the sum of all k.
    """

    positions: Tensor
    found: Tensor
    sums: Tensor
    edges: Tensor
    room: int


@dataclass(frozen=True)
class _Kept:
    """The entries of each block that may be among the largest, and each segment's k-th key."""

    tables: tuple[Tensor, ...]  # what kernels take of them
    ties: Tensor  # how many entries of the k-th key are taken: int32 (segments, sides)
    shared: dict[str, int]


def largest(flat: Tensor, layout: Layout, k: np.ndarray, sides: int) -> Chosen:
    """The ``k`` entries of largest magnitude of every segment, ties to the lowest index.

    Args:
        flat: float32 (entries,), finite.
        layout: its segments.
        k: int64 (segments,), 1 to a segment's size, and anything for one of no entries.
        sides: 1 for magnitudes of any sign; 2 for the k largest entries above zero, and beside
            them the k smallest below zero.
    """
    device = flat.device
    wanted, origin, room = _wanted(tuple(k.tolist()), sides, device)
    kept = _keep(flat.view(torch.int32), layout, wanted.to(torch.int32), sides)

    above = torch.empty((layout.blocks, sides), dtype=torch.int32, device=device)
    ties = torch.empty_like(above)
    launch(_tally, layout.blocks, *kept.tables, above, ties, **kept.shared)
    taken = torch.empty(above.shape, dtype=torch.int64, device=device)
    place = torch.empty_like(taken)
    found = torch.empty_like(wanted)
    launch(_share, wanted.numel(), layout.first_block, kept.ties, origin, above, ties, taken,
           place, found, SIDES=sides, LANES=_BLOCKS)  # fmt: skip
    positions = torch.empty(sides * room, dtype=torch.int64, device=device)
    sums = torch.zeros(wanted.shape, dtype=torch.float64, device=device)
    edges = torch.full(sums.shape, 0x7FFFFFFF, dtype=torch.int32, device=device)
    told = (taken, place, positions, sums, edges)
    launch(_compact, layout.blocks, *kept.tables, *told, **kept.shared)
    return Chosen(positions, found, sums, edges, room)


@lru_cache(maxsize=64)
def _wanted(k: tuple[int, ...], sides: int, device: torch.device) -> tuple[Tensor, Tensor, int]:
    """How many entries are wanted of each segment and side, where they go, and all ``k``."""
    many, room = np.array(k, np.int64), sum(k)
    base = np.cumsum(many) - many
    rows = np.stack([base + side * room for side in range(sides)], 1)
    wanted, origin = upload(device, np.stack([many] * sides, 1), rows)
    return wanted, origin, room


def _keep(bits: Tensor, layout: Layout, wanted: Tensor, sides: int) -> _Kept:
    """Three histograms; ``wanted`` (segments, sides) becomes how many of the k-th key are taken."""
    segment, first, _, starts = layout.tables
    device, prefix = bits.device, torch.zeros_like(wanted)
    shared = {"SIDES": sides, "BLOCK": BLOCK}
    few = {**shared, "CHUNK": _CHUNK}

    counts = torch.zeros((*wanted.shape, _LEADING), dtype=torch.int32, device=device)
    launch(_leading, layout.blocks, *layout.tables, bits, counts, warps=8, **shared)
    launch(_pick, wanted.numel(), counts, wanted, prefix, SHIFT=11, BINS=_LEADING)
    slots = torch.empty(layout.blocks * BLOCK, dtype=torch.int16, device=device)
    many = torch.empty(layout.blocks, dtype=torch.int32, device=device)
    launch(_candidates, layout.blocks, *layout.tables, bits, prefix, slots, many, warps=8, **shared)
    tables = (segment, first, starts, bits, slots, many, prefix)
    for down in (10, 0):
        counts = torch.zeros((*wanted.shape, _REST), dtype=torch.int32, device=device)
        launch(_rest, layout.blocks, *tables, counts, DOWN=down, **few)
        launch(_pick, wanted.numel(), counts, wanted, prefix, SHIFT=10, BINS=_REST)
    return _Kept(tables, wanted, few)
