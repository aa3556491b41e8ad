"""The largest magnitudes of every chunk of a vector, exactly: numba, ties to the lowest index."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def largest(x, size, counts, indices):
    """Fills ``indices`` with sorted indices; how many were filled.

    Args:
        x: float32 (n,).
        size: entries of a chunk; the last may be shorter.
        counts: int64 (chunks,), how many to take of each; zeros of ``x`` are never taken.
        indices: int64, room for all of them.
    """
    bits = x.view(np.int32)
    keys = np.empty(size, np.int64)
    total = 0
    for chunk in range(counts.size):
        start = chunk * size
        length = min(size, x.size - start)
        for i in range(length):  # magnitudes order as their bits do; the index makes keys differ
            magnitude = np.int64(bits[start + i] & np.int32(0x7FFFFFFF))
            keys[i] = (magnitude << np.int64(32)) | np.int64(length - 1 - i)
        part = keys[:length].copy()
        least = np.partition(part, length - counts[chunk])[length - counts[chunk]]
        for i in range(length):
            if keys[i] >= least and keys[i] >> np.int64(32):
                indices[total] = start + i
                total += 1
    return total
