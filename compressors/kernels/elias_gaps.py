"""Symbols other than zero, each as the gap to it, its sign and its level: Elias codes in one walk.

Symbol 2j - 1 is minus level j and 2j is plus level j, as dithering numbers them. The walk ends with
the gap to one entry behind the last.
"""

import numpy as np
from numba import njit

from compressors.kernels.elias import _next_code, _put_code, bit_length
from compressors.kernels.pack import peek, put

_0 = np.uint64(0)
_1 = np.uint64(1)
_63 = np.uint64(63)


@njit(cache=True, nogil=True)
def count(codes, widths):
    """The bits that ``encode`` takes; ``widths`` (64,) are those of a number by its own bits."""
    total, previous = np.int64(0), np.int64(-1)
    for i in range(codes.size):
        if codes[i]:
            level = (np.uint64(codes[i]) + _1) >> _1
            total += widths[bit_length(np.uint64(i - previous))] + 1 + widths[bit_length(level)]
            previous = i
    return total + widths[bit_length(np.uint64(codes.size - previous))]


@njit(cache=True, nogil=True)
def encode(codes, words, position, heads, widths, shift):
    """Writes ``codes`` (k,); returns the bit after the last."""
    previous = np.int64(-1)
    for i in range(codes.size):
        if codes[i]:
            code = np.uint64(codes[i])
            gap = np.uint64(i - previous)
            position = _put_code(words, position, gap, heads, widths, shift)
            put(words, position, code & _1, 1)
            level = (code + _1) >> _1
            position = _put_code(words, position + 1, level, heads, widths, shift)
            previous = i
    gap = np.uint64(codes.size - previous)
    return _put_code(words, position, gap, heads, widths, shift)


@njit(cache=True, nogil=True)
def decode(words, position, end, alphabet, codes, lengths, widths, shift):
    """Fills ``codes``; the bit after the end, or -1 behind ``end`` or outside the alphabet."""
    codes[:] = 0
    index = np.int64(-1)
    while True:
        gap, position = _next_code(words, position, end, lengths, widths, shift)
        if gap == _0 or gap > np.uint64(codes.size - index):
            return np.int64(-1)
        index += np.int64(gap)
        if index == codes.size:
            return position
        if position >= end:
            return np.int64(-1)
        minus = peek(words, position) >> _63
        level, position = _next_code(words, position + 1, end, lengths, widths, shift)
        if level == _0 or level > np.uint64(alphabet):
            return np.int64(-1)
        code = (level << _1) - minus
        if code >= np.uint64(alphabet):
            return np.int64(-1)
        codes[index] = code
