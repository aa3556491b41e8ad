"""Classes and low bits of gaps between sorted positions (``compressors.coders.gaps``)."""

import numpy as np
from numba import njit

from compressors.kernels.elias import bit_length
from compressors.kernels.pack import peek, put

_1 = np.uint64(1)
_64 = np.uint64(64)


@njit(cache=True, nogil=True)
def classes(indices, t, out):
    """Fills ``out`` (k,) with the class of each gap; returns how many low bits there are."""
    low = np.int64(0)
    previous = np.int64(-1)
    for i in range(indices.size):
        gap = indices[i] - previous
        previous = indices[i]
        width = max(0, bit_length(np.uint64(gap)) - 1 - t)
        out[i] = (width << t) + (gap >> width) - 1
        low += width
    return low


@njit(cache=True, nogil=True)
def put_low(indices, t, words, position):
    """Writes the low bits of each gap; returns the bit after the last."""
    previous = np.int64(-1)
    for i in range(indices.size):
        gap = np.uint64(indices[i] - previous)
        previous = indices[i]
        width = bit_length(gap) - 1 - t
        if width > 0:
            put(words, position, gap & ((_1 << np.uint64(width)) - _1), width)
            position += width
    return position


@njit(cache=True, nogil=True, inline="always")
def _width(one, t):
    """Low bits of a gap of class ``one``."""
    return max(0, ((np.int64(one) + 1) >> t) - 1)


@njit(cache=True, nogil=True)
def count_low_bits(classes, t):
    """How many low bits gaps of these classes have together."""
    total = np.int64(0)
    for one in classes:
        total += _width(one, t)
    return total


@njit(cache=True, nogil=True)
def rebuild(classes, t, n, words, position, indices):
    """Fills ``indices`` from classes and the low bits at ``position``; whether all are below n.

    No class is above that of a gap of n, so no sum comes near 2**63.
    """
    index = np.int64(-1)
    for i in range(classes.size):
        width = _width(classes[i], t)
        gap = (np.int64(classes[i]) + 1 - (width << t)) << width
        if width:
            gap += np.int64(peek(words, position) >> (_64 - np.uint64(width)))
            position += width
        index += gap
        if index >= n:
            return False
        indices[i] = index
    return True


@njit(cache=True, nogil=True)
def put_bytes(numbers, counts, words, position):
    """Writes the ``counts[i]`` lowest bytes of each number; returns the bit after the last."""
    for i in range(numbers.size):
        width = 8 * np.int64(counts[i])
        put(words, position, np.uint64(numbers[i]), width)
        position += width
    return position


@njit(cache=True, nogil=True)
def get_bytes(counts, words, position, numbers):
    """Fills ``numbers`` (int64) with big-endian numbers of ``counts[i]`` bytes, 1 to 7."""
    for i in range(counts.size):
        width = 8 * np.int64(counts[i])
        numbers[i] = np.int64(peek(words, position) >> (_64 - np.uint64(width)))
        position += width
    return position
