"""Rounding to powers of two on the bits of IEEE 754 numbers (Horváth et al. 2022, section 2).

A float32 without its sign is a whole number: the biased exponent in bits 23 to 30 and
the mantissa m in units of 2**-23 below. Adding a uniform number U of 23 bits carries into
the exponent with probability m, and clearing the low 23 bits leaves the power of two:
``(bits + U) & 0xFF800000`` is Definition 1 exactly. U is the low 23 bits of the noise of the
entry. A carry beyond the largest exponent is taken back: 2**127 is the end.

A window of exponents has a lowest power, of biased exponent ``lowest`` here. Above one, a
number below that power becomes it or zero: the power where the 32 bits of noise plus one
half are less than |x| / power in units of 2**-32, so that the chance is the nearest
multiple of 2**-32. With ``lowest`` = 1 those numbers are float32's denormals, and the carry
above does the same.

A code is the sign, above the exponent counted from the lowest power as one; the field of
zero is zero."""

import numpy as np
from numba import njit

from compressors.kernels import noise

_23 = np.uint32(23)
_MANTISSA = np.uint32(0x007FFFFF)
_EXPONENT = np.uint32(0x7F800000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_SIGN = np.uint32(0x80000000)
_LAST = np.uint32(0x7F000000)  # 2**127, the largest power of two
_HALF = np.uint32(0x00400000)


@njit(cache=True, nogil=True)
def codes_random(bits, multiplier, offset, start, out):
    """Codes of nine bits of random powers of two, sign and biased exponent; entry i draws the
    noise of start + i.
    """
    first = np.uint32(start)
    for i in range(bits.size):
        u = noise.draw(multiplier, offset, np.uint32(first + np.uint32(i))) & _MANTISSA
        power = np.uint32(np.uint32((bits[i] & _MAGNITUDE) + u) & _EXPONENT)
        out[i] = np.uint32((bits[i] & _SIGN) | min(power, _LAST)) >> _23


@njit(cache=True, nogil=True, inline="always")
def _code(bits, power, lowest, highest, sign):
    """The code of a magnitude that is a power of two, or zero, given as bits."""
    exponent = min(power >> _23, highest)
    field = exponent - lowest + np.uint32(1) if exponent >= lowest else np.uint32(0)
    return np.uint32(((bits >> np.uint32(31)) << sign) | field)


@njit(cache=True, nogil=True)
def codes_window(values, bits, multiplier, offset, start, lowest, highest, sign, out):
    """Codes of random powers between the biased exponents ``lowest`` and ``highest``.

    ``sign`` is the number of the sign's bit in a code. ``bits`` are those of ``values``.
    """
    scale = 2.0 ** (159.0 - np.float64(lowest))  # of float64: exact, and never a denormal
    floor, first = np.uint32(lowest << _23), np.uint32(start)
    for i in range(bits.size):
        word = noise.draw(multiplier, offset, np.uint32(first + np.uint32(i)))
        magnitude = bits[i] & _MAGNITUDE
        power = np.uint32(np.uint32(magnitude + (word & _MANTISSA)) & _EXPONENT)
        rises = np.float64(word) + 0.5 < abs(np.float64(values[i])) * scale
        if magnitude < floor and lowest > 1:
            power = floor if rises else np.uint32(0)
        out[i] = _code(bits[i], power, lowest, highest, sign)


@njit(cache=True, nogil=True)
def codes_nearest(bits, lowest, highest, sign, out):
    """Codes of the nearest powers, ties to the greater one; half the lowest power rises to it."""
    floor = np.uint32(lowest << _23)
    half = np.uint32(floor - (_HALF if lowest == 1 else np.uint32(0x00800000)))
    for i in range(bits.size):
        magnitude = bits[i] & _MAGNITUDE
        power = np.uint32(np.uint32(magnitude + _HALF) & _EXPONENT)
        if magnitude < floor:
            power = floor if magnitude >= half else np.uint32(0)
        out[i] = _code(bits[i], power, lowest, highest, sign)


@njit(cache=True, nogil=True)
def decode_powers(codes, lowest, sign, out):
    """The bits of the float32 numbers that ``codes`` mean, in ``out`` (uint32)."""
    mask, below = np.uint32((np.uint32(1) << sign) - np.uint32(1)), np.uint32(lowest - np.uint32(1))
    for i in range(codes.size):
        code = np.uint32(codes[i])
        field = np.uint32(code & mask)
        power = np.uint32(np.uint32(field + below) << _23)
        power = power if field else np.uint32(0)
        out[i] = np.uint32(np.uint32(np.uint32(code >> sign) << np.uint32(31)) | power)
