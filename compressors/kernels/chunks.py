"""The largest magnitudes of every chunk of a vector, exactly: numba, ties to the lowest index."""

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
