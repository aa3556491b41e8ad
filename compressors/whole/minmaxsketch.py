"""MinMaxSketch: small numbers for keys, in a table that forgets upwards (SketchML)."""

import math

import numpy as np

from compressors.base import tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.kernels.noise import words

_ROW = 16  # rows use the purposes 16, 17, ... of a tensor's seed


def columns_of(count: int, share: float) -> int:
    """Cells in a row of the sketch of ``count`` keys."""
    return math.ceil(count * share)


def _cells(keys: np.ndarray, row: int, columns: int, seed: int) -> np.ndarray:
    """The cell of each key in a row: the high part of counter noise times the row's length."""
    drawn = words(tensor_seed(seed, _ROW + row), keys).astype(np.uint64)
    return ((drawn * np.uint64(columns)) >> np.uint64(32)).astype(np.int64)


def make(keys: np.ndarray, numbers: np.ndarray, size: int, rows: int, columns: int,
         seed: int) -> np.ndarray:  # fmt: skip
    """The table (rows, columns) of ``numbers`` from 0 to size - 1 of ``keys``.

    A cell holds the smallest number of the keys that fall on it; size - 1 if none does
    (SketchML, section 3.3, the insert phase).
    """
    table = np.full((rows, columns), size - 1, np.int64)
    for row in range(rows):
        np.minimum.at(table[row], _cells(keys, row, columns, seed), numbers)
    return table


def ask(table: np.ndarray, keys: np.ndarray, seed: int) -> np.ndarray:
    """The largest of each key's cells: its number, or a smaller one where every cell was shared."""
    rows, columns = table.shape
    values = [table[row][_cells(keys, row, columns, seed)] for row in range(rows)]
    return np.max(values, axis=0)


def write(table: np.ndarray, size: int, out: BitWriter) -> None:
    """Every cell in ceil(log2 size) bits, row by row."""
    out.uints(table.reshape(-1).astype(np.uint64), (size - 1).bit_length())


def read(bits: BitReader, rows: int, columns: int, size: int) -> np.ndarray:
    """The table that ``write`` wrote; a number beyond ``size`` - 1 is taken for that."""
    cells = bits.uints(rows * columns, (size - 1).bit_length(), np.int64)
    return np.minimum(cells, size - 1).reshape(rows, columns)
