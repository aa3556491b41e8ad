"""Random rounding to an even grid.

A number between two whole numbers goes to one of them by chance, so that its mean is
itself; a whole number stays. The chance is compared as a 31-bit integer.
"""

import numpy as np
from numba import njit

from compressors.kernels.noise import draw

_CHANCE = np.float64(2.0**31)


@njit(cache=True, nogil=True, inline="always")
def _round(t, word):
    """``t`` (float64, 0 <= t < 2**31) to a whole number next to it, its mean being ``t``."""
    low = np.int32(t)
    chance = np.int32((t - np.float64(low)) * _CHANCE)
    return np.int32(low + np.int32(np.int32(word >> np.uint32(1)) < chance))


@njit(cache=True, nogil=True)
def between(x, low, scale, top, multiplier, offset, codes):
    """Whole numbers 0 to ``top`` for (x - low) * scale, by chance."""
    limit = np.float64(top)
    for i in range(x.size):
        t = (np.float64(x[i]) - low) * scale
        t = t if t < limit else limit
        codes[i] = _round(t, draw(multiplier, offset, np.uint32(i)))


@njit(cache=True, nogil=True)
def round_signed(x, step, below, above, multiplier, offset, codes):
    """x / step, cut to -below and above, by chance; -1, 1, -2 ... as 1, 2, 3 ... (zig-zag)."""
    for i in range(x.size):
        minus = x[i] < np.float32(0.0)
        limit = np.float64(below) if minus else np.float64(above)
        t = np.float64(abs(x[i])) / step
        j = _round(t if t < limit else limit, draw(multiplier, offset, np.uint32(i)))
        codes[i] = np.int32(np.int32(2) * j - np.int32(minus & (j > 0)))


@njit(cache=True, nogil=True)
def round_integers(x, multiplier, offset, out):
    """``x`` to whole float32 numbers by chance; from 2**24 on every float32 is one."""
    limit = np.float32(16777216.0)
    for i in range(x.size):
        size = abs(x[i])
        fits = size < limit
        t = np.float64(size if fits else np.float32(0.0))
        near = np.float32(_round(t, draw(multiplier, offset, np.uint32(i))))
        near = near if fits else size
        out[i] = (-near if x[i] < np.float32(0.0) else near) + np.float32(0.0)


@njit(cache=True, nogil=True)
def pick(table, codes, out):
    """Fills ``out`` with table[code]."""
    for i in range(codes.size):
        out[i] = table[codes[i]]


@njit(cache=True, nogil=True)
def add_number(x, number, out):
    """Fills ``out`` with x + number, as whole numbers within +-2**25."""
    for i in range(x.size):
        out[i] = np.int32(np.int32(x[i]) + np.int32(number))
