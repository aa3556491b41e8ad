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
_BITS, _LEVELS = 8, 4  # of a histogram, and how many there are


@jit
def _bin(counts, rank, BINS: constexpr):
    """The bin that the ``rank``-th is in by ``counts``, the highest bin first, and which of it that
    one is."""
    bins = BINS - 1 - tl.arange(0, BINS)
    passed = tl.cumsum(counts, 0) < rank
    place = tl.maximum(BINS - 1 - tl.sum(passed.to(tl.int32), 0), 0)
    return place, rank - tl.sum(tl.where(bins > place, counts, 0), 0)


@jit
def _sample(
    sizes,
    starts,
    bits,
    ranks,
    k,
    least,
    totals,
    prefix,
    left,
    counts,
    sums,
    edges,
    SIDES: constexpr,
    LANES: constexpr,
    LEVELS: constexpr,
    BITS: constexpr,
):
    p = tl.program_id(0).to(tl.int64)
    s = p // SIDES
    size = tl.load(sizes + s)
    j = tl.arange(0, LANES).to(tl.int64)
    # One entry of each stretch, at a place in the stretch that follows no period.
    spread = ((j << 16) + (j * 40503 & 65535)) * size // (LANES << 16)
    i = tl.where(size > LANES, spread, j)
    word = tl.load(bits + tl.load(starts + s) + i, mask=i < size, other=0)
    key = word & 0x7FFFFFFF
    if SIDES == 2:
        key = tl.where((word < 0) == (p % 2 == 1), key, 0)
    rank = tl.load(ranks + p)
    top = 0
    for down in tl.static_range(23, 8, -8):  # the 15 bits below would leave out one in fifty
        same_top = (key != 0) & ((key >> (down + 8)) == top)
        place, rank = _bin(tl.histogram(255 - ((key >> down) & 255), 256, mask=same_top), rank, 256)
        top = (top << 8) | place
    tl.store(least + p, tl.maximum(top << 15, 1))
    tl.store(left + p * (LEVELS + 1), tl.load(k + p).to(tl.int32))
    tl.store(prefix + p * (LEVELS + 1), 0)
    tl.store(totals + p, 0)
    BINS: tl.constexpr = LEVELS << BITS
    tl.store(counts + p * BINS + tl.arange(0, BINS), 0)
    tl.store(sums + p, 0.0)
    tl.store(edges + p, 0x7FFFFFFF)


@jit
def _group(segment, first, starts, bits, slots, words, ROOM: constexpr):
    """The program's number, its segment, its first entry there, and where its own of each stand."""
    b = tl.program_id(0).to(tl.int64)
    s = tl.load(segment + b)
    at = tl.load(first + b)
    entry = tl.load(starts + s) + at
    return b, s, at, bits + entry, slots + entry, words + b * ROOM


@jit
def _gather(size, bits, slots, words, high, low, PART: constexpr, ROOM: constexpr):
    """Keeps a group's keys from ``high`` on, below zero from ``low`` on: how many."""
    count = 0
    for start in range(0, size, PART):
        lane = start + tl.arange(0, PART)
        word = tl.load(bits + lane, mask=lane < size, other=0)
        taken = ((word & 0x7FFFFFFF) >= tl.where(word < 0, low, high)).to(tl.int32)
        place = count + tl.cumsum(taken, 0) - 1
        tl.store(slots + place, lane.to(tl.int16), mask=taken != 0)
        tl.store(words + place, word, mask=(taken != 0) & (place < ROOM))
        count += tl.sum(taken, 0)
    return count


@jit
def _mark(segment, first, sizes, starts, bits, marks, least, SIDES: constexpr, WORDS: constexpr):
    """Of 32 entries each, one word: which of them reach the sample's key.

    Adding up places over all entries, few of which are kept, took twice the time of reading them.
    """
    b = tl.program_id(0).to(tl.int64)
    s = tl.load(segment + b)
    at = tl.load(first + b)
    left = tl.minimum(tl.load(sizes + s) - at, WORDS * 32).to(tl.int32)
    row = tl.arange(0, WORDS)
    j = tl.arange(0, 32)[None, :]
    lane = row[:, None] * 32 + j
    word = tl.load(bits + tl.load(starts + s) + at + lane, mask=lane < left, other=0)
    high = tl.load(least + s * SIDES)
    if SIDES == 2:
        high = tl.where(word < 0, tl.load(least + s * 2 + 1), high)
    taken = (word & 0x7FFFFFFF) >= high
    tl.store(marks + b * WORDS + row, tl.sum(tl.where(taken, 1 << j, 0), 1))


