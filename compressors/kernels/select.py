"""The k largest entries of a float32 vector, exactly, in about one pass.

A small sample gives a threshold that is almost surely a little too low; one pass
keeps what lies at or above it; an exact selection among those few finishes. If
the threshold was too high after all, everything is looked at again: the sample
decides the time, never the result. Ties go to the lowest index. Entries whose
key is not above zero carry nothing and are never selected.
"""

import numpy as np
from numba import njit

MAGNITUDE, POSITIVE, NEGATIVE = 0, 1, 2

_SMALL = 4096  # below this, sampling costs more than it saves
_CHUNK = 4096  # entries between two looks at how much room is left
_BINS = 1024
_TINY = np.float32(1e-45)  # the smallest denormal: a key that reaches it is above zero
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def _key(value, side):
    if side == 0:
        return abs(value)
    if side == 1:
        return value
    return -value


@njit(cache=True, nogil=True)
def _sampled_threshold(x, k, side):
    """A key that about k + 4 standard deviations of entries reach (0: take all above zero)."""
    n = x.size
    size = max(2048, n // 1000)
    keys = np.empty(size, np.float32)
    for i in range(size):
        h = (np.uint64(i) + np.uint64(1)) * _GOLDEN
        h = (h ^ (h >> np.uint64(30))) * _MIX1
        h = (h ^ (h >> np.uint64(27))) * _MIX2
        h = h ^ (h >> np.uint64(31))
        keys[i] = _key(x[np.int64(h % np.uint64(n))], side)
    share = k / n
    rank = int(np.ceil(size * share + 4.0 * np.sqrt(size * share * (1.0 - share)) + 1.0))
    if rank >= size:
        return np.float32(0.0)
    return max(np.float32(0.0), np.partition(keys, size - rank)[size - rank])


@njit(cache=True, nogil=True)
def _collect(x, start, floor, side, found, count):
    """Appends ``start`` plus each index of ``x`` whose key reaches ``floor``; no branch on data.

    Every index is stored and the end moves on only past those that reach the floor:
    a fifth of a nanosecond an entry, whatever their share. One loop a side, so that
    the choice of side is made once and not once an entry. Loops from zero: an index
    that might be negative would cost a check an entry.
    """
    room = found[count : count + x.size]
    kept = np.uint64(0)
    if side == MAGNITUDE:
        for i in range(x.size):
            room[kept] = start + i
            kept += np.uint64(abs(x[i]) >= floor)
    elif side == POSITIVE:
        for i in range(x.size):
            room[kept] = start + i
            kept += np.uint64(x[i] >= floor)
    else:
        for i in range(x.size):
            room[kept] = start + i
            kept += np.uint64(-x[i] >= floor)
    return count + np.int64(kept)


@njit(cache=True, nogil=True)
def _at_least(x, threshold, side):
    """Indices whose key is above zero and at least ``threshold``, in order."""
    n = x.size
    floor = max(threshold, _TINY)
    found = np.empty(n // 16 + _CHUNK, np.int64)
    count = 0
    for start in range(0, n, _CHUNK):
        if count + _CHUNK > found.size:
            grown = np.empty(2 * found.size, np.int64)
            grown[:count] = found[:count]
            found = grown
        count = _collect(x[start : min(start + _CHUNK, n)], start, floor, side, found, count)
    return found[:count]


@njit(cache=True, nogil=True)
def _edge(keys, k):
    """The ``k``-th largest of ``keys`` (float32, all above zero).

    Positive floats order as their bits do: a histogram of the leading bits finds the bin of
    the answer, and only that bin is searched. A quickselect over all of them would spend most
    of its time on branches that nobody can predict.
    """
    bits = keys.view(np.uint32)
    low, high = bits.min(), bits.max()
    shift = np.uint32(0)
    while (high - low) >> shift >= _BINS:
        shift += np.uint32(1)
    counts = np.zeros(_BINS, np.int64)
    for b in bits:
        counts[(b - low) >> shift] += 1
    place, above = _BINS - 1, 0
    while above + counts[place] < k:
        above += counts[place]
        place -= 1
    inside = np.empty(counts[place] + 1, np.float32)
    found = 0
    for i in range(keys.size):
        inside[found] = keys[i]
        found += (bits[i] - low) >> shift == place
    rank = found - (k - above)
    return np.partition(inside[:found], rank)[rank]


@njit(cache=True, nogil=True)
def _largest_of(x, candidates, k, side):
    """The k largest of ``candidates`` (sorted indices), ties to the lowest index, sorted."""
    keys = np.empty(candidates.size, np.float32)
    for i in range(candidates.size):
        keys[i] = _key(x[candidates[i]], side)
    edge = _edge(keys, k)
    ties = k
    for i in range(keys.size):
        ties -= keys[i] > edge
    chosen = np.empty(k + 1, np.int64)  # one to spare: every candidate is stored, then kept or not
    count = 0
    for i in range(keys.size):
        tie = keys[i] == edge and ties > 0
        chosen[count] = candidates[i]
        count += (keys[i] > edge) | tie
        ties -= tie
    return chosen[:k].copy()


@njit(cache=True, nogil=True)
def _split(x, candidates):
    """The candidates above zero and those below, in order."""
    high = np.empty(candidates.size + 1, np.int64)
    low = np.empty(candidates.size + 1, np.int64)
    above = below = 0
    for i in candidates:
        high[above] = i
        low[below] = i
        above += x[i] > 0
        below += x[i] < 0
    return high[:above], low[:below]


@njit(cache=True, nogil=True)
def one_sided(x, k):
    """Sorted indices of the k largest or the k smallest of ``x``, by the greater mean (SBC).

    Only entries strictly on their side count; equal means choose the positive side. One
    pass collects both sides. The slow twin is ``compressors.sparsify.one_sided_torch``.
    """
    threshold = np.float32(0.0)
    if x.size > _SMALL and 8 * k < x.size:
        above = _sampled_threshold(x, k, POSITIVE)
        threshold = min(above, _sampled_threshold(x, k, NEGATIVE))
    high, low = _split(x, _at_least(x, threshold, MAGNITUDE))
    if threshold > 0 and (high.size < k or low.size < k):
        high, low = _split(x, _at_least(x, np.float32(0.0), MAGNITUDE))
    if high.size > k:
        high = _largest_of(x, high, k, POSITIVE)
    if low.size > k:
        low = _largest_of(x, low, k, NEGATIVE)
    if low.size == 0 or (high.size > 0 and _mean(x, high) >= -_mean(x, low)):
        return high
    return low


@njit(cache=True, nogil=True)
def _mean(x, indices):
    total = 0.0
    for i in indices:
        total += np.float64(x[i])
    return total / indices.size


@njit(cache=True, nogil=True)
def largest(x, k, side):
    """Sorted int64 indices of the ``k`` entries of ``x`` (float32, finite) with the largest key.

    ``side`` chooses the key: |x|, x or -x. Fewer than k come back where fewer keys
    are above zero. The slow twin is ``compressors.sparsify.largest_torch``.
    """
    threshold = np.float32(0.0)
    if x.size > _SMALL and 8 * k < x.size:
        threshold = _sampled_threshold(x, k, side)
    candidates = _at_least(x, threshold, side)
    if candidates.size < k and threshold > 0:
        candidates = _at_least(x, np.float32(0.0), side)
    if candidates.size <= k:
        return candidates.copy()
    return _largest_of(x, candidates, k, side)
