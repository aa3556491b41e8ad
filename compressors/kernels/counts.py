"""How many entries a row sends: a unary-like code with learnt chances.

A count is written bit by bit, one more or no more, each place of the count with a chance
of its own; where counts are large, only their high part, the low bits follow as they are.
"""

import numpy as np
from numba import njit

from compressors.kernels.rangecoder import peek_share, read_bit, read_share, write_bit, write_share

_1 = np.uint64(1)
BINS = 24
_RATES = np.array([65536 // (i + 3) for i in range(100)], np.int64)


@njit(cache=True, nogil=True)
def bins(mean):
    """Chances that a count goes on, as for a geometric distribution; and how often seen."""
    chance = min(max(mean / (1 + mean), 0.002), 0.998)
    chances = np.full(BINS, np.int64(chance * 65536))
    return chances, np.zeros(BINS, np.int64)


@njit(cache=True, nogil=True, inline="always")
def _learn(chances, seen, bin, bit):
    """The mean of what was seen, behind a start worth two, later over the last 100 or so."""
    target = np.int64(65535 - 24) if bit else np.int64(24)
    chances[bin] += ((target - chances[bin]) * _RATES[seen[bin]]) >> 16
    seen[bin] = min(seen[bin] + 1, _RATES.size - 1)


@njit(cache=True, nogil=True)
def write_count(state, words, count, most, shift, chances, seen):
    """Writes ``count`` <= ``most``: count >> shift bit by bit, the low bits as they are."""
    high = count >> shift
    for j in range(most >> shift):
        bin = min(j, BINS - 1)
        state = write_bit(state, words, j < high, chances[bin])
        _learn(chances, seen, bin, j < high)
        if j == high:
            break
    if shift:
        low = np.uint64(count & ((1 << shift) - 1))
        state = write_share(state, words, low, _1, np.uint64(1 << shift))
    return state


@njit(cache=True, nogil=True)
def read_count(state, words, end, most, shift, chances, seen):
    """The count that ``write_count`` wrote, unchecked in its low bits, and the state after it."""
    high = 0
    for j in range(most >> shift):
        bin = min(j, BINS - 1)
        more, state = read_bit(state, words, end, chances[bin])
        _learn(chances, seen, bin, more)
        if not more:
            break
        high += 1
    if shift == 0:
        return high, state
    total = np.uint64(1 << shift)
    low = peek_share(state, total)
    state = read_share(state, words, end, low, _1, total)
    return (high << shift) + np.int64(low), state


@njit(cache=True, nogil=True)
def shift_of(mean):
    """Low bits of a row's count that are not modelled, so that few bins are passed."""
    shift = 0
    while mean > 12:
        mean /= 2
        shift += 1
    return shift
