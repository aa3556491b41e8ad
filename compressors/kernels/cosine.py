"""The discrete cosine transform of tiles of a matrix, orthonormal, and back: numba, in float64.

A tile T of a rows and b columns becomes A T B', where row k of the matrix A (a, a) is
sqrt(2 / a) cos(pi (i + 1/2) k / a), over sqrt 2 for k = 0. Coefficients stand tile after tile, the
tiles by rows. Sums are in order, rounded once to float32; what leaves float32 saturates.
"""

import math

import numpy as np
from numba import njit

from compressors.arraycache import keeps_arrays

_LARGEST = float(np.finfo(np.float32).max)


@keeps_arrays
def basis(size: int) -> np.ndarray:
    """The matrix of the transform of ``size`` entries: orthonormal float64 (size, size).

    Example:
        >>> basis(2).round(4).tolist()
        [[0.7071, 0.7071], [0.7071, -0.7071]]
    """
    matrix = np.array(
        [[math.cos(math.pi * (i + 0.5) * k / size) for i in range(size)] for k in range(size)]
    )
    matrix *= math.sqrt(2 / size)
    matrix[0] /= math.sqrt(2)
    return matrix


@njit(cache=True, nogil=True)
def _product(left, x, out):
    """out = left @ x."""
    out[:] = 0.0
    for i in range(left.shape[0]):
        row = out[i]
        for k in range(left.shape[1]):
            factor = left[i, k]
            other = x[k]
            for j in range(row.size):
                row[j] += factor * other[j]


@njit(cache=True, nogil=True)
def _tile(rows, tile, columns):
    """rows @ tile @ columns, float64."""
    half = np.empty((rows.shape[0], tile.shape[1]), np.float64)
    _product(rows, tile, half)
    product = np.empty((half.shape[0], columns.shape[1]), np.float64)
    _product(half, columns, product)
    return product


@njit(cache=True, nogil=True)
def transform(x, height, width, bases, rest_rows, rest_columns, back, out):
    """All tiles of a matrix of ``x.size`` entries.

    Args:
        x: float32 (n,): the matrix by rows, or with ``back`` the coefficients tile by tile.
        height: rows of a tile; the last tiles may have fewer, those of ``rest_rows``.
        width: columns of a tile; the same with ``rest_columns``.
        bases: the matrices of ``height`` and of ``width``.
        rest_rows: the matrix of the last tiles' rows.
        rest_columns: the matrix of the last tiles' columns.
        back: whether to undo it.
        out: float32 (rows, columns) with ``back``, as the matrix; else too, filled tile by tile.
    """
    rows, columns = out.shape
    flat = out.reshape(-1)
    start = 0
    for top in range(0, rows, height):
        a = min(height, rows - top)
        for left in range(0, columns, width):
            b = min(width, columns - left)
            first = bases[0] if a == height else rest_rows
            second = bases[1] if b == width else rest_columns
            tile = np.empty((a, b), np.float64)
            for i in range(a):
                for j in range(b):
                    place = start + i * b + j if back else (top + i) * columns + left + j
                    tile[i, j] = np.float64(x[place])
            if back:
                done = _tile(first.T.copy(), tile, second)
            else:
                done = _tile(first, tile, second.T.copy())
            for i in range(a):
                for j in range(b):
                    value = min(max(done[i, j] + 0.0, -_LARGEST), _LARGEST)
                    place = (top + i) * columns + left + j if back else start + i * b + j
                    flat[place] = np.float32(value)
            start += a * b
