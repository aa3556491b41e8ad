"""Values to bins, to whole numbers and to levels, with the sums that their numbers need: numba.

``nearest`` divides a block by its root mean square. Its magnitudes then lie near one of ``LEVELS``,
the centroids of the standard normal density (Lloyd 1957; Max 1960). Sums are in float64 and in
order, so every machine has the same ones.
"""

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


LEVELS: dict[int, tuple[float, ...]] = {
    1: (0.7978845608,),
    2: (0.4527800346, 1.5104176085),
    3: (0.2450941789, 0.7560052812, 1.3439092785, 2.1519457045),
    4: (
        0.1283950299,
        0.3880482995,
        0.6567591185,
        0.9423404565,
        1.2562311973,
        1.618046386,
        2.0690172265,
        2.732589571,
    ),
}
"""By bits: the centroids above zero of a standard normal value; those below are their mirror."""


@njit(cache=True, nogil=True)
def nearest(x, edges, levels, codes):
    """Fills ``codes`` (k,) of a block ``x`` (k,) and returns what its scale is made of.

    Args:
        x: float32 values.
        edges: float64 magnitudes, in root mean squares, from which the next level is nearer.
        levels: float64 magnitudes (edges.size + 1,), rising.
        codes: filled with 0 for the lowest negative level up to 2 levels.size - 1; zero counts
            as plus.

    Returns:
        The sum of x * x, of x * level, and of level * level, in float64.
    """
    energy = 0.0
    for i in range(x.size):
        energy += np.float64(x[i]) * np.float64(x[i])
    half = levels.size
    if energy == 0.0:
        codes[:] = half
        return 0.0, 0.0, 0.0
    unit = np.sqrt(x.size / energy)
    both, square = 0.0, 0.0
    for i in range(x.size):
        size = abs(np.float64(x[i]))
        level = 0
        for edge in edges:
            level += int(size * unit >= edge)
        codes[i] = half - 1 - level if x[i] < 0 else half + level
        both += size * levels[level]
        square += levels[level] * levels[level]
    return energy, both, square
