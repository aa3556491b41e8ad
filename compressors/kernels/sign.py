"""One bit a value: which of them lie below zero, and a coin for those that are zero.

The codes are 1 for minus and 0 for plus, as in the sign bit of an IEEE number. The
loops compare and store, without a branch, so that the compiler takes many values at once.
"""

import numpy as np
from numba import njit

from compressors.kernels.noise import draw

_CHUNK = 4096  # few enough that the codes of a chunk are still at hand when it is looked at again
_31 = np.uint32(31)
_SIGN = np.int32(-(1 << 31))


@njit(cache=True, nogil=True)
def below_zero(x, codes):
    """Fills ``codes`` with 1 where ``x`` is below zero, else 0. Minus zero is not below."""
    for i in range(x.size):
        codes[i] = x[i] < 0


@njit(cache=True, nogil=True)
def with_coins(x, multiplier, offset, start, codes):
    """``below_zero``, with the first bit of the noise of start + i where entry i is zero.

    Chunk by chunk: zeros are rare in most updates, and a chunk without any is done in one
    quick pass.
    """
    for first in range(0, x.size, _CHUNK):
        part, part_codes = x[first : first + _CHUNK], codes[first : first + _CHUNK]
        zeros = np.uint8(0)
        for i in range(part.size):
            part_codes[i] = part[i] < 0
            zeros |= np.uint8(part[i] == 0)
        if zeros:
            for i in range(part.size):
                if part[i] == 0:
                    part_codes[i] = draw(multiplier, offset, start + first + i) >> _31


@njit(cache=True, nogil=True)
def sign_means(x, counts):
    """The means at or above zero and below it of each run of ``counts`` values, float32 (c, 2)."""
    means = np.zeros((counts.size, 2), np.float32)
    start = 0
    for c in range(counts.size):
        part = x[start : start + counts[c]]
        start += counts[c]
        high, low, below = 0.0, 0.0, 0
        for value in part:
            high += max(np.float64(value), 0.0)
            low += min(np.float64(value), 0.0)
            below += value < 0
        means[c, 0] = high / max(part.size - below, 1)
        means[c, 1] = low / max(below, 1)
    return means


@njit(cache=True, nogil=True)
def signs(x):
    """How many entries of ``x`` (float32) are above zero, and how many below.

    Bits are compared: a thread that flushes denormals would take them for zero.
    """
    bits = x.view(np.int32)
    above = below = np.uint64(0)
    for i in range(bits.size):
        above += np.uint64(bits[i] > 0)
        below += np.uint64(np.int32(bits[i] ^ _SIGN) > 0)
    return np.int64(above), np.int64(below)
