"""Symbols, and positions, of equal width or as a bitmap; and the check that positions rise."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.errors import PartError, PayloadError, UpdateError
from compressors.kernels import bitmap
from compressors.kernels.compact import rises
from compressors.parts import IEEE, code_dtype


def check_rising(indices: np.ndarray, n: int) -> None:
    """``PartError`` unless ``indices`` are an int64 array (k,) that rises from 0 to n - 1 at most.

    For every writer, before a kernel: it makes room for positions that do, and writes past it
    for others.
    """
    if indices.dtype != np.int64 or indices.ndim != 1 or not rises(indices, n):
        raise PartError(f"positions to write that do not rise from entry 0 to entry {n - 1}")


def check_sorted(indices: np.ndarray, n: int) -> np.ndarray:
    """The ``indices`` (int64); ``PayloadError`` unless they rise strictly from 0 to below n."""
    if not rises(indices, n):
        raise PayloadError(f"positions that do not rise from entry 0 to entry {n - 1}")
    return indices


UNSIGNED: dict[torch.dtype, Any] = {
    torch.uint8: np.uint8,
    torch.int16: np.uint16,
    torch.int32: np.uint32,
}
"""How codes are read as unsigned numbers."""


def unsigned(codes: Tensor) -> np.ndarray:
    """The codes (k,) as unsigned numbers in this machine's memory."""
    return np.ascontiguousarray(codes.numpy()).view(UNSIGNED[codes.dtype])


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

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        if indices.size:
            out.uints(indices.view(np.uint64), (n - 1).bit_length())
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where they do not rise or reach n."""
        if k == 0:
            return np.empty(0, np.int64)
        return check_sorted(bits.uints(k, (n - 1).bit_length()).view(np.int64), n)

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
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

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """``PayloadError`` where a symbol is outside the alphabet."""
        dtype = code_dtype(alphabet)
        if alphabet == 1:
            return torch.zeros(k, dtype=dtype, device="cpu")
        if alphabet == IEEE:
            return torch.from_numpy(bits.float32s(k).view(np.int32))
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
        return torch.from_numpy(numbers).view(dtype)


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

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        if n > 1 << 32:
            raise UpdateError(f"raw32: a tensor of {n} entries has positions of more than 32 bits")
        out.float32s(indices.astype(np.uint32).view(np.float32))
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where they do not rise or reach n."""
        if n > 1 << 32:
            raise PayloadError(f"raw32: no message holds positions of a tensor of {n} entries")
        return check_sorted(bits.float32s(k).view(np.uint32).astype(np.int64), n)


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
