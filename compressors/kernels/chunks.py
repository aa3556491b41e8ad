"""Neighbouring entries: the largest of every chunk, and the squared L2 norm of every block."""

import numpy as np
from numba import njit

from compressors.kernels.select import MAGNITUDE, largest_in, room_for, scratch


@njit(cache=True, nogil=True)
def largest_of_chunks(x, size, counts, indices):
    """Fills ``indices`` with sorted indices; how many were filled.

    Args:
        x: float32 (n,).
        size: entries of a chunk; the last may be shorter.
        counts: int64 (chunks,), how many to take of each; zeros of ``x`` are never taken.
        indices: int64, room for all of them.
    """
    room, total = scratch(room_for(counts.max() if counts.size else 0, size)), 0
    for chunk in range(counts.size):
        start = chunk * size
        for place in largest_in(room, x[start : start + size], counts[chunk], MAGNITUDE):
            indices[total] = start + place
            total += 1
    return total


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
