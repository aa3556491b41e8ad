"""Blocks of values as small floats times one power of two per block, in whole numbers alone.

A float32 is 24 bits times a power of two. A small float keeps ``mantissa`` of them and loses the
rest by a shift: to the nearest, or by chance. So equal bytes come from every machine.
"""

import math

import numpy as np
from numba import njit

from compressors.kernels.noise import draw

LEAST_SCALE = -112  # below it a float32's own denormal numbers would need rules of their own
_FRACTION = np.int32(0x7FFFFF)
_WORD = 32


@njit(cache=True, nogil=True)
def scale_exponents(x, block, largest, exponents):
    """The least s of every block at which no |x| exceeds ``largest`` times 2**s, from -112 on."""
    bits, one = x.view(np.int32), np.empty(1, np.int32)
    for b in range(exponents.size):
        top = np.int32(0)  # magnitudes order as their bits do
        for i in range(b * block, min((b + 1) * block, x.size)):
            top = max(top, bits[i] & np.int32(0x7FFFFFFF))
        one[0] = top
        # 24 bits over a number of few bits: no rounding reaches the next power of two
        part, s = math.frexp(np.float64(one.view(np.float32)[0]) / largest)
        exponents[b] = max(s - 1 if part == 0.5 else s, LEAST_SCALE)


@njit(cache=True, nogil=True)
def to_floats(x, block, mantissa, lowest, sign, nearest, multiplier, offset, exponents, codes):
    """The symbol of every value: its sign at bit ``sign``, then exponent and mantissa.

    ``lowest`` is the exponent of the format's smallest normal number. A symbol without the sign
    counts the format's numbers from zero up, so that a carry goes into the exponent by itself.
    """
    bits = x.view(np.int32)
    one, word = np.int64(1), np.int64(_WORD)
    for b in range(exponents.size):
        s = np.int32(exponents[b])
        # the last number within float32: the binades up to its own last one
        largest = (np.int64(129 - s - lowest) << np.int64(mantissa)) - one
        for i in range(b * block, min((b + 1) * block, x.size)):
            field = (bits[i] >> np.int32(23)) & np.int32(255)
            fraction = np.int64(bits[i] & _FRACTION) | (np.int64(field > 0) << np.int64(23))
            exponent = max(field, np.int32(1)) - np.int32(127) - s
            base = max(exponent, np.int32(lowest))
            shift = np.int64(23 - mantissa + base - exponent)
            # noise has 32 bits: what is below them is never drawn
            fraction >>= min(max(shift - word, np.int64(0)), np.int64(63))
            shift = min(shift, word)
            if nearest:  # half of what is lost, and one more where the number before it is odd
                add = (one << (shift - one)) - one + ((fraction >> shift) & one)
            else:
                add = np.int64(draw(multiplier, offset, np.uint32(i))) >> (word - shift)
            code = (fraction + add) >> shift
            code = min(code + (np.int64(base - lowest) << np.int64(mantissa)), largest)
            codes[i] = code | (np.int64((code > 0) & (bits[i] < 0)) << np.int64(sign))
