"""Lists of whole numbers >= 1 in exponential Golomb codes: the format of code tables.

A number v in order b is the Elias gamma code of ((v - 1) >> b) + 1, then the low b bits of
v - 1. Order 0 is Elias gamma; an order near log2 of the mean is close to a Rice code, and
none of them makes a long code of one large number among small ones.
"""

import numpy as np
from numba import njit

from compressors.kernels.elias import bit_length, leading_zeros
from compressors.kernels.pack import peek, put

_1 = np.uint64(1)
_64 = np.uint64(64)
MAX_BITS = 62  # bits of a number, and of the gamma part and an order together


@njit(cache=True, nogil=True)
def cost(values, order):
    """Bits of ``values`` (int64, each >= 1) in one order."""
    bits = np.int64(0)
    for v in values:
        bits += 2 * bit_length((np.uint64(v - 1) >> np.uint64(order)) + _1) - 1 + order
    return bits


@njit(cache=True, nogil=True)
def best_order(values):
    """The cheapest order up to a little above the mean, and the bits of the values in it.

    An order's own gamma code is counted: of a short list it decides.
    """
    mean = values.sum() // values.size
    order, bits, least = 0, np.int64(0), np.int64(1) << np.int64(62)
    for candidate in range(min(MAX_BITS, bit_length(np.uint64(mean)) + 2)):
        taken = cost(values, candidate)
        total = taken + 2 * bit_length(np.uint64(candidate + 1))
        if total < least:
            order, bits, least = candidate, taken, total
    return order, bits


@njit(cache=True, nogil=True)
def encode_exp_golomb(words, position, values, order):
    """Writes ``values``; returns the bit after the last. ``cost`` bits have been reserved."""
    low = np.uint64(order)
    mask = (_1 << low) - _1
    for v in values:
        offset = np.uint64(v - 1)
        high = (offset >> low) + _1
        width = bit_length(high)
        position += width - 1
        put(words, position, high, width)
        position += width
        if order:
            put(words, position, offset & mask, order)
            position += order
    return position


@njit(cache=True, nogil=True)
def decode_exp_golomb(words, position, end, order, limit, values):
    """Fills ``values``; returns the bit after the last.

    -1 where a code runs past bit ``end``, -2 where the numbers so far sum to more than
    ``limit`` (below 2**62, so that no sum overflows).
    """
    total = np.int64(0)
    for i in range(values.size):
        window = peek(words, position)
        zeros = np.int64(leading_zeros(window))
        if zeros + order > MAX_BITS:
            return np.int64(-2)
        if position + 2 * zeros + 1 + order > end:
            return np.int64(-1)
        position += zeros
        high = peek(words, position) >> np.uint64(63 - zeros)
        position += zeros + 1
        offset = (high - _1) << np.uint64(order)
        if order:
            offset |= peek(words, position) >> (_64 - np.uint64(order))
            position += order
        value = np.int64(offset) + 1
        if value > limit - total:
            return np.int64(-2)
        total += value
        values[i] = value
    return position
