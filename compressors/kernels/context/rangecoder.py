"""A range coder on the shared bit stream: a 64-bit interval, always at full width, an exact end.

The interval is [low, low + range) in units of 2**-64 of what is not yet written. A
coder's state is three uint64: (low, range, bit position) in the writer and (code - low,
range, bit position) in the reader; every step takes one and returns the next, so that it
stays in registers. Every step writes or reads as many bits as bring range back to 2**63 or
more, one count of leading zeros and no branch on it; a total of up to 2**32 then loses
at most 2**-31 of a symbol's share. A carry is added to what is already written; it never
runs past the coder's own first bit.

The end costs two bits: they hold the interval, whatever follows.
"""

import numpy as np
from numba import njit

from compressors.kernels.elias import leading_zeros
from compressors.kernels.pack import peek, put

_1 = np.uint64(1)
_6 = np.uint64(6)
_62 = np.uint64(62)
_63 = np.uint64(63)
_64 = np.uint64(64)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_QUARTER = np.uint64(1 << 62)

TAIL = 2  # bits of the end


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


@njit(cache=True, nogil=True, inline="always")
def _narrow(state, words, start, span):
    """Keeps the part of the interval that begins ``start`` above low and is ``span`` wide."""
    low, _, position = state
    low += start
    if low < start:
        _carry(words, position)
    size = leading_zeros(span)
    if size:
        put(words, position, low >> (_64 - size), size)
    return low << size, span << size, position + size


@njit(cache=True, nogil=True, inline="always")
def write_share(state, words, start, size, total):
    """Writes the symbol that holds [start, start + size) of ``total`` <= 2**32 (all uint64)."""
    part = state[1] // total
    return _narrow(state, words, part * start, part * size)


@njit(cache=True, nogil=True, inline="always")
def write_part(state, words, start, size, bits):
    """``write_share`` of a total of 2**``bits`` (all uint64)."""
    part = state[1] >> bits
    return _narrow(state, words, part * start, part * size)


@njit(cache=True, nogil=True)
def finish_write(state, words):
    """Writes the end; returns the bit after the last."""
    value = state[0] + (_QUARTER - _1)
    if value < state[0]:
        _carry(words, state[2])
    put(words, state[2], value >> _62, TAIL)
    return np.int64(state[2]) + TAIL


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


@njit(cache=True, nogil=True, inline="always")
def _follow(state, words, end, start, span):
    code, _, position = state
    size = leading_zeros(span)
    fresh = _ahead(words, position + _64, np.uint64(end))
    code = ((code - start) << size) | ((fresh >> _1) >> (_63 - size))
    return code, span << size, position + size


@njit(cache=True, nogil=True, inline="always")
def peek_share(state, total):
    """Which of ``total`` shares is next: below ``total`` for any bits."""
    return min(state[0] // (state[1] // total), total - _1)


@njit(cache=True, nogil=True, inline="always")
def read_share(state, words, end, start, size, total):
    """Moves past the symbol [start, start + size) of ``total`` in which ``peek_share`` lay."""
    part = state[1] // total
    return _follow(state, words, end, part * start, part * size)


@njit(cache=True, nogil=True, inline="always")
def peek_part(state, bits):
    """``peek_share`` of a total of 2**``bits``."""
    return min(state[0] // (state[1] >> bits), (_1 << bits) - _1)


@njit(cache=True, nogil=True, inline="always")
def read_part(state, words, end, start, size, bits):
    """``read_share`` of a total of 2**``bits``."""
    part = state[1] >> bits
    return _follow(state, words, end, part * start, part * size)


@njit(cache=True, nogil=True)
def finish_read(state, end):
    """The bit after the last, or -1 where that lies past ``end``."""
    position = np.int64(state[2]) + TAIL
    return position if position <= end else np.int64(-1)
