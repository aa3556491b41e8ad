"""Elias gamma, delta and omega codes of gaps and of symbols, and lists in tables of codes.

A code of a number v >= 1 of L bits is a head that tells L, and a tail that tells v where L
is known: gamma has L - 1 zeros and v, delta has gamma(L) and v without its first bit, omega
has the groups that tell L - 1, then v and a zero. Heads and widths come from small tables
(``compressors.coders.elias``), so that one loop serves the three codes.

Lists of whole numbers v >= 1 are in exponential Golomb codes: in order b the gamma code of
((v - 1) >> b) + 1, then the low b bits of v - 1. Order 0 is gamma; an order near log2 of the mean
is close to a Rice code, and none makes a long code of one large number among small ones.
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
MAX_BITS = 62  # of a number in an exponential Golomb code: its gamma part and the order


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


@njit(cache=True, nogil=True)
def cost(values, order):
    """Bits of ``values`` (int64, each >= 1) in one order."""
    bits = np.int64(0)
    for v in values:
        bits += 2 * bit_length((np.uint64(v - 1) >> np.uint64(order)) + _1) - 1 + order
    return bits


@njit(cache=True, nogil=True)
def best_order(values):
    """The cheapest order up to a little above the mean, and the bits of the values in it.

    An order's own gamma code is counted: of a short list it decides.
    """
    mean = values.sum() // values.size
    order, bits, least = 0, np.int64(0), np.int64(1) << np.int64(62)
    for candidate in range(min(MAX_BITS, bit_length(np.uint64(mean)) + 2)):
        taken = cost(values, candidate)
        total = taken + 2 * bit_length(np.uint64(candidate + 1))
        if total < least:
            order, bits, least = candidate, taken, total
    return order, bits


@njit(cache=True, nogil=True)
def encode_exp_golomb(words, position, values, order):
    """Writes ``values``; returns the bit after the last. ``cost`` bits have been reserved."""
    low = np.uint64(order)
    mask = (_1 << low) - _1
    for v in values:
        offset = np.uint64(v - 1)
        high = (offset >> low) + _1
        width = bit_length(high)
        position += width - 1
        put(words, position, high, width)
        position += width
        if order:
            put(words, position, offset & mask, order)
            position += order
    return position


@njit(cache=True, nogil=True)
def decode_exp_golomb(words, position, end, order, limit, values):
    """Fills ``values``; returns the bit after the last.

    -1 where a code runs past bit ``end``, -2 where the numbers so far sum to more than
    ``limit`` (below 2**62, so that no sum overflows).
    """
    total = np.int64(0)
    for i in range(values.size):
        window = peek(words, position)
        zeros = np.int64(leading_zeros(window))
        if zeros + order > MAX_BITS:
            return np.int64(-2)
        if position + 2 * zeros + 1 + order > end:
            return np.int64(-1)
        position += zeros
        high = peek(words, position) >> np.uint64(63 - zeros)
        position += zeros + 1
        offset = (high - _1) << np.uint64(order)
        if order:
            offset |= peek(words, position) >> (_64 - np.uint64(order))
            position += order
        value = np.int64(offset) + 1
        if value > limit - total:
            return np.int64(-2)
        total += value
        values[i] = value
    return position
