"""Values to the nearest of a few levels that were made for normal values: numba, one block at once.

A block is divided by its root mean square. Its magnitudes then lie near one of the levels, which
are the centroids of the standard normal density (Lloyd 1957; Max 1960). Sums are in float64 and
in order, so every machine has the same ones.
"""

import numpy as np
from numba import njit

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
