"""The contract of a position code."""

from typing import Protocol, runtime_checkable

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.errors import PartError, PayloadError
from compressors.kernels.compact import rises


class PositionCode(Protocol):
    """Sorted int64 indices below n to bits and back."""

    @property
    def needs_seed(self) -> bool:
        """Whether ``read_positions`` needs the seed."""
        ...

    def write_positions(
        self, indices: np.ndarray, n: int, out: BitWriter, seed: int
    ) -> np.ndarray:
        """Writes ``indices`` (k,) and returns those that the receiver will rebuild."""
        ...

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The indices that ``write_positions`` returned, of which ``k`` were written."""
        ...


@runtime_checkable
class Lossy(Protocol):
    """A position code whose receiver may rebuild other positions than were written."""

    @property
    def shifts(self) -> bool:
        """Whether the values of the written positions travel in order, right or wrong.

        As many positions are rebuilt then as were written. Otherwise the values that
        travel are those of the rebuilt positions.
        """
        ...


@runtime_checkable
class Measured(Protocol):
    """A position code that knows how long its message will be, without writing it."""

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        """Exactly the bits that ``write_positions`` takes for ``indices`` (k,) below ``n``."""
        ...


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
