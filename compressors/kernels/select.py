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

from compressors.kernels.elias import trailing_zeros

MAGNITUDE, POSITIVE, NEGATIVE = 0, 1, 2

_SMALL = 512  # below this, sampling costs more than it saves
_SIGMAS = 2.5  # a threshold that is too high costs a second pass, one that is too low little
_CHUNK = 4096  # entries between two looks at how much room is left
_SIGN = np.int32(-(1 << 31))
_MAGNITUDE = np.int32(0x7FFFFFFF)
_ALL = np.int32(-1)
_LEAST = np.int32(1)
_NEVER = np.int32(0x7FFFFFFF)  # the key of no number
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_40, _24, _3, _1 = np.uint64(40), np.uint64(24), np.uint64(3), np.uint64(1)


@njit(cache=True, nogil=True)
def _kth(keys, k):
    """The ``k``-th largest of ``keys`` (int32, above zero), k at most their number: by bisection.

    A pass that counts is compiled to vectors. A quickselect spends most of its time on branches
    that nobody can predict.
    """
    low, high = keys[0], keys[0]
    for i in range(keys.size):
        low, high = min(low, keys[i]), max(high, keys[i])
    while low < high:
        middle, many = np.int32(high - (high - low) // 2), np.int32(0)
        for i in range(keys.size):
            many = np.int32(many + np.int32(keys[i] >= middle))
        if many >= k:
            low = middle
        else:
            high = np.int32(middle - 1)
    return low


@njit(cache=True, nogil=True)
def _sample(bits, k):
    """The bits of a few entries, from all over the vector.

    The more, the dearer, and the fewer, the more candidates: their number costs least where it
    grows as the cube root of n k.
    """
    n = bits.size
    places = np.empty(np.int64(2.0 * (np.float64(n) * k) ** (1 / 3)) + 32, np.int32)
    spread = np.uint64(0)
    for i in range(places.size):
        spread += _GOLDEN
        places[i] = bits[((spread >> _40) * np.uint64(n)) >> _24]
    return places


@njit(cache=True, nogil=True)
def _threshold(sample, share, flip, mask):
    """A key that some more than the ``share`` of all entries reach (1: all above zero)."""
    size, above = sample.size, 0
    keys = np.empty(size, np.int32)
    for i in range(size):
        key = np.int32((sample[i] ^ flip) & mask)
        keys[above] = key
        above += key > 0
    rank = np.int64(size * share + _SIGMAS * np.sqrt(size * share * (1.0 - share)) + 2.0)
    return _LEAST if rank > above else _kth(keys[:above], rank)


@njit(cache=True, nogil=True)
def scratch(size):
    """Room for ``size`` candidates of either sign, which calls can share: what is not touched costs
    nothing."""
    above, below = np.empty(size + _CHUNK, np.int64), np.empty(size + _CHUNK, np.int64)
    return above, np.empty(above.size, np.int32), below, np.empty(above.size, np.int32)


@njit(cache=True, nogil=True)
def _reaching(bits, high, low, mask, room):
    """Entries, in order, whose key reaches ``high``, and those whose opposite key reaches ``low``.

    Keys are ``bits & mask``; the opposite ones, those of -x. ``room`` is filled: indices and keys
    of the one, indices and keys of the other. How many there are of each; -1 where there is no
    room.
    """
    above, keys, below, opposite = room
    flags, busy = np.empty(_CHUNK, np.uint8), np.empty(_CHUNK // 8, np.int64)
    words = flags.view(np.uint64)
    many = fewer = 0
    for start in range(0, bits.size, _CHUNK):
        chunk = bits[start : start + _CHUNK]
        if max(many, fewer) + chunk.size > above.size:
            return -1, -1
        for i in range(chunk.size):
            key = np.int32(chunk[i] & mask)
            flags[i] = np.uint8(key >= high) | np.uint8(np.int32(key ^ _SIGN) >= low)
        full = -(-chunk.size // 8)
        for i in range(chunk.size, 8 * full):
            flags[i] = 0
        marked = 0
        for w in range(full):  # stored always, moved on only past what is kept: no branch
            busy[marked] = w
            marked += words[w] != 0
        for w in busy[:marked]:
            word = words[w]
            while word:
                i = 8 * w + np.int64(trailing_zeros(word) >> _3)
                word &= word - _1
                key = np.int32(chunk[i] & mask)
                above[many], keys[many] = start + i, key
                below[fewer], opposite[fewer] = start + i, key ^ _SIGN
                many += key > 0
                fewer += key < 0
    return many, fewer


@njit(cache=True, nogil=True)
def largest_of(candidates, keys, k):
    """The k of ``candidates`` (rising) with the largest ``keys``, all above zero; ties go to the
    lowest index. Sorted, at the front of ``candidates``, which are overwritten.
    """
    if keys.size <= k or k == 0:
        return candidates[:k]
    edge, ties = _kth(keys, k), k
    for i in range(keys.size):
        ties -= keys[i] > edge
    count = 0
    for i in range(keys.size):
        tie = (keys[i] == edge) & (ties > 0)
        candidates[count] = candidates[i]
        count += (keys[i] > edge) | tie
        ties -= tie
    return candidates[:k]


@njit(cache=True, nogil=True)
def _above(bits, threshold, side, room):
    """Indices of the entries whose key reaches ``threshold``, and the keys; None without room."""
    mask = _MAGNITUDE if side == MAGNITUDE else _ALL
    high, low = (_NEVER, threshold) if side == NEGATIVE else (threshold, _NEVER)
    many, fewer = _reaching(bits, high, low, mask, room)
    above, keys, below, opposite = room
    if side == NEGATIVE:
        return below[: max(0, fewer)], opposite[: max(0, fewer)], fewer >= 0
    return above[: max(0, many)], keys[: max(0, many)], many >= 0


@njit(cache=True, nogil=True)
def at_least(x, threshold, side):
    """Indices (int64, in order) whose key is above zero and at least ``threshold``, and the keys.

    ``x`` is float32 (n,); ``threshold`` is a key, so the bits of a float32 number of at least 0.
    """
    floor = max(np.int32(threshold), _LEAST)
    bits = x.view(np.int32)
    places, keys, fits = _above(bits, floor, side, scratch(x.size // 8))
    if not fits:
        places, keys, _ = _above(bits, floor, side, scratch(x.size))
    return places, keys


@njit(cache=True, nogil=True)
def largest_in(room, x, k, side):
    """``select_largest`` in ``scratch`` room, which serves many calls: the result is its view."""
    bits, n, k, threshold = x.view(np.int32), x.size, max(0, k), _LEAST
    if n > _SMALL and 2 * k < n:
        flip = _SIGN if side == NEGATIVE else np.int32(0)
        mask = _MAGNITUDE if side == MAGNITUDE else _ALL
        threshold = _threshold(_sample(bits, k), k / n, flip, mask)
    while True:
        places, keys, fits = _above(bits, threshold, side, room)
        if not fits:
            room = scratch(n)
        elif places.size >= k or threshold == 1:
            return largest_of(places, keys, k)
        else:
            threshold = _LEAST


@njit(cache=True, nogil=True)
def both_sides_in(room, x, k_high, k_low):
    """``both_sides`` in ``scratch`` room, as ``largest_in``."""
    bits, n, high, low, k = x.view(np.int32), x.size, _LEAST, _LEAST, max(k_high, k_low)
    if n > _SMALL and 2 * k < n:
        sample = _sample(bits, k)
        high = _threshold(sample, k_high / n, np.int32(0), _ALL)
        low = _threshold(sample, k_low / n, _SIGN, _ALL)
    while True:
        many, fewer = _reaching(bits, high, low, _ALL, room)
        if many < 0:
            room = scratch(n)
        elif (many >= k_high or high == 1) and (fewer >= k_low or low == 1):
            above, keys, below, opposite = room
            first = largest_of(above[:many], keys[:many], k_high)
            return first, largest_of(below[:fewer], opposite[:fewer], k_low)
        else:
            high = _LEAST if many < k_high else high
            low = _LEAST if fewer < k_low else low


@njit(cache=True, nogil=True)
def room_for(k, n):
    """How many candidates of ``n`` entries, about, are looked at for ``k``."""
    return min(n, k + k // 2 + 4 * _CHUNK) if n > _SMALL and 2 * k < n else n


@njit(cache=True, nogil=True)
def select_largest(x, k, side):
    """Sorted int64 indices of the ``k`` entries of ``x`` (float32, finite) with the largest key.

    ``side`` chooses the key: |x|, x or -x. Fewer than k come back where fewer keys
    are above zero.
    """
    return largest_in(scratch(room_for(max(0, k), x.size)), x, k, side).copy()


@njit(cache=True, nogil=True)
def both_sides(x, k_high, k_low):
    """Sorted indices of the ``k_high`` largest and of the ``k_low`` smallest entries of ``x``.

    Only entries strictly on their side count. One pass collects both sides; a second one where a
    side is too short.
    """
    room = scratch(room_for(max(k_high, k_low), x.size))
    high, low = both_sides_in(room, x, k_high, k_low)
    return high.copy(), low.copy()


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
    """
    high, low = both_sides(x, k, k)
    if low.size == 0 or (high.size > 0 and _mean(x, high) >= -_mean(x, low)):
        return high
    return low
