"""Positions as one bit per entry."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import check_rising
from compressors.errors import PayloadError
from compressors.kernels import bitmap


@dataclass(frozen=True)
class Bitmap:
    """n bits, of which those of the sent entries are set: as short as any code for p near 1/2.

    Example:
        >>> out = BitWriter()
        >>> _ = Bitmap().write_positions(np.array([0, 3]), 8, out, 0)
        >>> f"{out.to_bytes()[0]:08b}"
        '10010000'
    """

    codec_id: ClassVar[str] = "bitmap"
    needs_seed: ClassVar[bool] = False

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        return n if indices.size else 0

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        check_rising(indices, n)
        if indices.size:
            out.reserve(n)
            bitmap.set_bits(indices, out.words, out.position)
            out.position += n
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where another number of bits is set."""
        if k == 0:
            return np.empty(0, np.int64)
        bits.need(n)
        ones = int(bitmap.count_set_bits(bits.words, bits.position, n))
        if ones != k:
            raise PayloadError(f"a bitmap of {ones} entries where {k} are announced")
        indices = np.empty(k, np.int64)
        bitmap.find_bits(bits.words, bits.position, n, indices)
        bits.position += n
        return indices
