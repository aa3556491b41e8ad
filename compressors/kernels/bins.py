"""Values to even bins and to whole numbers, with the sums that their means need: numba."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def moments(x):
    """The mean of ``x`` (k,), and the standard deviation with k - 1 in its divisor."""
    total = 0.0
    for value in x:
        total += np.float64(value)
    center = total / x.size
    spread = 0.0
    for value in x:
        spread += (np.float64(value) - center) ** 2
    return center, np.sqrt(spread / max(1, x.size - 1))


@njit(cache=True, nogil=True)
def even(x, center, step, codes, sums, counts):
    """Fills ``codes`` with the bin of each value, and adds values and their number to its bin.

    Bin b of ``sums.size`` = B begins at center + step (b - B / 2): as many on either side. The
    first and the last take all beyond. A step of 0 puts all values above the center.
    """
    half = sums.size // 2
    for i in range(x.size):
        place = 0.0
        if step > 0.0:
            place = np.floor((np.float64(x[i]) - center) / step)
        bin = np.int64(min(max(place, -half), half - 1)) + half
        codes[i] = bin
        sums[bin] += np.float64(x[i])
        counts[bin] += 1


@njit(cache=True, nogil=True)
def round_steps(x, size, half, limit, scales, codes):
    """Fills ``codes`` with ``half`` + the nearest whole number of |x| <= ``half`` in steps.

    The step of a bucket of ``size`` values is its largest magnitude over ``half``; ``scales`` gets
    it as float32, at most ``limit``, for rounded up it may be too much ``half`` times. Halves go
    away from zero.
    """
    for bucket in range(scales.size):
        part = x[bucket * size : min((bucket + 1) * size, x.size)]
        top = np.float32(0.0)
        for value in part:
            top = max(top, abs(value))
        scale = min(np.float32(np.float64(top) / half), limit)
        scales[bucket] = scale
        for i in range(part.size):
            level = 0
            if scale > 0:
                level = int(min(np.floor(abs(np.float64(part[i])) / scale + 0.5), half))
            codes[bucket * size + i] = half - level if part[i] < 0 else half + level
