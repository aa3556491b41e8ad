"""Golomb codes of any whole m >= 1, interleaved or as two planes.

A gap d >= 1 is (d - 1) // m ones, a zero, and the remainder in truncated binary: with c the
bits of m - 1 and short = 2**c - m, the first ``short`` remainders take c - 1 bits, and a later
one r is written as r + short in c bits. Where m is a power of two that is ``rice``'s code.
"""

import numpy as np
from numba import njit

from compressors.kernels.elias import leading_zeros
from compressors.kernels.pack import peek, put

_1 = np.uint64(1)
_ONES = np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True, inline="always")
def _bits_of(m):
    """c, and how many remainders take a bit less."""
    c = np.int64(0) if m == 1 else np.int64(64 - leading_zeros(np.uint64(m - 1)))
    return c, (np.int64(1) << c) - m


@njit(cache=True, nogil=True, inline="always")
def _divide(gap, m, inverse):
    """gap // m: a product with 1 / m, put right where rounding took it across a whole number.

    A division takes several times as long. The product is off by less than one as long as
    the quotient is below 2**52, and a quotient is at most a number of entries.
    """
    quotient = np.int64(np.float64(gap) * inverse)
    remainder = gap - quotient * m
    if remainder < 0:
        quotient -= 1
    elif remainder >= m:
        quotient += 1
    return quotient


@njit(cache=True, nogil=True, inline="always")
def _put_ones(words, position, quotient):
    """Writes all but at most 31 of the ones; returns how many are left, and the bit after."""
    while quotient > 31:
        put(words, position, _ONES, 32)
        position += 32
        quotient -= 32
    return quotient, position


@njit(cache=True, nogil=True, inline="always")
def _rest_code(remainder, c, short):
    """The number that stands for a remainder, and its width."""
    late = np.int64(remainder >= short)
    return np.uint64(remainder + short * late), c - 1 + late


@njit(cache=True, nogil=True)
def _next_unary(words, position, end, longest):
    """The next quotient and the bit after it; -1 behind bit ``end`` or above ``longest``."""
    quotient = np.int64(0)
    while True:
        ones = np.int64(leading_zeros(~peek(words, position)))
        position += ones
        quotient += ones
        if position >= end or quotient > longest:
            return np.int64(-1), position
        if ones < 64:
            return quotient, position + 1


@njit(cache=True, nogil=True)
def _next_rest(words, position, c, short):
    """The next remainder and the bit after it, which may lie behind the end."""
    if c == 0:
        return np.int64(0), position
    field = np.int64(peek(words, position) >> np.uint64(64 - c))
    if field >> 1 < short:
        return field >> 1, position + c - 1
    return field - short, position + c


@njit(cache=True, nogil=True)
def count_golomb_bits(indices, m):
    """Bits of all gaps of sorted ``indices``."""
    (c, short), inverse = _bits_of(m), 1.0 / m
    bits, previous = np.int64(0), np.int64(-1)
    for i in range(indices.size):
        gap = indices[i] - previous - 1
        previous = indices[i]
        quotient = _divide(gap, m, inverse)
        bits += quotient + 1 + c - (gap - quotient * m < short)
    return bits


@njit(cache=True, nogil=True)
def encode_golomb(indices, m, words, position):
    """Writes sorted ``indices``, quotient and remainder by turns; the bit after the last."""
    (c, short), inverse = _bits_of(m), 1.0 / m
    previous = np.int64(-1)
    for i in range(indices.size):
        gap = indices[i] - previous - 1
        previous = indices[i]
        quotient = _divide(gap, m, inverse)
        code, width = _rest_code(gap - quotient * m, c, short)
        quotient, position = _put_ones(words, position, quotient)
        put(words, position, ((_1 << np.uint64(quotient)) - _1) << _1, quotient + 1)
        position += quotient + 1
        if width > 0:
            put(words, position, code, width)
            position += width
    return position


@njit(cache=True, nogil=True)
def encode_split(indices, m, words, position):
    """Writes all quotients, then all remainders."""
    (c, short), inverse = _bits_of(m), 1.0 / m
    previous = np.int64(-1)
    for i in range(indices.size):
        gap = indices[i] - previous - 1
        previous = indices[i]
        quotient, position = _put_ones(words, position, _divide(gap, m, inverse))
        put(words, position, ((_1 << np.uint64(quotient)) - _1) << _1, quotient + 1)
        position += quotient + 1
    previous = np.int64(-1)
    for i in range(indices.size):
        gap = indices[i] - previous - 1
        previous = indices[i]
        code, width = _rest_code(gap - _divide(gap, m, inverse) * m, c, short)
        if width > 0:
            put(words, position, code, width)
            position += width
    return position


@njit(cache=True, nogil=True)
def decode_golomb(words, position, end, n, m, indices):
    """Fills ``indices``; the bit after the last, or -1 behind bit ``end`` or from index n on."""
    c, short = _bits_of(m)
    index = np.int64(-1)
    for i in range(indices.size):
        quotient, position = _next_unary(words, position, end, n // m)
        if quotient < 0:
            return np.int64(-1)
        remainder, position = _next_rest(words, position, c, short)
        gap = quotient * m + remainder
        if position > end or gap >= n - index - 1:
            return np.int64(-1)
        index += gap + 1
        indices[i] = index
    return position


@njit(cache=True, nogil=True)
def decode_split(words, position, end, n, m, indices):
    """``decode_golomb`` of what ``encode_split`` wrote."""
    c, short = _bits_of(m)
    for i in range(indices.size):
        quotient, position = _next_unary(words, position, end, n // m)
        if quotient < 0:
            return np.int64(-1)
        indices[i] = quotient
    index = np.int64(-1)
    for i in range(indices.size):
        if position > end:
            return np.int64(-1)
        remainder, position = _next_rest(words, position, c, short)
        gap = indices[i] * m + remainder
        if gap >= n - index - 1:
            return np.int64(-1)
        index += gap + 1
        indices[i] = index
    return position if position <= end else np.int64(-1)