@jit
def _ones(word):
    """How many bits of the uint32 ``word`` are set."""
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    return ((((word + (word >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24).to(tl.int32)


@jit
def _candidates(
    segment,
    first,
    sizes,
    starts,
    bits,
    slots,
    words,
    many,
    marks,
    offsets,
    totals,
    SIDES: constexpr,
    GROUP: constexpr,
    ROOM: constexpr,
    WORDS: constexpr,
):
    """Keeps the entries that are marked, in order. Few are: the marks are taken one by one."""
    b, s, at, bits, slots, words = _group(segment, first, starts, bits, slots, words, ROOM)
    size = tl.minimum(tl.load(sizes + s) - at, GROUP).to(tl.int32)
    row = tl.arange(0, GROUP // 32)
    source = marks + tl.load(offsets + s) * WORDS + at // 32
    left = tl.load(source + row, mask=row * 32 < size, other=0).to(tl.uint32, bitcast=True)
    ones = _ones(left)
    place = tl.cumsum(ones, 0) - ones
    below = tl.zeros((GROUP // 32,), tl.int32)
    for _ in range(tl.max(ones, 0)):
        inside = left != 0
        lane = row * 32 + _ones((left & (~left + 1)) - 1)  # of the lowest mark
        word = tl.load(bits + lane, mask=inside, other=0)
        tl.store(slots + place, lane.to(tl.int16), mask=inside)
        tl.store(words + place, word, mask=inside & (place < ROOM))
        below += (word < 0).to(tl.int32)
        left = left & (left - 1)
        place += 1
    count = tl.sum(ones, 0)
    tl.store(many + b, count)
    if SIDES == 2:
        minus = tl.sum(below, 0)
        tl.atomic_add(totals + s * 2 + 1, minus, sem="relaxed")
        count -= minus
    tl.atomic_add(totals + s * SIDES, count, sem="relaxed")


@jit
def _enough(p, least, totals, left, LEVELS: constexpr):
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
def _pick(p, at, counts, prefix, left, LEVEL: constexpr, LEVELS: constexpr, BITS: constexpr):
    """The k-th key's leading bits, as the histograms before ``LEVEL`` have them."""
    BINS: tl.constexpr = 1 << BITS
    level_at = p * (LEVELS + 1) + LEVEL
    bins = BINS - 1 - tl.arange(0, BINS)
    bin_counts = tl.load(counts + (p * LEVELS + LEVEL - 1) * BINS + bins)
    place, remainder = _bin(bin_counts, tl.load(left + level_at - 1), BINS)
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
    LEVELS: constexpr,
    BITS: constexpr,
    SIDES: constexpr,
    CHUNK: constexpr,
    GROUP: constexpr,
    PART: constexpr,
    ROOM: constexpr,
):
    b, s, at, bits, slots, words = _group(segment, first, starts, bits, slots, words, ROOM)
    count = tl.load(many + b)
    p = s * SIDES
    high = 0
    low = 0
    if LEVEL > 0:
        high = _pick(p, at, counts, prefix, left, LEVEL, LEVELS, BITS)
        low = high
        if SIDES == 2:
            low = _pick(p + 1, at, counts, prefix, left, LEVEL, LEVELS, BITS)
    else:
        high = _enough(p, least, totals, left, LEVELS)
        low = _enough(p + SIDES - 1, least, totals, left, LEVELS)
        if (high != tl.load(least + p)) | (low != tl.load(least + p + SIDES - 1)):
            size = tl.minimum(tl.load(sizes + s) - at, GROUP).to(tl.int32)
            count = _gather(size, bits, slots, words, high, low, PART, ROOM)
            tl.store(many + b, count)
            tl.debug_barrier()  # what other threads of the program have stored is read below
    DOWN: tl.constexpr = BITS * (LEVELS - 1 - LEVEL)
    BINS: tl.constexpr = 1 << BITS
    ALL: tl.constexpr = SIDES << BITS
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
    LEVELS: constexpr,
    BITS: constexpr,
    SIDES: constexpr,
    CHUNK: constexpr,
    ROOM: constexpr,
):
    b, s, at, bits, slots, words = _group(segment, first, starts, bits, slots, words, ROOM)
    count = tl.load(many + b)
    for side in tl.static_range(SIDES):
        edge = _pick(s * SIDES + side, at, counts, prefix, left, LEVELS, LEVELS, BITS)
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
    first_group,
    left,
    origin,
    above,
    ties,
    place,
    counts,
    LEVELS: constexpr,
    SIDES: constexpr,
    LANES: constexpr,
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
    LEVELS: constexpr,
    SIDES: constexpr,
    CHUNK: constexpr,
    ROOM: constexpr,
):
    b, s, at, bits, slots, words = _group(segment, first, starts, bits, slots, words, ROOM)
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
    state = (both, both, *[both * (_LEVELS + 1)] * 2, both * _LEVELS << _BITS)
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

    bits, levels = flat.view(torch.int32), {"LEVELS": _LEVELS, "SIDES": sides}
    cut = {"GROUP": _GROUP, "PART": _PART, "ROOM": _ROOM}
    few = {**levels, "CHUNK": _CHUNK, "ROOM": _ROOM}
    tables = (*groups.tables, bits, slots, words, many)
    kth = (prefix, left, counts)  # the leading bits of the k-th keys, and what they follow from
    launch(
        _sample,
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
        BITS=_BITS,
        warps=8,
        **levels,
    )
    launch(_mark, marked.blocks, *marked.tables, bits, marks, least, SIDES=sides, WORDS=_WORDS)
    launch(
        _candidates,
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
    for level in range(_LEVELS):
        launch(
            _count,
            groups.blocks,
            *tables,
            least,
            totals,
            *kth,
            LEVEL=level,
            BITS=_BITS,
            warps=8 // sides,
            **{**cut, **few},
        )
    launch(_tally, groups.blocks, *tables, *kth, above, ties, BITS=_BITS, **few)
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
        **levels,
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
