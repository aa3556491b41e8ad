"""The k largest entries of a float32 vector, exactly, in about one pass.

A small sample gives a threshold that is almost surely a little too low; one pass
keeps what lies at or above it; an exact selection among those few finishes. If
the threshold was too high after all, everything is looked at again: the sample
decides the time, never the result. Ties go to the lowest index. Entries whose
key is not above zero carry nothing and are never selected.

A key is an integer, the IEEE bits of |x|, x or -x as int32: above zero, floats order as their
bits do, and what is not above zero (zeros of either sign too) has a key that is not either. A
comparison of floats would take a denormal for zero in a thread that flushes denormals.
"""

import numpy as np
from numba import njit

from compressors.kernels.compact import CHUNK as _CHUNK
from compressors.kernels.compact import gather, grown, marked

MAGNITUDE, POSITIVE, NEGATIVE = 0, 1, 2

_SMALL = 4096  # below this, sampling costs more than it saves
_BINS = 1024
_SIGN = np.int32(-(1 << 31))
_MAGNITUDE = np.int32(0x7FFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def _key(bits, side):
    if side == 0:
        return np.int32(bits & _MAGNITUDE)
    if side == 1:
        return bits
    return np.int32(bits ^ _SIGN)


@njit(cache=True, nogil=True)
def _sampled_threshold(bits, k, side):
    """A key that about k + 4 standard deviations of entries reach (0: take all above zero)."""
    n = bits.size
    size = max(2048, n // 1000)
    keys = np.empty(size, np.int32)
    for i in range(size):
        h = (np.uint64(i) + np.uint64(1)) * _GOLDEN
        h = (h ^ (h >> np.uint64(30))) * _MIX1
        h = (h ^ (h >> np.uint64(27))) * _MIX2
        h = h ^ (h >> np.uint64(31))
        keys[i] = _key(bits[np.int64(h % np.uint64(n))], side)
    share = k / n
    rank = int(np.ceil(size * share + 4.0 * np.sqrt(size * share * (1.0 - share)) + 1.0))
    if rank >= size:
        return np.int32(0)
    return max(np.int32(0), np.partition(keys, size - rank)[size - rank])


@njit(cache=True, nogil=True)
def _flag(bits, floor, side, flags):
    """Marks the entries whose key reaches ``floor``. One loop a side: each becomes vector code."""
    if side == MAGNITUDE:
        for i in range(bits.size):
            flags[i] = np.int32(bits[i] & _MAGNITUDE) >= floor
    elif side == POSITIVE:
        for i in range(bits.size):
            flags[i] = bits[i] >= floor
    else:
        for i in range(bits.size):
            flags[i] = np.int32(bits[i] ^ _SIGN) >= floor


@njit(cache=True, nogil=True)
def _reaching(bits, threshold, side):
    """``at_least`` of the entries' ``bits`` (int32)."""
    n = bits.size
    floor = max(np.int32(threshold), np.int32(1))
    expected = n // 8 if threshold > 0 else n  # memory that is not touched costs nothing
    found = np.empty(expected + _CHUNK, np.int64)
    kept = np.empty(found.size, np.int32)
    flags, busy = np.empty(_CHUNK, np.uint8), np.empty(_CHUNK // 8, np.int64)
    count = 0
    for start in range(0, n, _CHUNK):
        if count + _CHUNK > found.size:
            size = 2 * found.size
            found, kept = grown(found, count, size), grown(kept, count, size)
        chunk = bits[start : start + _CHUNK]
        left = chunk.size
        if left < _CHUNK:  # ``gather`` looks at whole words
            whole = np.zeros(_CHUNK, np.int32)
            whole[:left] = chunk
            chunk = whole
        _flag(chunk, floor, side, flags)
        flags[left:] = 0  # what fills the last chunk is not an entry
        words = busy[: marked(flags, busy)]
        count += gather(flags, words, chunk, start, found[count:], kept[count:])
    return found[:count], kept[:count]


@njit(cache=True, nogil=True)
def at_least(x, threshold, side):
    """Indices (int64, in order) whose key is above zero and at least ``threshold``, and bits.

    ``x`` is float32 (n,); ``threshold`` is a key, so the bits of a float32 number of at least 0.
    """
    return _reaching(x.view(np.int32), threshold, side)


@njit(cache=True, nogil=True)
def _edge(keys, k):
    """The ``k``-th largest of ``keys`` (int32, all above zero).

    A histogram of the leading bits finds the bin of
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
    inside = np.empty(counts[place] + 1, np.int32)
    found = 0
    for i in range(keys.size):
        inside[found] = keys[i]
        found += (bits[i] - low) >> shift == place
    rank = found - (k - above)
    return np.partition(inside[:found], rank)[rank]


@njit(cache=True, nogil=True)
def largest_of(candidates, bits, k, side):
    """The k largest of ``candidates`` (sorted indices), ties to the lowest index, sorted.

    ``bits`` (int32) are the candidates', whose keys are above zero. Overwrites both arrays:
    what is kept moves to their front, never behind its old place.
    """
    if candidates.size <= k or k <= 0:
        return candidates[: max(0, k)].copy()
    keys = bits
    for i in range(keys.size):
        keys[i] = _key(bits[i], side)
    edge = _edge(keys, k)
    ties = k
    for i in range(keys.size):
        ties -= keys[i] > edge
    count = 0
    for i in range(keys.size):
        tie = keys[i] == edge and ties > 0
        candidates[count] = candidates[i]
        count += (keys[i] > edge) | tie
        ties -= tie
    return candidates[:k].copy()


@njit(cache=True, nogil=True)
def _largest(bits, k, side):
    if k <= 0:
        return np.empty(0, np.int64)
    threshold = np.int32(0)
    if bits.size > _SMALL and 8 * k < bits.size:
        threshold = _sampled_threshold(bits, k, side)
    candidates, kept = _reaching(bits, threshold, side)
    if candidates.size < k and threshold > 0:
        candidates, kept = _reaching(bits, np.int32(0), side)
    return largest_of(candidates, kept, k, side)


@njit(cache=True, nogil=True)
def largest(x, k, side):
    """Sorted int64 indices of the ``k`` entries of ``x`` (float32, finite) with the largest key.

    ``side`` chooses the key: |x|, x or -x. Fewer than k come back where fewer keys
    are above zero. The slow twin is ``compressors.sparsify.largest.largest_torch``.
    """
    return _largest(x.view(np.int32), k, side)


@njit(cache=True, nogil=True)
def _split(candidates, bits):
    """The candidates above zero with their bits, and those below, in order."""
    high, high_bits = np.empty_like(candidates), np.empty_like(bits)
    low, low_bits = np.empty_like(candidates), np.empty_like(bits)
    above = below = 0
    for i in range(bits.size):
        high[above], low[below] = candidates[i], candidates[i]
        high_bits[above], low_bits[below] = bits[i], bits[i]
        above += bits[i] > 0
        below += bits[i] < 0
    return high[:above], high_bits[:above], low[:below], low_bits[:below]


@njit(cache=True, nogil=True)
def both_sides(x, k_high, k_low):
    """Sorted indices of the ``k_high`` largest and of the ``k_low`` smallest entries of ``x``.

    Only entries strictly on their side count. One pass collects both sides; a side of
    which it found too few is looked for by itself.
    """
    bits, threshold = x.view(np.int32), np.int32(0)
    if x.size > _SMALL and 8 * max(k_high, k_low) < x.size:
        above = _sampled_threshold(bits, k_high, POSITIVE)
        threshold = min(above, _sampled_threshold(bits, k_low, NEGATIVE))
    high, high_bits, low, low_bits = _split(*_reaching(bits, threshold, MAGNITUDE))
    if threshold > 0 and high.size < k_high:
        high = _largest(bits, k_high, POSITIVE)
    else:
        high = largest_of(high, high_bits, k_high, POSITIVE)
    if threshold > 0 and low.size < k_low:
        low = _largest(bits, k_low, NEGATIVE)
    else:
        low = largest_of(low, low_bits, k_low, NEGATIVE)
    return high, low


@njit(cache=True, nogil=True)
def _mean(x, indices):
    total = 0.0
    for i in indices:
        total += np.float64(x[i])
    return total / indices.size


@njit(cache=True, nogil=True)
def one_sided(x, k):
    """Sorted indices of the k largest or the k smallest of ``x``, by the greater mean (SBC).

    Only entries strictly on their side count; equal means choose the positive side.
    The slow twin is ``compressors.sparsify.topk.one_sided_torch``.
    """
    high, low = both_sides(x, k, k)
    if low.size == 0 or (high.size > 0 and _mean(x, high) >= -_mean(x, low)):
        return high
    return low
