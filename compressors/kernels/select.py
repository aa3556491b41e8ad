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
_CHUNK = 16384  # entries between two looks at how much room is left
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


@njit(cache=True, nogil=True, inline="always")
def _collect(x, start, stop, floor, side, found, count):
    """Appends the indices in [start, stop) whose key reaches ``floor``; no branch on the data.

    Every index is stored and the end moves on only past those that reach the floor:
    a fifth of a nanosecond an entry, whatever their share. One loop a side, so that
    the choice of side is made once and not once an entry.
    """
    if side == MAGNITUDE:
        for i in range(start, stop):
            found[count] = i
            count += abs(x[i]) >= floor
    elif side == POSITIVE:
        for i in range(start, stop):
            found[count] = i
            count += x[i] >= floor
    else:
        for i in range(start, stop):
            found[count] = i
            count += -x[i] >= floor
    return count


@njit(cache=True, nogil=True)
def _at_least(x, threshold, side):
    """Indices whose key is above zero and at least ``threshold``, in order."""
    n = x.size
    floor = max(threshold, _TINY)
    found = np.empty(n // 32 + _CHUNK, np.int64)
    count = 0
    for start in range(0, n, _CHUNK):
        if count + _CHUNK > found.size:
            grown = np.empty(2 * found.size, np.int64)
            grown[:count] = found[:count]
            found = grown
        count = _collect(x, start, min(start + _CHUNK, n), floor, side, found, count)
    return found[:count]


@njit(cache=True, nogil=True)
def _largest_of(x, candidates, k, side):
    """The k largest of ``candidates`` (sorted indices), ties to the lowest index, sorted."""
    keys = np.empty(candidates.size, np.float32)
    for i in range(candidates.size):
        keys[i] = _key(x[candidates[i]], side)
    edge = np.partition(keys, keys.size - k)[keys.size - k]
    at_edge = k
    for i in range(keys.size):
        if keys[i] > edge:
            at_edge -= 1
    chosen = np.empty(k, np.int64)
    count = 0
    for i in range(keys.size):
        take = keys[i] > edge
        if keys[i] == edge and at_edge > 0:
            take = True
            at_edge -= 1
        if take:
            chosen[count] = candidates[i]
            count += 1
    return chosen


@njit(cache=True, nogil=True)
def one_sided(x, k):
    """Sorted indices of the k largest or the k smallest of ``x``, by the greater mean (SBC).

    Only entries strictly on their side count; equal means choose the positive side. One
    pass collects both sides. The slow twin is ``compressors.sparsify.one_sided_torch``.
    """
    threshold = np.float32(0.0)
    if x.size > _SMALL and 8 * k < x.size:
        high = _sampled_threshold(x, k, POSITIVE)
        threshold = min(high, _sampled_threshold(x, k, NEGATIVE))
    candidates = _at_least(x, threshold, MAGNITUDE)
    high, low = _split(x, candidates)
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
def _split(x, candidates):
    """The candidates above zero and those below, in order."""
    high, low = np.empty(candidates.size, np.int64), np.empty(candidates.size, np.int64)
    above = below = 0
    for i in candidates:
        high[above] = i
        low[below] = i
        above += x[i] > 0
        below += x[i] < 0
    return high[:above].copy(), low[:below].copy()


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
