"""Symbols, and positions, of equal width."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders.rising import check_sorted
from compressors.errors import PayloadError
from compressors.parts import IEEE, code_dtype

UNSIGNED: dict[torch.dtype, Any] = {
    torch.uint8: np.uint8,
    torch.int16: np.uint16,
    torch.int32: np.uint32,
}
"""How codes are read as unsigned numbers."""


def unsigned(codes: Tensor) -> np.ndarray:
    """The codes (k,) as unsigned numbers in this machine's memory."""
    return np.ascontiguousarray(codes.cpu().numpy()).view(UNSIGNED[codes.dtype])


@dataclass(frozen=True)
class Fixed:
    """Equal widths: ceil(log2 alphabet) bits per symbol, ceil(log2 n) bits per position.

    An alphabet of one takes nothing, float32 bits take 32. Symbols wider than a byte travel as two
    planes, as ceil(log2 alphabet) bits each all the same: the bits above the lowest byte of every
    symbol, then the lowest bytes. Whole bytes can be moved eight at a time. Positions travel one
    after the other.

    Example:
        >>> out = BitWriter()
        >>> _ = Fixed().write_positions(np.array([2, 7]), 9, out, 0)
        >>> out.position, Fixed().read_positions(BitReader(out.to_bytes()), 9, 2, 0)
        (8, array([2, 7]))
    """

    codec_id: ClassVar[str] = "fixed"
    needs_seed: ClassVar[bool] = False

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        return indices.size * (n - 1).bit_length()

    def write_positions(
        self, indices: np.ndarray, n: int, out: BitWriter, seed: int
    ) -> np.ndarray:
        """Writes every index exactly."""
        if indices.size:
            out.uints(indices.view(np.uint64), (n - 1).bit_length())
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where they do not rise or reach n."""
        if k == 0:
            return np.empty(0, np.int64)
        return check_sorted(bits.uints(k, (n - 1).bit_length()).view(np.int64), n)

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes every symbol in the same width."""
        if alphabet == 1:
            return  # there is nothing to say
        numbers = unsigned(codes)
        width = (alphabet - 1).bit_length()
        if alphabet == IEEE:
            out.float32s(numbers.view(np.float32))
        elif width <= 8:
            out.uints(numbers, width)
        else:
            out.uints(numbers, width - 8, low=8)
            out.uints(numbers, 8)

    def read_symbols(
        self, bits: BitReader, k: int, alphabet: int, device: torch.device
    ) -> Tensor:
        """``PayloadError`` where a symbol is outside the alphabet."""
        dtype = code_dtype(alphabet)
        if alphabet == 1:
            return torch.zeros(k, dtype=dtype, device=device)
        if alphabet == IEEE:
            return torch.from_numpy(bits.float32s(k).view(np.int32)).to(device)
        width = (alphabet - 1).bit_length()
        bits.need(k * width)
        kind = UNSIGNED[dtype]
        if width <= 8:
            numbers = bits.uints(k, width, kind)
        else:
            numbers = bits.uints(k, width - 8, kind, low=8)
            numbers |= bits.uints(k, 8, kind)
        if alphabet < 1 << width and numbers.size and int(numbers.max()) >= alphabet:
            raise PayloadError(f"symbol {int(numbers.max())} is outside an alphabet of {alphabet}")
        return torch.from_numpy(numbers).view(dtype).to(device)
