"""Which entries of a segment may be among its largest: a sample, marks, and the marked in order."""

from compressors.kernels.gpu.language import constant, constexpr, jit, tl

LEVEL_COUNT, LEVEL_BITS = 4, 8
"""How many histograms there are, and bits of a key that each looks at."""
LEVELS, BITS, BINS = map(constant, (LEVEL_COUNT, LEVEL_BITS, 1 << LEVEL_BITS))


@jit
def bin_of(counts, rank):
    """The bin that the ``rank``-th is in by ``counts``, the highest bin first, and which of it that
    one is."""
    bins = BINS - 1 - tl.arange(0, BINS)
    passed = tl.cumsum(counts, 0) < rank
    place = tl.maximum(BINS - 1 - tl.sum(passed.to(tl.int32), 0), 0)
    return place, rank - tl.sum(tl.where(bins > place, counts, 0), 0)


@jit
def draw_sample(
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
):
    """The key that candidates reach, by a sample of each segment, and zeros to count from."""
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
        place, rank = bin_of(tl.histogram(255 - ((key >> down) & 255), BINS, mask=same_top), rank)
        top = (top << 8) | place
    tl.store(least + p, tl.maximum(top << 15, 1))
    tl.store(left + p * (LEVELS + 1), tl.load(k + p).to(tl.int32))
    tl.store(prefix + p * (LEVELS + 1), 0)
    tl.store(totals + p, 0)
    ALL: tl.constexpr = LEVELS * BINS
    tl.store(counts + p * ALL + tl.arange(0, ALL), 0)
    tl.store(sums + p, 0.0)
    tl.store(edges + p, 0x7FFFFFFF)


@jit
def group_of(segment, first, starts, bits, slots, words, ROOM: constexpr):
    """The program's number, its segment, its first entry there, and its places in each array."""
    b = tl.program_id(0).to(tl.int64)
    s = tl.load(segment + b)
    at = tl.load(first + b)
    entry = tl.load(starts + s) + at
    return b, s, at, bits + entry, slots + entry, words + b * ROOM


@jit
def gather_keys(size, bits, slots, words, high, low, PART: constexpr, ROOM: constexpr):
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
def mark_words(
    segment, first, sizes, starts, bits, marks, least, SIDES: constexpr, WORDS: constexpr
):
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
def keep_marked(
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
    b, s, at, bits, slots, words = group_of(segment, first, starts, bits, slots, words, ROOM)
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
