"""The squared L2 norm of every block of a vector, summed in an order that any device can follow."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def energies(x, b):
    """Float64 sums (units,) of the squares of each ``b`` entries of float32 ``x``.

    A block is filled with zeros to a power of two and folded in halves: the square of a
    float32 is exact in float64 and the order of the sums is fixed, so that every device
    finds the same norm, and the same order of norms.
    """
    n = x.size
    width = 1
    while width < b:
        width *= 2
    lanes = np.empty(width, np.float64)
    sums = np.empty((n + b - 1) // b, np.float64)
    for u in range(sums.size):
        block = x[u * b : (u + 1) * b]
        for j in range(block.size):
            lanes[j] = np.float64(block[j]) * np.float64(block[j])
        lanes[block.size :] = 0.0
        half = width // 2
        while half > 0:
            for j in range(half):
                lanes[j] += lanes[j + half]
            half //= 2
        sums[u] = lanes[0]
    return sums
