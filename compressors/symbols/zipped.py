"""Symbols through zlib."""

import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.errors import PayloadError
from compressors.quantize.settings import check_whole
from compressors.symbols.fixed import unsigned
from compressors.symbols.numbers import codes_of, empty_numbers

_RAW = -15  # no header and no checksum: the message has its own frame


@dataclass(frozen=True)
class Deflate:
    """The symbols' bytes, little end first, in as few bytes a symbol as the alphabet needs.

    ``level`` is zlib's, 1 (fast) to 9 (small). Layout: the number of bytes (gamma), and a raw
    DEFLATE stream (RFC 1951). What zlib makes of the same input may differ from build to build;
    any of them reads it.

    Raises ``ValueError`` for another level.

    Source: Kostopoulou et al. 2021 (DeepReduce), section 5, where it codes float32 values.

    Example:
        >>> symbols = torch.zeros(1000, dtype=torch.uint8)
        >>> out = BitWriter()
        >>> Deflate().write_symbols(symbols, 3, out)
        >>> out.position < 200
        True
        >>> back = Deflate().read_symbols(BitReader(out.to_bytes()), 1000, 3, symbols.device)
        >>> torch.equal(back, symbols)
        True
    """

    level: int = 6

    def __post_init__(self) -> None:
        check_whole("deflate: level", self.level, 1, 9)

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes every symbol exactly."""
        numbers = unsigned(codes)
        if alphabet == 1 or numbers.size == 0:
            return
        plain = _bytes_of(numbers, alphabet).tobytes()
        packer = zlib.compressobj(self.level, zlib.DEFLATED, _RAW)
        packed = packer.compress(plain) + packer.flush()
        out.gamma(len(packed))
        out.uints(np.frombuffer(packed, np.uint8), 8)

    def read_symbols(
        self, bits: BitReader, k: int, alphabet: int, device: torch.device
    ) -> Tensor:
        """The symbols; ``PayloadError`` unless the stream is whole and holds just ``k`` of them."""
        if alphabet == 1 or k == 0:
            return codes_of(np.zeros_like(empty_numbers(k, alphabet)), alphabet, device)
        size = bits.gamma()
        packed = bits.uints(size, 8, np.uint8).tobytes()
        width = _width(alphabet)
        plain = _inflate(packed, k * width)
        numbers = empty_numbers(k, alphabet)
        wide = np.zeros((k, numbers.itemsize), np.uint8)
        wide[:, :width] = np.frombuffer(plain, np.uint8).reshape(k, width)
        numbers[:] = wide.view(f"<u{numbers.itemsize}")[:, 0]
        return codes_of(numbers, alphabet, device)


def _width(alphabet: int) -> int:
    return ((alphabet - 1).bit_length() + 7) // 8


def _bytes_of(numbers: np.ndarray, alphabet: int) -> np.ndarray:
    """(k, bytes a symbol) uint8."""
    little = np.ascontiguousarray(numbers.astype(f"<u{numbers.itemsize}"))
    return little.view(np.uint8).reshape(numbers.size, -1)[:, : _width(alphabet)]


def _inflate(packed: bytes, size: int) -> bytes:
    """The ``size`` bytes in ``packed``; no more than those are ever made."""
    unpacker = zlib.decompressobj(_RAW)
    try:
        plain = unpacker.decompress(packed, size)
        if not unpacker.eof:  # the end of the stream may be all that is left
            plain += unpacker.decompress(unpacker.unconsumed_tail, 1)
    except zlib.error as error:
        raise PayloadError(f"deflated symbols cannot be read: {error}") from error
    if not unpacker.eof or len(plain) != size or unpacker.unused_data:
        raise PayloadError(f"a deflated stream does not hold the {size} bytes of its symbols")
    return plain
