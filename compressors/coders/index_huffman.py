"""DeepReduce's Huffman code of the bytes of indices."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.prefix import PrefixCode
from compressors.coders.rising import check_sorted
from compressors.kept_arrays import keeps_arrays


def byte_counts(n: int, width: int) -> np.ndarray:
    """How often each byte (256,) occurs in the numbers 0 to n - 1 of ``width`` bytes each.

    Example:
        >>> byte_counts(3, 4)[:4].tolist()
        [10, 1, 1, 0]
    """
    counts = np.zeros(256, np.int64)
    for place in range(width):
        unit = 256**place
        cycles, remainder = divmod(n, 256 * unit)
        counts += cycles * unit
        counts += np.clip(remainder - unit * np.arange(256), 0, unit)
    return counts


@keeps_arrays
def _code(n: int) -> tuple[int, PrefixCode]:
    """Bytes per index, and the code of bytes."""
    width = max(4, ((n - 1).bit_length() + 7) // 8)
    counts = byte_counts(n, width)
    occur = np.flatnonzero(counts)
    return width, PrefixCode.best(occur, counts[occur])


@dataclass(frozen=True)
class IndexHuffman:
    """Indices as 32-bit numbers, the highest byte first, and one Huffman code for all bytes.

    The code is built from all indices 0 to n - 1 that a tensor of n entries has, as the
    paper says: both sides know it, and no table travels. An index of more than 2**32 entries
    has as many bytes as it needs.

    Source: Kostopoulou et al. 2021 (DeepReduce), appendix, "Huffman Encoding".

    Example:
        >>> out = BitWriter()
        >>> _ = IndexHuffman().write_positions(np.array([5, 200]), 256, out, 0)
        >>> out.position  # three zero bytes and another each
        24
    """

    codec_id: ClassVar[str] = "index_huffman"
    needs_seed: ClassVar[bool] = False

    def write_positions(
        self, indices: np.ndarray, n: int, out: BitWriter, seed: int
    ) -> np.ndarray:
        """Writes every index exactly."""
        if indices.size:
            width, code = _code(n)
            big = np.ascontiguousarray(indices.astype(">u8")).view(np.uint8).reshape(-1, 8)
            code.encode(np.ascontiguousarray(big[:, 8 - width :]).reshape(-1), 256, out)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where they do not rise below n, or end early."""
        if k == 0:
            return np.empty(0, np.int64)
        width, code = _code(n)
        code.check_room(bits, k * width)
        flat = np.empty(k * width, np.uint8)
        code.decode(bits, flat)
        big = np.zeros((k, 8), np.uint8)
        big[:, 8 - width :] = flat.reshape(k, width)
        return check_sorted(big.view(">u8")[:, 0].astype(np.int64), n)
