"""Positions as 32-bit numbers, as most public code sends them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.rising import check_sorted
from compressors.errors import PayloadError, UpdateError


@dataclass(frozen=True)
class Raw32:
    """32 bits per index, for a tensor of any size: what other coders are compared with.

    Raises ``UpdateError`` for a tensor of more than 2**32 entries.

    Example:
        >>> out = BitWriter()
        >>> _ = Raw32().write_positions(np.array([2, 7]), 9, out, 0)
        >>> out.to_bytes().hex()
        '0000000200000007'
    """

    codec_id: ClassVar[str] = "raw32"
    needs_seed: ClassVar[bool] = False

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        return 32 * indices.size

    def write_positions(
        self, indices: np.ndarray, n: int, out: BitWriter, seed: int
    ) -> np.ndarray:
        """Writes every index exactly."""
        if n > 1 << 32:
            raise UpdateError(f"raw32: a tensor of {n} entries has positions of more than 32 bits")
        out.float32s(indices.astype(np.uint32).view(np.float32))
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where they do not rise or reach n."""
        if n > 1 << 32:
            raise PayloadError(f"raw32: no message holds positions of a tensor of {n} entries")
        return check_sorted(bits.float32s(k).view(np.uint32).astype(np.int64), n)
