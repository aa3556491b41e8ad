"""From a flag an entry to the indices of the flagged ones, without a branch on data.

A chunk's flags are bytes, written by a loop that the compiler turns into vector
instructions; eight of them are one word. First the words that hold a flag are listed,
then the entries of those words alone are looked at. Both lists are made by storing
always and moving their end on only past what is kept: the time does not depend on how
well a processor guesses.
"""

import numpy as np
from numba import njit

CHUNK = 4096  # entries between two looks at how much room is left
_WORD = 8  # flags in a word
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def marked(flags, busy):
    """Lists in ``busy`` the words of ``flags`` (bytes, a multiple of 8) that hold a flag."""
    words = flags.view(np.uint64)
    count = np.uint64(0)
    for w in range(words.size):
        busy[count] = w
        count += np.uint64(words[w] != _ZERO)
    return np.int64(count)


@njit(cache=True, nogil=True)
def gather(flags, busy, values, start, room, kept_values):
    """Stores ``start`` plus the index of each flagged entry, and its value; returns how many.

    ``room`` and ``kept_values`` have place for as many entries as ``flags`` has.
    """
    count = np.uint64(0)
    for w in busy:
        first = np.uint64(w) * np.uint64(_WORD)
        for j in range(_WORD):
            i = first + np.uint64(j)
            room[count] = start + np.int64(i)
            kept_values[count] = values[i]
            count += np.uint64(flags[i])
    return np.int64(count)


@njit(cache=True, nogil=True)
def rises(indices, n):
    """Whether ``indices`` (int64) rise from 0 at least to n - 1 at most, without a repeat."""
    falls = False
    for i in range(1, indices.size):
        falls |= indices[i] <= indices[i - 1]
    return not falls and (indices.size == 0 or (indices[0] >= 0 and indices[-1] < n))


@njit(cache=True, nogil=True)
def grown(old, used, size):
    """A larger array that begins with the first ``used`` entries of ``old``."""
    new = np.empty(size, old.dtype)
    for i in range(used):  # an assignment of slices compiles for two seconds
        new[i] = old[i]
    return new
