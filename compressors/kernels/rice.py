"""Rice codes of gaps between sorted positions (SBC, Algorithms 3 and 4).

A gap d >= 1 to the position before (the first counts from -1) is written as
q = (d - 1) >> b ones, a zero, and the low b bits of d - 1: the order of the paper.
"""

import numpy as np
from numba import njit

from compressors.kernels.elias import leading_zeros
from compressors.kernels.pack import peek, put

_1 = np.uint64(1)
_ONES = np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def encode_rice(indices, b, words, position):
    """Writes sorted ``indices`` (int64) at bit ``position``; returns the bit after the last.

    The caller has reserved ``k * (1 + b) + (n >> b)`` bits: quotients sum to at most n >> b.
    """
    mask = (_1 << np.uint64(b)) - _1
    previous = np.int64(-1)
    for i in range(indices.size):
        gap = np.uint64(indices[i] - previous - 1)
        previous = indices[i]
        quotient = np.int64(gap >> np.uint64(b))
        while quotient > 31:
            put(words, position, _ONES, 32)
            position += 32
            quotient -= 32
        unary = ((_1 << np.uint64(quotient)) - _1) << np.uint64(1)
        put(words, position, unary, quotient + 1)
        position += quotient + 1
        if b > 0:
            put(words, position, gap & mask, b)
            position += b
    return position


@njit(cache=True, nogil=True)
def decode_rice(words, position, end, n, b, indices):
    """Fills ``indices`` (int64) from bit ``position``; returns the bit after the last, or -1.

    -1 means that the code ran past bit ``end`` or an index reached ``n``. A run of
    ones is cut off at n, so hostile bits cost no more time than honest ones.
    """
    low = np.uint64(64 - b)
    index = np.int64(-1)
    for i in range(indices.size):
        quotient = np.int64(0)
        ones = np.int64(leading_zeros(~peek(words, position)))
        while ones == 64:
            quotient += 64
            if position + quotient >= end or (quotient << b) > n:
                return -1
            ones = np.int64(leading_zeros(~peek(words, position + quotient)))
        quotient += ones
        position += quotient + 1
        if position + b > end or quotient > n:
            return -1
        gap = quotient << b
        if b > 0:
            gap += np.int64(peek(words, position) >> low)
            position += b
        index += gap + 1
        if index >= n:
            return -1
        indices[i] = index
    return position


@njit(cache=True, nogil=True)
def count_rice_bits(indices, b):
    """Bits of the codes of sorted ``indices``."""
    bits, previous = indices.size * (1 + np.int64(b)), np.int64(-1)
    for i in range(indices.size):
        bits += (indices[i] - previous - 1) >> b
        previous = indices[i]
    return bits
