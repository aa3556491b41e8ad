"""The hexagonal lattice with subtractive dither: pairs of values to points, and back.

Lengths are in units of the distance of neighbours across, and of half the distance of rows down:
point (m, j) lies at (m + (j odd) / 2, j). The square of a length is du**2 + 3/4 dv**2. All
arithmetic is float64 in an order that no compiler may change.
"""

import numpy as np
from numba import njit

from compressors.kernels.noise import draw

_PLACES = np.float64(2.0**-32)
_LARGEST = np.float64(np.finfo(np.float32).max)


@njit(cache=True, nogil=True, inline="always")
def _point(u, v):
    """The nearest lattice point, and half a step where its row is odd: the nearer of two."""
    even, even_row = np.floor(u + 0.5), 2.0 * np.floor(0.5 * v + 0.5)
    odd, odd_row = np.floor(u), 2.0 * np.floor(0.5 * v) + 1.0
    du, dv = u - even, v - even_row
    pu, pv = u - (odd + 0.5), v - odd_row
    is_odd = pu * pu + 0.75 * (pv * pv) < du * du + 0.75 * (dv * dv)
    return (odd if is_odd else even), (odd_row if is_odd else even_row), 0.5 if is_odd else 0.0


@njit(cache=True, nogil=True, inline="always")
def _dither(multiplier, offset, i):
    """Uniform on the cell around zero: a box of two cells, folded."""
    u = (np.float64(draw(multiplier, offset, np.uint32(i))) + 0.5) * _PLACES
    v = (np.float64(draw(multiplier, offset, np.uint32(i + 1))) + 0.5) * (2.0 * _PLACES)
    m, j, half = _point(u, v)
    return u - (m + half), v - j


@njit(cache=True, nogil=True, inline="always")
def _line(multiplier, offset, i):
    """Uniform from -1/2 to 1/2: the dither of a value that has no second one."""
    return (np.float64(draw(multiplier, offset, np.uint32(i))) + 0.5) * _PLACES - 0.5


@njit(cache=True, nogil=True, inline="always")
def _folded(number):
    """0, -1, 1, -2, ... as 0, 1, 2, 3, ..."""
    nearest = np.int32(number)
    return np.int32((nearest << np.int32(1)) ^ (nearest >> np.int32(31)))


@njit(cache=True, nogil=True, inline="always")
def _unfolded(code):
    """The whole number, int64, that ``code`` stands for."""
    folded = np.int64(code)
    return (folded >> np.int64(1)) ^ -(folded & np.int64(1))


@njit(cache=True, nogil=True, inline="always")
def _within(value):
    return np.float32(min(max(value, -_LARGEST), _LARGEST))


@njit(cache=True, nogil=True)
def to_points(x, across, down, multiplier, offset, codes):
    """Writes the coordinates of the point nearest to each dithered pair; returns the largest."""
    top = np.int32(0)
    for i in range(0, x.size - 1, 2):
        zu, zv = _dither(multiplier, offset, i)
        m, j, _ = _point(np.float64(x[i]) / across + zu, np.float64(x[i + 1]) / down + zv)
        codes[i], codes[i + 1] = _folded(m), _folded(j)
        top = max(top, codes[i], codes[i + 1])
    if x.size % 2:
        i = x.size - 1
        codes[i] = _folded(np.floor(np.float64(x[i]) / across + _line(multiplier, offset, i) + 0.5))
        top = max(top, codes[i])
    return top


@njit(cache=True, nogil=True)
def from_points(codes, across, down, multiplier, offset, out):
    """Fills ``out`` with the points less the dither; beyond float32, its largest number."""
    for i in range(0, codes.size - 1, 2):
        zu, zv = _dither(multiplier, offset, i)
        m, j = _unfolded(codes[i]), _unfolded(codes[i + 1])
        half = 0.5 * np.float64(j & np.int64(1))
        out[i] = _within((np.float64(m) + half - zu) * across)
        out[i + 1] = _within((np.float64(j) - zv) * down)
    if codes.size % 2:
        i = codes.size - 1
        out[i] = _within((np.float64(_unfolded(codes[i])) - _line(multiplier, offset, i)) * across)
