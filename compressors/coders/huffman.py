"""Huffman codes of symbols, and of gaps between positions by classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders import gaps
from compressors.coders.fixed import unsigned
from compressors.coders.numbers import codes_of, empty_numbers, tally
from compressors.coders.prefix import PrefixCode


@dataclass(frozen=True)
class Huffman:
    """Canonical Huffman codes (Huffman 1952) by how often symbols occur in this tensor.

    The table (``PrefixCode``) travels and is counted. Codes have at most 32 bits. One distinct
    symbol takes no bits but the table.

    As a position code: gaps by classes, octaves of up to eight parts (``coders/gaps.py``).
    The classes are symbols as above, then the low bits of all gaps follow as they are.

    Source: Gajjala et al. 2020, section 2.2.

    Example:
        >>> out = BitWriter()
        >>> symbols = torch.tensor([0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0], dtype=torch.uint8)
        >>> Huffman().write_symbols(symbols, 3, out)
        >>> out.position  # 16 bits, and 8 of table: three symbols, lengths 1 and 2, then 2
        24
    """

    codec_id: ClassVar[str] = "huffman"
    needs_seed: ClassVar[bool] = False

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes every symbol exactly."""
        write_numbers(unsigned(codes), alphabet, out)

    def read_symbols(
        self, bits: BitReader, k: int, alphabet: int, device: torch.device
    ) -> Tensor:
        """The symbols; ``PayloadError`` where the table is not a code or codes run past the end."""
        return codes_of(read_numbers(bits, k, alphabet), alphabet, device)

    def write_positions(
        self, indices: np.ndarray, n: int, out: BitWriter, seed: int
    ) -> np.ndarray:
        """Writes every index exactly."""
        gaps.write(indices, n, out, write_numbers)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where codes run past the end or past n."""
        return gaps.read(bits, n, k, read_numbers)


def write_numbers(numbers: np.ndarray, universe: int, out: BitWriter) -> None:
    """The table of a Huffman code for ``numbers`` below ``universe``, and their codes."""
    if numbers.size == 0 or universe == 1:
        return
    code = PrefixCode.best(*tally(numbers, universe))
    code.write_table(universe, out)
    code.encode(numbers, universe, out)


def read_numbers(bits: BitReader, k: int, universe: int) -> np.ndarray:
    """What ``write_numbers`` wrote, ``k`` numbers."""
    if k == 0 or universe == 1:
        return np.zeros_like(empty_numbers(k, universe))
    code = PrefixCode.read_table(bits, universe, universe)
    code.check_room(bits, k)
    numbers = empty_numbers(k, universe)
    code.decode(bits, numbers)
    return numbers
