"""The k largest of every segment, exactly, in about a read: twin of ``compressors.kernels.select``.

A key is the IEEE bits of a magnitude, 31 bits, and orders as the magnitudes do; with two sides
(``one_sided``) entries above zero and entries below zero are selected each by themselves. A sample
of each segment gives a key that is almost surely a little below the k-th largest. One pass over the
vector marks the entries that reach it, the candidates, by a bit each; they are kept in order, and
four histograms of 8 bits each look at those few alone. Where fewer than k reach it, the segment's
programs keep all of its entries in a second pass: the device decides, and the host does not wait.
The sample decides the time, never the result. Ties go to the lowest index, and zeros are never
selected.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors.arraycache import keeps_arrays
from compressors.kernels.gpu.candidates import (
    BINS,
    BITS,
    LEVEL_BITS,
    LEVEL_COUNT,
    LEVELS,
    bin_of,
    draw_sample,
    gather_keys,
    group_of,
    keep_marked,
    mark_words,
)
from compressors.kernels.gpu.language import constexpr, jit, launch, tl
from compressors.kernels.gpu.layout import PROGRAM_BLOCK, Programs, programs_of, upload

_GROUP = 8 * PROGRAM_BLOCK  # entries of a program; a place among them is an int16
_WORDS = 256  # words of marks of a program, 32 entries each
_PART = 1024  # entries of a group that are looked at together: more would take more registers
_ROOM = PROGRAM_BLOCK  # candidates of a group whose words are kept beside their places
_CHUNK = 512  # candidates that are looked at together
_GROUPS = 1024  # groups whose counts are added up together
_SAMPLE = 8192  # entries that a sample looks at: all of a segment that has no more
_SIGMAS = 3.0  # one more costs a hundredth of a read, a sample that misleads a whole one


@jit
def _enough(p, least, totals, left):
    """The key that candidates reach, or 1 where fewer reach it than are wanted."""
    enough = tl.load(totals + p) >= tl.load(left + p * (LEVELS + 1))
    return tl.where(enough, tl.load(least + p), 1)


@jit
def _word(c, count, bits, slots, words, ROOM: constexpr):
    """Candidates ``c`` of a group; zeros behind the last."""
    word = tl.load(words + c, mask=c < tl.minimum(count, ROOM), other=0)
    far = (c >= ROOM) & (c < count)
    lane = tl.load(slots + c, mask=far, other=0)
    return word | tl.load(bits + lane, mask=far, other=0)


@jit
def _pick(p, at, counts, prefix, left, LEVEL: constexpr):
    """The k-th key's leading bits, as the histograms before ``LEVEL`` have them."""
    level_at = p * (LEVELS + 1) + LEVEL
    bins = BINS - 1 - tl.arange(0, BINS)
    bin_counts = tl.load(counts + (p * LEVELS + LEVEL - 1) * BINS + bins)
    place, remainder = bin_of(bin_counts, tl.load(left + level_at - 1))
    digits = (tl.load(prefix + level_at - 1) << BITS) | place
    if at == 0:  # one program of the segment tells the next kernel
        tl.store(prefix + level_at, digits)
        tl.store(left + level_at, remainder)
    return digits


