"""Golomb codes of gaps between sorted positions, and Rice codes (SBC, Algorithms 3 and 4).

A gap d >= 1 to the position before (the first counts from -1) is (d - 1) // m ones, a zero, and the
remainder in truncated binary: with c the bits of m - 1 and short = 2**c - m, the first ``short``
remainders take c - 1 bits, and a later one r is written as r + short in c bits. Where m is 2**b
that is a Rice code, of (d - 1) >> b ones, a zero, and the low b bits of d - 1.
"""

import numpy as np
from numba import njit

from compressors.kernels.elias import leading_zeros
from compressors.kernels.pack import peek, put

_1 = np.uint64(1)
_ONES = np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True, inline="always")
def _put_unary(words, position, quotient):
    """Writes so many ones, 32 at a time, and a zero; returns the bit after."""
    while quotient > 31:
        put(words, position, _ONES, 32)
        position += 32
        quotient -= 32
    put(words, position, ((_1 << np.uint64(quotient)) - _1) << _1, quotient + 1)
    return position + quotient + 1


@njit(cache=True, nogil=True)
def encode_rice(indices, b, words, position):
    """Writes sorted ``indices`` (int64) at bit ``position``; returns the bit after the last.

    The caller has reserved ``k * (1 + b) + (n >> b)`` bits: quotients sum to at most n >> b.
    """
    mask = (_1 << np.uint64(b)) - _1
    previous = np.int64(-1)
    for i in range(indices.size):
        gap = np.uint64(indices[i] - previous - 1)
        previous = indices[i]
        position = _put_unary(words, position, np.int64(gap >> np.uint64(b)))
        if b > 0:
            put(words, position, gap & mask, b)
            position += b
    return position


@njit(cache=True, nogil=True)
def decode_rice(words, position, end, n, b, indices):
    """Fills ``indices`` (int64) from bit ``position``; returns the bit after the last, or -1.

    -1 means that the code ran past bit ``end`` or an index reached ``n``. A run of
    ones is cut off at n, so hostile bits cost no more time than honest ones.
    """
    low = np.uint64(64 - b)
    index = np.int64(-1)
    for i in range(indices.size):
        quotient = np.int64(0)
        ones = np.int64(leading_zeros(~peek(words, position)))
        while ones == 64:
            quotient += 64
            if position + quotient >= end or (quotient << b) > n:
                return -1
            ones = np.int64(leading_zeros(~peek(words, position + quotient)))
        quotient += ones
        position += quotient + 1
        if position + b > end or quotient > n:
            return -1
        gap = quotient << b
        if b > 0:
            gap += np.int64(peek(words, position) >> low)
            position += b
        index += gap + 1
        if index >= n:
            return -1
        indices[i] = index
    return position


@njit(cache=True, nogil=True)
def count_rice_bits(indices, b):
    """Bits of the codes of sorted ``indices``."""
    bits, previous = indices.size * (1 + np.int64(b)), np.int64(-1)
    for i in range(indices.size):
        bits += (indices[i] - previous - 1) >> b
        previous = indices[i]
    return bits


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
        position = _put_unary(words, position, quotient)
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
        position = _put_unary(words, position, _divide(gap, m, inverse))
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
