"""Gaps between positions as 16-bit numbers."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.rising import check_rising
from compressors.errors import PayloadError
from compressors.kernels import bitmap


@dataclass(frozen=True)
class Delta16:
    """16 bits per gap, and an escape for gaps that do not fit.

    Layout: for every gap d to the position before (the first counts from -1) d - 1 in 16
    bits where that is below 65535; else 65535 in 16 bits and d - 1 in ceil(log2 n) bits.

    Example:
        >>> out = BitWriter()
        >>> _ = Delta16().write_positions(np.array([2, 70000]), 2**17, out, 0)
        >>> out.position == 16 + 16 + 17
        True
    """

    codec_id: ClassVar[str] = "delta16"
    needs_seed: ClassVar[bool] = False

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        return 16 * indices.size + (n - 1).bit_length() * int(bitmap.count_escapes(indices))

    def write_positions(
        self, indices: np.ndarray, n: int, out: BitWriter, seed: int
    ) -> np.ndarray:
        """Writes every index exactly."""
        check_rising(indices, n)
        out.reserve(self.position_bits(indices, n))
        width = (n - 1).bit_length()
        out.position = bitmap.encode_16(indices, width, out.words, out.position)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where the code runs past the end or past n."""
        if k == 0:
            return np.empty(0, np.int64)
        bits.need(16 * k)
        indices, width = np.empty(k, np.int64), (n - 1).bit_length()
        position = bitmap.decode_16(bits.words, bits.position, bits.end, n, width, indices)
        if position < 0:
            raise PayloadError(f"16-bit gaps run past the payload's end or past entry {n - 1}")
        bits.position = position
        return indices