@jit
def _count(
    segment,
    first,
    sizes,
    starts,
    bits,
    slots,
    words,
    many,
    least,
    totals,
    prefix,
    left,
    counts,
    LEVEL: constexpr,
    SIDES: constexpr,
    CHUNK: constexpr,
    GROUP: constexpr,
    PART: constexpr,
    ROOM: constexpr,
):
    b, s, at, bits, slots, words = group_of(segment, first, starts, bits, slots, words, ROOM)
    count = tl.load(many + b)
    p = s * SIDES
    high = 0
    low = 0
    if LEVEL > 0:
        high = _pick(p, at, counts, prefix, left, LEVEL)
        low = high
        if SIDES == 2:
            low = _pick(p + 1, at, counts, prefix, left, LEVEL)
    else:
        high = _enough(p, least, totals, left)
        low = _enough(p + SIDES - 1, least, totals, left)
        if (high != tl.load(least + p)) | (low != tl.load(least + p + SIDES - 1)):
            size = tl.minimum(tl.load(sizes + s) - at, GROUP).to(tl.int32)
            count = gather_keys(size, bits, slots, words, high, low, PART, ROOM)
            tl.store(many + b, count)
            tl.debug_barrier()  # what other threads of the program have stored is read below
    DOWN: tl.constexpr = BITS * (LEVELS - 1 - LEVEL)
    ALL: tl.constexpr = SIDES * BINS
    bin_counts = tl.zeros((ALL,), tl.int32)
    for start in range(0, count, CHUNK):
        c = start + tl.arange(0, CHUNK)
        word = _word(c, count, bits, slots, words, ROOM)
        key = word & 0x7FFFFFFF
        mask = c < count
        if LEVEL > 0:
            mask = mask & ((key >> (DOWN + BITS)) == tl.where(word < 0, low, high))
        bin_ = (key >> DOWN) & (BINS - 1)
        if SIDES == 2:
            bin_ = tl.where(word < 0, bin_ + BINS, bin_)
        bin_counts += tl.histogram(bin_, ALL, mask=mask)
    j = tl.arange(0, ALL)
    place = ((p + j // BINS) * LEVELS + LEVEL) * BINS + j % BINS
    tl.atomic_add(counts + place, bin_counts, mask=bin_counts > 0, sem="relaxed")


@jit
def _tally(
    segment,
    first,
    sizes,
    starts,
    bits,
    slots,
    words,
    many,
    prefix,
    left,
    counts,
    above,
    ties,
    SIDES: constexpr,
    CHUNK: constexpr,
    ROOM: constexpr,
):
    b, s, at, bits, slots, words = group_of(segment, first, starts, bits, slots, words, ROOM)
    count = tl.load(many + b)
    for side in tl.static_range(SIDES):
        edge = _pick(s * SIDES + side, at, counts, prefix, left, LEVELS)
        over = 0
        same = 0
        for start in range(0, count, CHUNK):
            c = start + tl.arange(0, CHUNK)
            word = _word(c, count, bits, slots, words, ROOM)
            mask = c < count
            if SIDES == 2:
                mask = mask & ((word < 0) == (side == 1))
            key = word & 0x7FFFFFFF
            over += tl.sum((mask & (key > edge)).to(tl.int32), 0)
            same += tl.sum((mask & (key == edge)).to(tl.int32), 0)
        tl.store(above + b * SIDES + side, over)
        tl.store(ties + b * SIDES + side, same)


@jit
def _share(
    first_group, left, origin, above, ties, place, counts, SIDES: constexpr, LANES: constexpr
):
    p = tl.program_id(0).to(tl.int64)
    s = p // SIDES
    begin = tl.load(first_group + s)
    end = tl.load(first_group + s + 1)
    remainder = tl.load(left + p * (LEVELS + 1) + LEVELS)
    start = tl.load(origin + p)
    out = start
    for group in range(begin, end, LANES):
        b = group + tl.arange(0, LANES)
        at = b * SIDES + p % SIDES
        same = tl.load(ties + at, mask=b < end, other=0)
        over = tl.load(above + at, mask=b < end, other=0)
        taken = tl.minimum(tl.maximum(remainder - (tl.cumsum(same, 0) - same), 0), same)
        total = (over + taken).to(tl.int64)
        tl.store(ties + at, taken, mask=b < end)  # from here on those that are taken
        tl.store(place + at, out + tl.cumsum(total, 0) - total, mask=b < end)
        remainder -= tl.sum(same, 0)
        out += tl.sum(total, 0)
    tl.store(counts + p, out - start)


@jit
def _compact(
    segment,
    first,
    sizes,
    starts,
    bits,
    slots,
    words,
    many,
    prefix,
    ties,
    place,
    chosen,
    sums,
    edges,
    SIDES: constexpr,
    CHUNK: constexpr,
    ROOM: constexpr,
):
    b, s, at, bits, slots, words = group_of(segment, first, starts, bits, slots, words, ROOM)
    count = tl.load(many + b)
    for side in tl.static_range(SIDES):
        edge = tl.load(prefix + (s * SIDES + side) * (LEVELS + 1) + LEVELS)
        left = tl.load(ties + b * SIDES + side)
        out = chosen + tl.load(place + b * SIDES + side)
        total = tl.zeros((CHUNK,), tl.float64)
        least = tl.full((CHUNK,), 0x7FFFFFFF, tl.int32)
        for start in range(0, count, CHUNK):
            c = start + tl.arange(0, CHUNK)
            lane = tl.load(slots + c, mask=c < count, other=0)
            word = _word(c, count, bits, slots, words, ROOM)
            key = word & 0x7FFFFFFF
            mask = c < count
            if SIDES == 2:
                mask = mask & ((word < 0) == (side == 1))
            tie = (mask & (key == edge)).to(tl.int32)
            keep = (mask & (key > edge)) | ((tie != 0) & (tl.cumsum(tie, 0) <= left))
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
class TopEntries:
    """What was selected, still on the device.

    Args:
        positions: int64 (sides * room,); those of a segment, sorted, begin at
            ``side * room`` plus the sum of the k before it.
        found: how many there are: int64 (segments, sides).
        sums: the sums of their magnitudes: float64 (segments, sides), in no fixed order.
        edges: the least magnitude of them as IEEE bits (2**31 - 1 of none): int32, as ``found``.
        room: the sum of all k.
    """

    positions: Tensor
    counts: Tensor
    sums: Tensor
    edges: Tensor
    room: int


def largest_of_segments(flat: Tensor, layout: Programs, k: np.ndarray, sides: int) -> TopEntries:
    """The ``k`` entries of largest magnitude of every segment, ties to the lowest index.

    Nothing waits for the host, for any samples.

    Args:
        flat: float32 (entries,), finite.
        layout: its segments.
        k: int64 (segments,), 1 to a segment's size, and anything for one of no entries.
        sides: 1 for magnitudes of any sign; 2 for the k largest entries above zero and
            the k smallest below zero.
    """
    device, both = flat.device, len(layout.sizes) * sides
    lanes = min(_SAMPLE, 1 << max(4, (max(layout.sizes) - 1).bit_length()))
    k_table, rank, origin, room = _targets(layout.sizes, tuple(k.tolist()), sides, lanes, device)
    groups, marked = (programs_of(layout.sizes, device, n) for n in (_GROUP, 32 * _WORDS))
    state = (both, both, *[both * (LEVEL_COUNT + 1)] * 2, both * LEVEL_COUNT << LEVEL_BITS)
    parts = (
        *state,
        groups.blocks,
        *[groups.blocks * sides] * 2,
        groups.blocks * _ROOM,
        marked.blocks * _WORDS,
    )
    padded = [-(-size // 4) * 4 for size in parts]  # to 16 bytes, as ``upload`` does
    scratch = torch.empty(sum(padded), dtype=torch.int32, device=device).split(padded)
    least, totals, prefix, left, counts, many, above, ties, words, marks = scratch
    slots = torch.empty(layout.total, dtype=torch.int16, device=device)
    place = torch.empty(above.shape, dtype=torch.int64, device=device)
    positions = torch.empty(sides * room, dtype=torch.int64, device=device)
    sent = torch.empty((len(layout.sizes), sides), dtype=torch.int64, device=device)
    sums, edges = (
        torch.empty(sent.shape, dtype=kind, device=device) for kind in (torch.float64, torch.int32)
    )

    bits, by_side = flat.view(torch.int32), {"SIDES": sides}
    cut = {"GROUP": _GROUP, "PART": _PART, "ROOM": _ROOM}
    few = {**by_side, "CHUNK": _CHUNK, "ROOM": _ROOM}
    tables = (*groups.tables, bits, slots, words, many)
    kth = (prefix, left, counts)  # the leading bits of the k-th keys, and what they follow from
    launch(
        draw_sample,
        both,
        *groups.tables[2:],
        bits,
        rank,
        k_table,
        least,
        totals,
        *kth,
        sums,
        edges,
        LANES=lanes,
        warps=8,
        **by_side,
    )
    launch(mark_words, marked.blocks, *marked.tables, bits, marks, least, SIDES=sides, WORDS=_WORDS)
    launch(
        keep_marked,
        groups.blocks,
        *tables,
        marks,
        marked.first_block,
        totals,
        SIDES=sides,
        GROUP=_GROUP,
        ROOM=_ROOM,
        WORDS=_WORDS,
        warps=8,
    )
    for level in range(LEVEL_COUNT):
        launch(
            _count,
            groups.blocks,
            *tables,
            least,
            totals,
            *kth,
            LEVEL=level,
            warps=8 // sides,
            **{**cut, **few},
        )
    launch(_tally, groups.blocks, *tables, *kth, above, ties, **few)
    launch(
        _share,
        both,
        groups.first_block,
        left,
        origin,
        above,
        ties,
        place,
        sent,
        LANES=_GROUPS,
        **by_side,
    )
    launch(_compact, groups.blocks, *tables, prefix, ties, place, positions, sums, edges, **few)
    return TopEntries(positions, sent, sums, edges, room)


@keeps_arrays
def _targets(
    sizes: tuple[int, ...], k: tuple[int, ...], sides: int, lanes: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Of each segment and side how many entries are wanted, the rank in its sample of the key that
    candidates reach, and where the chosen go: int64 (segments, sides). Then the sum of all k."""
    many, room = np.array(k, np.int64), sum(k)
    base = np.cumsum(many) - many
    same = [np.stack([rows] * sides, 1) for rows in (many, sample_ranks(sizes, many, lanes))]
    origin = np.stack([base + side * room for side in range(sides)], 1)
    k_table, reached, origins = upload(device, *same, origin)
    return k_table, reached, origins, room


def sample_ranks(sizes: Sequence[int], k: np.ndarray, lanes: int = _SAMPLE) -> np.ndarray:
    """The rank in a sample of ``lanes`` that is almost surely below the k-th largest of a segment:
    int64 (segments,). A segment of no more entries is its own sample.

    Example:
        >>> sample_ranks((10**6, 100), np.array([10**4, 3])).tolist()
        [110, 3]
    """
    n = np.asarray(sizes, np.int64)
    share = k / np.maximum(n, 1)
    rank = lanes * share + _SIGMAS * np.sqrt(lanes * share * (1 - share)) + 2
    return np.where(n > lanes, rank, k).astype(np.int64)
