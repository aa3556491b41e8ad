"""Arrays of narrow fields into a stream of words, several at a time.

The bits are those of ``pack.put`` and ``pack.peek``, which take one field at
a time. Here as many fields as fit into 64 bits are put together in a register first,
and of single bits 64 at once. ``low`` takes a plane out of wider numbers on the way.
"""

from typing import Any

import numpy as np
from numba import njit

from compressors.kernels.pack import peek, put

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_64 = np.uint64(64)
_63 = np.uint64(63)
_8 = np.uint64(8)
_1 = np.uint64(1)
_16 = np.uint64(16)
_32 = np.uint64(32)
_ODD_1 = np.uint64(0xFF00FF00FF00FF00)
_ODD_2 = np.uint64(0xFFFF0000FFFF0000)
_BLOCK = 4096
EIGHT, _FOUR, _TWO = (0,) * 8, (0,) * 4, (0,) * 2  # see ``_put_groups``


@njit(cache=True, nogil=True)
def _put_groups(words, position, values, width, low, group):
    """``put_fields`` in groups of as many fields as the tuple ``group`` is long.

    So its length is a constant when compiled; that many fields fit into 64 bits. A group is put
    together in a register without looking at where it will stand, so that groups overlap in the
    processor; what does not fill a group goes one by one.
    """
    mask, size = _ALL >> (_64 - width), len(group)
    bits = np.uint64(size) * width
    groups = values.size // size
    for i in range(groups):
        word = np.uint64(0)
        for j in range(size):
            word = (word << width) | ((np.uint64(values[size * i + j]) >> low) & mask)
        put(words, position, word, bits)
        position += np.int64(bits)
    for i in range(size * groups, values.size):
        put(words, position, (np.uint64(values[i]) >> low) & mask, width)
        position += np.int64(width)
    return position


@njit(cache=True, nogil=True)
def _put_64(words, position, values, width, low):
    """Fields of any width, one at a time."""
    mask = _ALL >> (_64 - width)
    for i in range(values.size):
        put(words, position, (np.uint64(values[i]) >> low) & mask, width)
        position += np.int64(width)
    return position


@njit(cache=True, nogil=True)
def _put_1(words, position, values, width, low):
    """Single bits, 64 a word: the inner loop has no order, so it is compiled to vectors."""
    full = values.size // 64
    shift = np.uint64(position) & _63
    word = np.int64(position) >> 6
    for i in range(full):
        packed = np.uint64(0)
        for j in range(64):
            packed |= ((np.uint64(values[64 * i + j]) >> low) & _1) << np.uint64(63 - j)
        words[word + i] |= packed >> shift
        if shift:
            words[word + i + 1] |= packed << (_64 - shift)
    for i in range(64 * full, values.size):
        put(words, np.int64(position) + i, (np.uint64(values[i]) >> low) & _1, 1)
    return np.int64(position) + values.size


@njit(cache=True, nogil=True, inline="always")
def turned(word):
    """The eight bytes of ``word`` in the other order."""
    word = ((word & _ODD_1) >> _8) | ((word << _8) & _ODD_1)
    word = ((word & _ODD_2) >> _16) | ((word << _16) & _ODD_2)
    return (word >> _32) | (word << _32)


@njit(cache=True, nogil=True)
def _put_bytes(words, position, values, width, low):
    """Whole bytes, eight a word and one shift for all.

    A block at a time: narrowed to bytes, read as words (little-endian, as all machines
    that this compiles for), turned, and added to the stream in two loops without order.
    """
    block = np.empty(_BLOCK, np.uint8)
    eights = block.view(np.uint64)
    shift = np.uint64(position) & _63
    word = np.int64(position) >> 6
    full = values.size // 8 * 8
    for start in range(0, full, _BLOCK):
        part = values[start : min(start + _BLOCK, full)]
        for i in range(part.size):
            block[i] = np.uint8(np.uint64(part[i]) >> low)
        target = words[word + start // 8 :]
        for i in range(part.size // 8):
            target[i] |= turned(eights[i]) >> shift
        if shift:
            for i in range(part.size // 8):
                target[i + 1] |= turned(eights[i]) << (_64 - shift)
    return _put_64(words, np.int64(position) + 8 * full, values[full:], width, low)


@njit(cache=True, nogil=True)
def _get_groups(words, position, values, width, low, group):
    """``get_fields`` in groups; see ``_put_groups``."""
    size, last = len(group), _64 - width
    groups = values.size // size
    for i in range(groups):
        window = peek(words, position)
        for j in range(size):
            values[size * i + j] = (window >> last) << low
            window <<= width
        position += size * np.int64(width)
    for i in range(size * groups, values.size):
        values[i] = (peek(words, position) >> last) << low
        position += np.int64(width)
    return position


@njit(cache=True, nogil=True)
def _get_1(words, position, values, width, low):
    """Single bits, 64 a word, in a loop that is compiled to vectors."""
    full = values.size // 64
    for i in range(full):
        window = peek(words, position + 64 * i)
        for j in range(64):
            values[64 * i + j] = ((window >> np.uint64(63 - j)) & _1) << low
    for i in range(64 * full, values.size):
        values[i] = (peek(words, position + i) >> _63) << low
    return position + values.size


@njit(cache=True, nogil=True)
def _get_64(words, position, values, width, low):
    last = _64 - width
    for i in range(values.size):
        values[i] = (peek(words, position) >> last) << low
        position += np.int64(width)
    return position


# Kernels by the widest field they take: as many fields in a group as fit into a word.
_PUT: tuple[tuple[int, Any, tuple[Any, ...]], ...] = (
    (1, _put_1, ()),
    (7, _put_groups, (EIGHT,)),
    (8, _put_bytes, ()),
    (16, _put_groups, (_FOUR,)),
    (32, _put_groups, (_TWO,)),
    (64, _put_64, ()),
)
_GET: tuple[tuple[int, Any, tuple[Any, ...]], ...] = (
    (1, _get_1, ()),
    (8, _get_groups, (EIGHT,)),
    (16, _get_groups, (_FOUR,)),
    (32, _get_groups, (_TWO,)),
    (64, _get_64, ()),
)


def put_fields(words, position, values, width, low=0):
    """Writes bits ``low`` to ``low + width - 1`` of each of ``values``; width is 1 to 64.

    The bits of ``pack.put`` with ``(values >> low) & (2**width - 1)``, without that array.
    """
    kernel, group = next((kernel, group) for widest, kernel, group in _PUT if width <= widest)
    return kernel(words, position, values, np.uint64(width), np.uint64(low), *group)


def get_fields(words, position, values, width, low=0):
    """Fills ``values`` with ``width``-bit fields (1 to 64), each shifted up by ``low`` bits."""
    kernel, group = next((kernel, group) for widest, kernel, group in _GET if width <= widest)
    return kernel(words, position, values, np.uint64(width), np.uint64(low), *group)
