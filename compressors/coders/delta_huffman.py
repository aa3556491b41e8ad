"""SKCompress's delta keys: byte counts coded by Huffman, bytes as they are."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import check_rising
from compressors.coders.huffman import read_huffman_numbers, write_huffman_numbers
from compressors.errors import PayloadError
from compressors.kernels import gaps


def _most_bytes(n: int) -> int:
    return max(1, ((n - 1).bit_length() + 7) // 8)


@dataclass(frozen=True)
class DeltaHuffman:
    """Differences of indices, each in as few whole bytes as hold it, and how many by Huffman.

    The first key is the first index itself, every other the step from the index before. Byte
    counts less one are Huffman symbols with their table (``Huffman``), of an alphabet as
    large as the bytes that n - 1 takes; then come the bytes of all keys, the highest first.

    Source: delta-binary keys of SketchML (Jiang et al. 2018), whose byte flags SKCompress
    (Jiang et al. 2020) codes by Huffman.

    Example:
        >>> out = BitWriter()
        >>> _ = DeltaHuffman().write_positions(np.array([5, 7, 600]), 1000, out, 0)
        >>> out.position  # 2 + 1 bits of table, 3 of counts, 4 bytes: 5, 2, and 593 in two
        39
    """

    codec_id: ClassVar[str] = "delta_huffman"
    needs_seed: ClassVar[bool] = False

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        check_rising(indices, n)
        if indices.size == 0:
            return indices
        keys = np.diff(indices, prepend=0)
        counts = np.ones(keys.size, np.uint8)
        for more in range(1, _most_bytes(n)):
            counts += keys >= 1 << 8 * more
        write_huffman_numbers(counts - np.uint8(1), _most_bytes(n), out)
        out.reserve(8 * int(counts.sum(dtype=np.int64)))
        out.position = gaps.put_bytes(keys, counts, out.words, out.position)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where they do not rise below n, or end early."""
        if k == 0:
            return np.empty(0, np.int64)
        bits.need(8 * k)
        counts = read_huffman_numbers(bits, k, _most_bytes(n)) + np.uint8(1)
        bits.need(8 * int(counts.sum(dtype=np.int64)))
        keys = np.empty(k, np.int64)
        bits.position = int(gaps.get_bytes(counts, bits.words, bits.position, keys))
        if bool((keys >= n).any()) or bool((keys[1:] < 1).any()) or int(keys.sum()) >= n:
            raise PayloadError(f"delta keys do not rise below {n}")
        return np.cumsum(keys)
