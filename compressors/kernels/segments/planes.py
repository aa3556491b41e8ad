"""Planes of fields at any bit of a stream, a block at a time.

A block is packed into words of its own first, where nothing depends on the bit at which it will
stand; then the words are shifted into place and turned to big-endian, as the stream has them. All
of it is compiled to vectors.
"""

import numpy as np
from numba import njit

from compressors.kernels.fields import (
    EIGHT,
    _get_1,
    _get_64,
    _get_groups,
    _put_1,
    _put_64,
    _put_groups,
    turned,
)

PLANE_BLOCK = 4096  # fields
PLANE_WORDS = PLANE_BLOCK // 2 + 2  # of a block of 32-bit fields, with some to spare

_1, _32, _63 = np.uint64(1), np.uint64(32), np.uint64(63)
_LOW = np.uint64(0xFFFFFFFF)
_8, _16, _ODD = np.uint32(8), np.uint32(16), np.uint32(0xFF00FF00)


@njit(cache=True, nogil=True)
def shift_in(words, position, block, bits):
    """Puts the first ``bits`` of ``block`` (native words) at bit ``position`` of ``words``.

    The words are big-endian, and zero there; in ``block`` zeros follow.
    """
    first, shift, count = position >> 6, np.uint64(position & 63), (bits + 63) >> 6
    left = _63 - shift
    out = words[first : first + count + 1]
    out[0] |= turned(block[0] >> shift)
    for i in range(1, count - 1):  # none but these fields is in these words
        out[i] = turned(((block[i - 1] << _1) << left) | (block[i] >> shift))
    if count > 1:
        last = count - 1
        out[last] |= turned(((block[last - 1] << _1) << left) | (block[last] >> shift))
    out[count] |= turned((block[count - 1] << _1) << left)


@njit(cache=True, nogil=True)
def shift_out(words, tail, position, bits, block):
    """Fills ``block`` (native words) with the ``bits`` at bit ``position``; the last word has more.

    ``words``: a payload's whole words, big-endian; ``tail``: what follows, and zeros: uint64 (3,).
    """
    first, shift, count = position >> 6, np.uint64(position & 63), (bits + 63) >> 6
    left = _63 - shift
    inside = max(0, min(count, words.size - first - 1))
    source = words[first : first + inside + 1]
    for i in range(inside):
        block[i] = (turned(source[i]) << shift) | ((turned(source[i + 1]) >> _1) >> left)
    for i in range(inside, count):
        word, next_ = first + i - words.size, first + i + 1 - words.size
        a = turned(tail[word] if word >= 0 else words[first + i])
        b = turned(tail[next_] if next_ >= 0 else words[first + i + 1])
        block[i] = (a << shift) | ((b >> _1) >> left)


@njit(cache=True, nogil=True)
def swap_bytes(values, out):
    """Fills ``out`` with the uint32 ``values``, the bytes of each in the other order."""
    for i in range(values.size):
        x = values[i]
        x = np.uint32(((x & _ODD) >> _8) | np.uint32((x << _8) & _ODD))
        out[i] = np.uint32((x >> _16) | np.uint32(x << _16))


@njit(cache=True, nogil=True)
def pack_32(values, block):
    """The uint32 ``values`` in ``block``, the first one highest."""
    pairs = values.size // 2
    for i in range(pairs):
        block[i] = (np.uint64(values[2 * i]) << _32) | np.uint64(values[2 * i + 1])
    if values.size % 2:
        block[pairs] = np.uint64(values[-1]) << _32


@njit(cache=True, nogil=True)
def unpack_32(block, values):
    """``pack_32`` backwards."""
    pairs = values.size // 2
    for i in range(pairs):
        values[2 * i] = block[i] >> _32
        values[2 * i + 1] = block[i] & _LOW
    if values.size % 2:
        values[-1] = block[pairs] >> _32


@njit(cache=True, nogil=True)
def pack(codes, width, low, block):
    """Bits ``low`` to ``low + width - 1`` of each code in ``block``; width is 1 to 9."""
    full = (codes.size * width + 63) >> 6
    if width == 8:
        shift, narrow = np.uint32(low), block.view(np.uint8)
        block[full - 1] = 0
        for i in range(codes.size):
            narrow[i] = codes[i] >> shift
        for w in range(full):
            block[w] = turned(block[w])
        return
    for w in range(full + 1):
        block[w] = 0
    bits, least = np.uint64(width), np.uint64(low)
    if width == 1:
        _put_1(block, 0, codes, bits, least)
    elif width < 8:
        _put_groups(block, 0, codes, bits, least, EIGHT)
    else:
        _put_64(block, 0, codes, bits, least)


@njit(cache=True, nogil=True)
def unpack_fields(block, width, low, codes):
    """Fills ``codes`` with the fields of ``block``, shifted up by ``low``; the block is used up."""
    if width == 8:
        shift, narrow = np.uint32(low), block.view(np.uint8)
        for w in range((codes.size + 7) >> 3):
            block[w] = turned(block[w])
        for i in range(codes.size):
            codes[i] = np.uint32(narrow[i]) << shift
        return
    bits, least = np.uint64(width), np.uint64(low)
    if width == 1:
        _get_1(block, 0, codes, bits, least)
    elif width < 8:
        _get_groups(block, 0, codes, bits, least, EIGHT)
    else:
        _get_64(block, 0, codes, bits, least)
