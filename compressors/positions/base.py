"""The contract of a position code."""

from typing import Protocol

import numpy as np

from compressors.bits import BitReader, BitWriter


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
