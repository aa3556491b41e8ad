"""The number of entries that a row sends, coded as a symbol whose frequencies are learnt.

Counts from ``SYMBOLS`` - 1 upwards share the last symbol, and what is above follows with
all numbers alike; where counts are large, only their high part is a symbol and the low
bits follow as they are.
"""

import numpy as np
from numba import njit

from compressors.kernels.context.rangecoder import peek_share, read_share, write_share

_1 = np.uint64(1)
SYMBOLS = 24
_START = 128  # the sum of all frequencies at first, beside one for every symbol
_GAIN = 32  # of a symbol that was seen
_ALIKE = 3  # symbols from which on the two beside one that was seen gain too
_FULL = 1 << 13  # sum at which all are halved


@njit(cache=True, nogil=True)
def table(mean):
    """For rows of ``mean`` entries: low bits that are not part of a symbol, and frequencies
    as of a geometric distribution (int64, (SYMBOLS,)).
    """
    shift = 0
    while mean > 12:
        mean /= 2
        shift += 1
    more = mean / (1 + mean)
    chance = 1 - more
    frequencies = np.empty(SYMBOLS + 1, np.int64)
    for j in range(SYMBOLS):
        frequencies[j] = np.int64(chance * _START) + 1
        chance *= more
    frequencies[SYMBOLS] = frequencies[:SYMBOLS].sum()
    return shift, frequencies


@njit(cache=True, nogil=True, inline="always")
def _learn(frequencies, symbol):
    if symbol >= _ALIKE:
        frequencies[symbol - 1] += _GAIN >> 2
        frequencies[symbol] += _GAIN >> 1
        frequencies[min(symbol + 1, SYMBOLS - 1)] += _GAIN >> 2
    else:
        frequencies[symbol] += _GAIN
    frequencies[SYMBOLS] += _GAIN
    if frequencies[SYMBOLS] >= _FULL:
        frequencies[SYMBOLS] = 0
        for j in range(SYMBOLS):
            frequencies[j] = (frequencies[j] >> 1) | 1
            frequencies[SYMBOLS] += frequencies[j]


@njit(cache=True, nogil=True, inline="always")
def write_count(state, words, count, capacity, shift, frequencies):
    """Writes ``count`` <= ``capacity``."""
    high = count >> shift
    symbol = min(high, SYMBOLS - 1)
    start = np.int64(0)
    for j in range(symbol):
        start += frequencies[j]
    size, total = np.uint64(frequencies[symbol]), np.uint64(frequencies[SYMBOLS])
    state = write_share(state, words, np.uint64(start), size, total)
    _learn(frequencies, symbol)
    if symbol == SYMBOLS - 1:
        left = np.uint64((capacity >> shift) - symbol + 1)
        state = write_share(state, words, np.uint64(high - symbol), _1, left)
    if shift:
        low = np.uint64(count & ((1 << shift) - 1))
        state = write_share(state, words, low, _1, np.uint64(1 << shift))
    return state


@njit(cache=True, nogil=True, inline="always")
def read_count(state, words, end, capacity, shift, frequencies):
    """The count that ``write_count`` wrote, unchecked in its low bits, and the state after it."""
    total = np.uint64(frequencies[SYMBOLS])
    share = np.int64(peek_share(state, total))
    symbol, start = 0, np.int64(0)
    while start + frequencies[symbol] <= share:
        start += frequencies[symbol]
        symbol += 1
    state = read_share(state, words, end, np.uint64(start), np.uint64(frequencies[symbol]), total)
    _learn(frequencies, symbol)
    high = symbol
    if symbol == SYMBOLS - 1:
        left = np.uint64(max((capacity >> shift) - symbol, 0) + 1)
        more = peek_share(state, left)
        state = read_share(state, words, end, more, _1, left)
        high += np.int64(more)
    if shift == 0:
        return high, state
    total = np.uint64(1 << shift)
    low = peek_share(state, total)
    state = read_share(state, words, end, low, _1, total)
    return (high << shift) + np.int64(low), state
