"""Elias gamma, delta and omega codes of gaps and of symbols.

A code of a number v >= 1 of L bits is a head that tells L, and a tail that tells v where L
is known: gamma has L - 1 zeros and v, delta has gamma(L) and v without its first bit, omega
has the groups that tell L - 1, then v and a zero. Heads and widths come from small tables
(``compressors.coders.elias``), so that one loop serves the three codes.
"""

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from compressors.kernels.pack import peek, put

_0 = np.uint64(0)
_1 = np.uint64(1)
_63 = np.uint64(63)
_64 = np.uint64(64)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_52 = np.uint64(52)  # a window's first 12 bits decide the length of what follows


@intrinsic
def leading_zeros(context, word):
    """How many zeros a uint64 starts with, 64 for zero: one instruction."""

    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], context.get_constant(types.boolean, False))

    return types.uint64(types.uint64), generate


@intrinsic
def trailing_zeros(context, word):
    """How many zeros a uint64 ends with, 64 for zero: one instruction."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.uint64(types.uint64), generate


@njit(cache=True, nogil=True, inline="always")
def bit_length(value):
    """floor(log2 value) + 1 of a uint64; 0 for zero."""
    return np.int64(_64 - leading_zeros(value))


@njit(cache=True, nogil=True, inline="always")
def _put_code(words, position, value, heads, widths, shift):
    """Writes one code; returns the bit after it."""
    length = bit_length(value)
    head, tail = widths[0, length], widths[1, length]
    low = (value << shift) & (_ALL >> np.uint64(64 - tail)) if tail else _0
    if head + tail <= 64:
        put(words, position, (heads[length] << np.uint64(tail)) | low, head + tail)
    else:  # only gamma has heads of more than 11 bits, and those are zeros
        put(words, position, heads[length], head)
        put(words, position + head, low, tail)
    return position + head + tail


@njit(cache=True, nogil=True)
def _next_code(words, position, end, lengths, widths, shift):
    """The next number and the bit after it; 0 where it is none or ends behind bit ``end``.

    ``lengths`` tells from 12 bits how many bits the number has (0: no number starts so);
    an empty table stands for gamma's zeros, which are counted.
    """
    window = peek(words, position)
    if lengths.size:
        length = np.int64(lengths[window >> _52])
    else:
        length = np.int64(leading_zeros(window)) + 1
    if length < 1 or length > 63:
        return _0, position
    head, tail = widths[0, length], widths[1, length]
    after = position + head + tail
    if after > end:
        return _0, position
    low = _0
    if head + tail > 64:
        low = peek(words, position + head) >> np.uint64(64 - tail)
    elif tail:
        low = (window << np.uint64(head)) >> np.uint64(64 - tail)
    if low & shift:  # omega ends with a zero
        return _0, position
    return (low >> shift) | (_1 << np.uint64(length - 1)), after


@njit(cache=True, nogil=True)
def count_lengths(items, gaps):
    """How many of the numbers have each length in bits: int64 (64,).

    The numbers of sorted positions are their gaps, of which the first counts from -1; ``gaps`` is
    anything. Those of symbols count from -1, each of them; ``gaps`` is None.
    """
    counts = np.zeros(64, np.int64)
    previous = np.int64(-1)
    for i in range(items.size):
        counts[bit_length(np.uint64(np.int64(items[i]) - previous))] += 1
        if gaps is not None:
            previous = np.int64(items[i])
    return counts


@njit(cache=True, nogil=True)
def encode_items(items, gaps, words, position, heads, widths, shift):
    """Writes the numbers of ``items`` (see ``count_lengths``); the bit after the last."""
    previous = np.int64(-1)
    for i in range(items.size):
        number = np.uint64(np.int64(items[i]) - previous)
        if gaps is not None:
            previous = np.int64(items[i])
        position = _put_code(words, position, number, heads, widths, shift)
    return position


@njit(cache=True, nogil=True)
def decode_items(words, position, end, limit, gaps, items, lengths, widths, shift):
    """Fills ``items``; the bit after the last, or -1 behind ``end`` or from ``limit`` on."""
    previous = np.int64(-1)
    for i in range(items.size):
        number, position = _next_code(words, position, end, lengths, widths, shift)
        if number - _1 >= np.uint64(limit - 1 - previous):  # none is 0, and 0 - 1 the largest
            return np.int64(-1)
        item = previous + np.int64(number)
        items[i] = item
        if gaps is not None:
            previous = item
    return position


@njit(cache=True, nogil=True)
def elias_bits(codes, widths):
    """Bits that ``encode_elias`` takes; ``widths`` (64,) are those of a number by its own bits."""
    total, previous = np.int64(0), np.int64(-1)
    for i in range(codes.size):
        if codes[i]:
            level = (np.uint64(codes[i]) + _1) >> _1
            total += widths[bit_length(np.uint64(i - previous))] + 1 + widths[bit_length(level)]
            previous = i
    return total + widths[bit_length(np.uint64(codes.size - previous))]


@njit(cache=True, nogil=True)
def encode_elias(codes, words, position, heads, widths, shift):
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
def decode_elias(words, position, end, alphabet, codes, lengths, widths, shift):
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
