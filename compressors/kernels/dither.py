"""Random dithering of one bucket of values, and the way back.

A magnitude divided by the norm lies between two levels and goes to one of them by
chance, so that its mean is itself (Horváth et al. 2022, Definition 6). The symbol is
sign and level in one: 0 is zero, 2j - 1 stands for minus level j, 2j for plus level j.
All arithmetic is float32 and in an order that no compiler may change: numba and Triton
give equal symbols. Chances are compared as 31-bit integers (a float32 sum would round them).
"""

import numpy as np
from numba import njit

from compressors.kernels.noise import draw

_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_CHANCE = np.float32(2.0**31)
_LANES = 16


@njit(cache=True, nogil=True, inline="always")
def _up(fraction, word):
    """1 with chance ``fraction`` (0 <= fraction < 1), from 31 of the random bits."""
    return np.int32(np.int32(word >> np.uint32(1)) < np.int32(fraction * _CHANCE))


@njit(cache=True, nogil=True, inline="always")
def _symbol(level, value):
    return np.int32(np.int32(2) * level - np.int32((level > 0) & (value < _ZERO)))


@njit(cache=True, nogil=True)
def power_sum(x, square, sums):
    """The sum of |x| or of x * x in float64: sums side by side (scratch), one would wait."""
    lanes = sums.size
    sums[:] = 0.0
    stop = x.size // lanes * lanes
    for start in range(0, stop, lanes):
        part = x[start : start + lanes]
        for lane in range(lanes):
            value = np.float64(part[lane])
            sums[lane] += value * value if square else abs(value)
    total = sums.sum()
    for i in range(stop, x.size):
        value = np.float64(x[i])
        total += value * value if square else abs(value)
    return total


@njit(cache=True, nogil=True)
def largest_magnitude(x):
    """The IEEE bits of max |x|: magnitudes order as their bits do, and integers have no NaN."""
    bits = x.view(np.int32)
    top = np.int32(0)
    for i in range(bits.size):
        top = max(top, np.int32(bits[i] & np.int32(0x7FFFFFFF)))
    return top


@njit(cache=True, nogil=True)
def bucket_sums(x, bucket, power):
    """For every ``bucket`` values: max |x| (power 0), the sum of |x| (1) or of x * x (2)."""
    totals = np.empty((x.size + bucket - 1) // bucket, np.float64)
    scratch = np.empty(_LANES, np.float64)
    top = np.empty(1, np.int32)
    for b in range(totals.size):
        part = x[b * bucket : min((b + 1) * bucket, x.size)]
        if power == 0:
            top[0] = largest_magnitude(part)
            totals[b] = np.float64(top.view(np.float32)[0])
        else:
            totals[b] = power_sum(part, power == 2, scratch)
    return totals


@njit(cache=True, nogil=True)
def variance(x):
    """The mean square of ``x`` about its mean, in float64, in two passes; 0 if all are equal."""
    sums = np.zeros(_LANES, np.float64)
    differ = np.int32(0)
    stop = x.size // _LANES * _LANES
    for start in range(0, stop, _LANES):
        part = x[start : start + _LANES]
        for lane in range(_LANES):
            sums[lane] += np.float64(part[lane])
    for i in range(stop, x.size):
        sums[0] += np.float64(x[i])
    for i in range(x.size):
        differ |= np.int32(x[i] != x[0])
    if not differ:
        return 0.0  # the mean may be off by a rounding, and that be taken for a spread
    center = sums.sum() / x.size
    sums[:] = 0.0
    for start in range(0, stop, _LANES):
        part = x[start : start + _LANES]
        for lane in range(_LANES):
            value = np.float64(part[lane]) - center
            sums[lane] += value * value
    for i in range(stop, x.size):
        sums[0] += (np.float64(x[i]) - center) ** 2
    return sums.sum() / x.size


@njit(cache=True, nogil=True)
def standard(x, norm, levels, multiplier, offset, start, codes):
    """Symbols of ``x`` on the levels 0, 1 / s, ..., 1; entry i draws the noise of start + i."""
    s = np.float32(levels)
    first = np.uint32(start)
    for i in range(x.size):
        ratio = abs(x[i]) / norm
        t = (ratio if ratio < _ONE else _ONE) * s
        low = np.int32(t)
        word = draw(multiplier, offset, np.uint32(first + np.uint32(i)))
        codes[i] = _symbol(np.int32(low + _up(t - np.float32(low), word)), x[i])


@njit(cache=True, nogil=True)
def natural(x, norm, levels, multiplier, offset, start, codes):
    """Symbols of ``x`` on the levels 0, 2**(1 - s), ..., 1/2, 1 (at most 127 of them above zero).

    Above the lowest level the ratio's mantissa is its chance to be rounded up: 23 random bits
    are added to the IEEE bits, and a carry moves the exponent (as in natural compression).
    """
    blow = np.float32(2.0 ** (levels - 1))
    base = np.int32(127 - levels)
    first = np.uint32(start)
    for i in range(x.size):
        ratio = abs(x[i]) / norm
        ratio = ratio if ratio < _ONE else _ONE
        word = draw(multiplier, offset, np.uint32(first + np.uint32(i)))
        carried = np.int32(np.float32(ratio).view(np.int32) + np.int32(word >> np.uint32(9)))
        above = np.int32(np.int32(carried >> np.int32(23)) - base)
        t = ratio * blow
        below = _up(t if t < _ONE else _ZERO, word)
        codes[i] = _symbol(above if t >= _ONE else below, x[i])


@njit(cache=True, nogil=True)
def look_up(table, codes, norm, out):
    """Fills ``out`` with norm * table[code]."""
    scaled = table * norm
    for i in range(codes.size):
        out[i] = scaled[codes[i]]


@njit(cache=True, nogil=True)
def quantize_buckets(x, norms, bucket, levels, is_natural, multiplier, offset, codes):
    """Symbols of ``x`` in buckets of ``bucket`` values, each with its norm (0: all symbols 0)."""
    for b in range(norms.size):
        start, end = b * bucket, min((b + 1) * bucket, x.size)
        if norms[b] == _ZERO:
            codes[start:end] = 0
        elif is_natural:
            natural(x[start:end], norms[b], levels, multiplier, offset, start, codes[start:end])
        else:
            standard(x[start:end], norms[b], levels, multiplier, offset, start, codes[start:end])


@njit(cache=True, nogil=True)
def look_up_buckets(table, codes, norms, bucket, out):
    """Fills ``out`` with each bucket's norm times table[code]."""
    if norms.size == 1:
        look_up(table, codes, norms[0], out)
        return
    for b in range(norms.size):
        for i in range(b * bucket, min((b + 1) * bucket, codes.size)):
            out[i] = table[codes[i]] * norms[b]
