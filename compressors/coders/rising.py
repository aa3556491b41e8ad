"""Positions rise: what every position code asks of what it writes, and of what it has read."""

import numpy as np

from compressors.errors import PartError, PayloadError
from compressors.kernels.compact import rises


def check_rising(indices: np.ndarray, n: int) -> None:
    """``PartError`` unless ``indices`` are an int64 array (k,) that rises from 0 to n - 1 at most.

    For every writer, before a kernel: it makes room for positions that do, and writes past it
    for others.
    """
    if indices.dtype != np.int64 or indices.ndim != 1 or not rises(indices, n):
        raise PartError(f"positions to write that do not rise from entry 0 to entry {n - 1}")


def check_sorted(indices: np.ndarray, n: int) -> np.ndarray:
    """The ``indices`` (int64); ``PayloadError`` unless they rise strictly from 0 to below n."""
    rise = indices.size == 0 or bool(indices[0] >= 0 and (indices[1:] > indices[:-1]).all())
    if not rise or (indices.size and int(indices[-1]) >= n):
        raise PayloadError(f"positions that do not rise from entry 0 to entry {n - 1}")
    return indices
