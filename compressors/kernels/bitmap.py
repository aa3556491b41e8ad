"""One bit per entry, and gaps of 16 bits with an escape."""

import numpy as np
from numba import njit

from compressors.kernels.elias import leading_zeros
from compressors.kernels.pack import peek, put

_1 = np.uint64(1)
_63 = np.uint64(63)
_48 = np.uint64(48)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ESCAPE = 0xFFFF
"""The 16 bits that say that the gap follows in more bits."""


@njit(cache=True, nogil=True)
def set_bits(indices, words, position):
    """Sets bit ``position + index`` for every index."""
    for i in range(indices.size):
        at = np.uint64(position + indices[i])
        words[at >> np.uint64(6)] |= _1 << (_63 - (at & _63))


@njit(cache=True, nogil=True, inline="always")
def _window(words, position, n, start):
    """Bits ``start`` to ``start + 63`` of the bitmap, zeros behind its ``n``."""
    left = n - start
    return peek(words, position + start) & (_ALL if left >= 64 else ~(_ALL >> np.uint64(left)))


@njit(cache=True, nogil=True)
def count_set_bits(words, position, n):
    """How many of the ``n`` bits from ``position`` are set."""
    count, pairs = np.int64(0), np.uint64(0x3333333333333333)
    for start in range(0, n, 64):
        word = _window(words, position, n, start)  # sums of neighbours: in pairs, fours and bytes
        word -= (word >> _1) & np.uint64(0x5555555555555555)
        word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
        word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        count += np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
    return count


@njit(cache=True, nogil=True)
def find_bits(words, position, n, indices):
    """Fills ``indices`` with the places of the set bits: as many as ``count_set_bits`` finds."""
    count = 0
    for start in range(0, n, 64):
        window = _window(words, position, n, start)
        while window:
            zeros = leading_zeros(window)
            indices[count] = start + np.int64(zeros)
            count += 1
            window ^= (_1 << _63) >> zeros


@njit(cache=True, nogil=True)
def count_escapes(indices):
    """How many gaps between sorted ``indices`` do not fit into 16 bits."""
    count, previous = 0, np.int64(-1)
    for i in range(indices.size):
        count += indices[i] - previous - 1 >= ESCAPE
        previous = indices[i]
    return count


@njit(cache=True, nogil=True)
def encode_16(indices, width, words, position):
    """Writes gap - 1 in 16 bits, or ``ESCAPE`` and ``width`` bits; the bit after the last."""
    previous = np.int64(-1)
    for i in range(indices.size):
        gap = indices[i] - previous - 1
        previous = indices[i]
        put(words, position, np.uint64(min(gap, ESCAPE)), 16)
        position += 16
        if gap >= ESCAPE:
            put(words, position, np.uint64(gap), width)
            position += width
    return position


@njit(cache=True, nogil=True)
def decode_16(words, position, end, n, width, indices):
    """Fills ``indices``; the bit after the last, or -1 behind ``end`` or from index n on.

    An escape in front of a gap that fits into 16 bits is refused too.
    """
    index = np.int64(-1)
    for i in range(indices.size):
        gap = np.int64(peek(words, position) >> _48)
        position += 16
        if gap == ESCAPE and position + width <= end and width > 0:
            gap = np.int64(peek(words, position) >> np.uint64(64 - width))
            position += width
            if gap < ESCAPE:
                return np.int64(-1)
        elif gap == ESCAPE:
            return np.int64(-1)
        if position > end or gap >= n - index - 1:
            return np.int64(-1)
        index += gap + 1
        indices[i] = index
    return position
