"""A range coder on the shared bit stream: 64-bit interval, 16 bits a step, an exact end.

The interval is [low, low + range) in units of 2**-64 of what is not yet written. A
coder's state is three uint64: (low, range, bit position) in the writer and (code - low,
range, bit position) in the reader; every step takes one and returns the next, so that it
stays in registers. range stays at or above 2**48 between symbols, so a
total of up to 2**32 loses at most 2**-16 of a symbol's share. A carry is added to what is
already written; it never runs past the coder's own first bit.

The end costs less than two bits more than the information: the reader has the same
range and knows from it how many bits the writer needed.
"""

import numpy as np
from numba import njit

from compressors.kernels.pack import peek, put

_1 = np.uint64(1)
_16 = np.uint64(16)
_48 = np.uint64(48)
_63 = np.uint64(63)
_6 = np.uint64(6)
_LEAST = np.uint64(1 << 48)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)

BITS = 16  # of a probability
_PART = np.uint64(BITS)


@njit(cache=True, nogil=True, inline="always")
def start_write(position):
    """A fresh coder that writes at bit ``position``."""
    return np.uint64(0), _ALL, np.uint64(position)


@njit(cache=True, nogil=True)
def _carry(words, position):
    """Adds one to the number that ends with the bit before ``position``."""
    at = position - _1
    word = at >> _6
    one = _1 << (_63 - (at & _63))
    words[word] += one
    while words[word] < one:
        word -= _1
        one = _1
        words[word] += one


@njit(cache=True, nogil=True)
def _narrow(state, words, start, span):
    """Keeps the part of the interval that begins ``start`` above low and is ``span`` wide."""
    low, _, position = state
    low += start
    if low < start:
        _carry(words, position)
    while span < _LEAST:
        put(words, position, low >> _48, 16)
        position += _16
        low <<= _16
        span <<= _16
    return low, span, position


@njit(cache=True, nogil=True)
def write_share(state, words, start, size, total):
    """Writes the symbol that holds [start, start + size) of ``total`` <= 2**32 (all uint64)."""
    part = state[1] // total
    return _narrow(state, words, part * start, part * size)


@njit(cache=True, nogil=True)
def write_bit(state, words, bit, one):
    """Writes ``bit``; ``one`` (1 to 2**16 - 1) is the chance of a 1 in units of 2**-16."""
    edge = (state[1] >> _PART) * np.uint64(one)
    start = np.uint64(0) if bit else edge
    span = edge if bit else state[1] - edge
    return _narrow(state, words, start, span)


@njit(cache=True, nogil=True)
def _tail(span):
    """Bits after which whatever follows lies inside an interval ``span`` wide."""
    width = 65
    while span:
        width -= 1
        span >>= _1
    return min(width + 1, 64)


@njit(cache=True, nogil=True)
def finish_write(state, words):
    """Writes the end; returns the bit after the last."""
    width = np.uint64(_tail(state[1]))
    below = np.uint64(64) - width
    step = _1 << below
    value = state[0] + (step - _1)
    if value < state[0]:
        _carry(words, state[2])
    put(words, state[2], value >> below, width)
    return np.int64(state[2] + width)


@njit(cache=True, nogil=True, inline="always")
def _ahead(words, position, end):
    """64 bits from ``position``; what lies past ``end`` reads as zero."""
    if position >= end:
        return np.uint64(0)
    return peek(words, position)


@njit(cache=True, nogil=True, inline="always")
def start_read(words, position, end):
    """A fresh coder that reads from bit ``position``."""
    return _ahead(words, np.uint64(position), np.uint64(end)), _ALL, np.uint64(position)


@njit(cache=True, nogil=True)
def _follow(state, words, end, start, span):
    code, _, position = state
    code -= start
    while span < _LEAST:
        position += _16
        span <<= _16
        code = (code << _16) | (_ahead(words, position + _48, np.uint64(end)) >> _48)
    return code, span, position


@njit(cache=True, nogil=True, inline="always")
def peek_share(state, total):
    """Which of ``total`` shares is next: below ``total``, whatever the bits."""
    return min(state[0] // (state[1] // total), total - _1)


@njit(cache=True, nogil=True)
def read_share(state, words, end, start, size, total):
    """Moves past the symbol [start, start + size) of ``total`` in which ``peek_share`` lay."""
    part = state[1] // total
    return _follow(state, words, end, part * start, part * size)


@njit(cache=True, nogil=True)
def read_bit(state, words, end, one):
    """The next bit and the state behind it; ``one`` as in ``write_bit``."""
    edge = (state[1] >> _PART) * np.uint64(one)
    bit = state[0] < edge
    start = np.uint64(0) if bit else edge
    span = edge if bit else state[1] - edge
    return bit, _follow(state, words, end, start, span)


@njit(cache=True, nogil=True)
def finish_read(state, end):
    """The bit after the last, or -1 where that lies past ``end``."""
    position = np.int64(state[2]) + _tail(state[1])
    return position if position <= end else np.int64(-1)
