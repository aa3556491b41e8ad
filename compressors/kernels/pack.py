"""Fixed-width fields in a stream of 64-bit words, most significant bit first.

Bit number ``i`` of a stream is bit ``63 - i % 64`` of word ``i // 64``. Every
kernel takes and returns bit positions, so that fields follow each other without
padding. numba turns a product of mixed integer types into float64 or int64:
every operand here is cast to uint64 by hand.
"""

import numpy as np
from numba import njit

_64 = np.uint64(64)
_63 = np.uint64(63)
_6 = np.uint64(6)
_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True, inline="always")
def put(words, position, value, width):
    """Writes the low ``width`` bits (1 to 64) of ``value`` at bit ``position``."""
    at = np.uint64(position)
    word = at >> _6
    free = _64 - (at & _63)
    size = np.uint64(width)
    if size <= free:
        words[word] |= value << (free - size)
    else:
        spill = size - free
        words[word] |= value >> spill
        words[word + np.uint64(1)] |= value << (_64 - spill)


@njit(cache=True, nogil=True, inline="always")
def peek(words, position):
    """The 64 bits that start at bit ``position`` (the stream has one spare word)."""
    at = np.uint64(position)
    word = at >> _6
    shift = at & _63
    if shift == np.uint64(0):
        return words[word]
    return (words[word] << shift) | (words[word + np.uint64(1)] >> (_64 - shift))


@njit(cache=True, nogil=True)
def put_one(words, position, value, width):
    """``put`` for callers outside compiled code."""
    put(words, position, np.uint64(value), width)


@njit(cache=True, nogil=True)
def get_one(words, position, width):
    """The unsigned integer in the ``width`` (1 to 64) bits at ``position``."""
    return peek(words, position) >> (_64 - np.uint64(width))


@njit(cache=True, nogil=True)
def put_32(words, position, values):
    """A uint32 array in 32 bits each: two a word, one shift for all."""
    pairs = values.size // 2
    shift = np.uint64(position) & _63
    word = np.int64(position) >> 6
    for i in range(pairs):
        both = (np.uint64(values[2 * i]) << _32) | np.uint64(values[2 * i + 1])
        words[word + i] |= both >> shift
        if shift:
            words[word + i + 1] |= both << (_64 - shift)
    if values.size % 2:
        put(words, position + 64 * pairs, np.uint64(values[-1]), 32)
    return position + 32 * values.size


@njit(cache=True, nogil=True)
def get_32(words, position, values):
    """Fills ``values`` (uint32) with 32-bit fields: two a word, one shift for all."""
    pairs = values.size // 2
    shift = np.uint64(position) & _63
    word = np.int64(position) >> 6
    for i in range(pairs):
        both = words[word + i]
        if shift:
            both = (both << shift) | (words[word + i + 1] >> (_64 - shift))
        values[2 * i] = both >> _32
        values[2 * i + 1] = both & _LOW
    if values.size % 2:
        values[-1] = peek(words, position + 64 * pairs) >> _32
    return position + 32 * values.size


@njit(cache=True, nogil=True)
def from_bytes_32(stream):
    """The uint32 numbers in ``stream`` (uint8), each four bytes, the highest first."""
    numbers = np.empty(stream.size // 4, np.uint32)
    for i in range(numbers.size):
        high = (np.uint32(stream[4 * i]) << np.uint32(24)) | (
            np.uint32(stream[4 * i + 1]) << np.uint32(16)
        )
        low = (np.uint32(stream[4 * i + 2]) << np.uint32(8)) | np.uint32(stream[4 * i + 3])
        numbers[i] = high | low
    return numbers
