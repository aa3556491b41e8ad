"""Symbols through zlib and through zstd: their bytes, packed by a general coder."""

import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import unsigned
from compressors.coders.numbers import empty_numbers, number_codes
from compressors.errors import PayloadError
from compressors.settings import check_whole, plain

_RAW = -15  # no header and no checksum: the message has its own frame


class _Packed(ABC):
    """The symbols' bytes, little end first, in as few as the alphabet needs, and packed."""

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        numbers = unsigned(codes)
        if alphabet == 1 or numbers.size == 0:
            return
        little = np.ascontiguousarray(numbers.astype(f"<u{numbers.itemsize}"))
        wide = little.view(np.uint8).reshape(numbers.size, -1)
        packed = self._pack(wide[:, : _width(alphabet)].tobytes())
        out.gamma(len(packed))
        out.uints(np.frombuffer(packed, np.uint8), 8)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """The symbols; ``PayloadError`` unless what is packed is whole and holds just ``k``."""
        if alphabet == 1 or k == 0:
            return number_codes(np.zeros_like(empty_numbers(k, alphabet)), alphabet)
        packed = bits.uints(bits.gamma(), 8, np.uint8).tobytes()
        width, numbers = _width(alphabet), empty_numbers(k, alphabet)
        wide = np.zeros((k, numbers.itemsize), np.uint8)
        wide[:, :width] = np.frombuffer(self._unpack(packed, k * width), np.uint8).reshape(k, width)
        numbers[:] = wide.view(f"<u{numbers.itemsize}")[:, 0]
        return number_codes(numbers, alphabet)

    @abstractmethod
    def _pack(self, plain: bytes) -> bytes: ...

    @abstractmethod
    def _unpack(self, packed: bytes, size: int) -> bytes: ...


def _width(alphabet: int) -> int:
    return ((alphabet - 1).bit_length() + 7) // 8


@dataclass(frozen=True)
class Deflate(_Packed):
    """The symbols' bytes, little end first, in as few bytes per symbol as the alphabet needs.

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
        >>> back = Deflate().read_symbols(BitReader(out.to_bytes()), 1000, 3)
        >>> torch.equal(back, symbols)
        True
    """

    codec_id: ClassVar[str] = "deflate"
    level: int = 6

    def __post_init__(self) -> None:
        plain(self)
        check_whole("deflate: level", self.level, 1, 9)

    def _pack(self, plain: bytes) -> bytes:
        packer = zlib.compressobj(self.level, zlib.DEFLATED, _RAW)
        return packer.compress(plain) + packer.flush()

    def _unpack(self, packed: bytes, size: int) -> bytes:
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


def zstandard() -> Any:
    """The package of that name, or None: it is not among what compressors need."""
    try:
        return import_module("zstandard")
    except ImportError:
        return None


@dataclass(frozen=True)
class Zstd(_Packed):
    """As ``Deflate``, packed by zstd: needs the package ``zstandard``.

    ``level`` is zstd's, 1 (fast) to 22 (small). Layout: the number of bytes (gamma), and one
    Zstandard frame (RFC 8878) without magic number and checksum that states its content size.
    What the library makes of the same input may differ from version to version; any of them
    reads it.

    Raises ``ValueError`` for another level, or where the package is missing.

    Source: Collet and Kucherawy 2021 (RFC 8878).

    Example:
        >>> symbols = torch.zeros(1000, dtype=torch.uint8)
        >>> out = BitWriter()
        >>> Zstd().write_symbols(symbols, 3, out)
        >>> out.position < 200
        True
    """

    codec_id: ClassVar[str] = "zstd"
    level: int = 3

    def __post_init__(self) -> None:
        plain(self)
        check_whole("zstd: level", self.level, 1, 22)
        if zstandard() is None:
            raise ValueError("zstd: the package zstandard is not installed (pip install zstandard)")

    def _pack(self, plain: bytes) -> bytes:
        library = zstandard()
        settings = library.ZstdCompressionParameters.from_level(
            self.level,
            source_size=len(plain),
            format=library.FORMAT_ZSTD1_MAGICLESS,
            write_content_size=True,
            write_checksum=False,
            write_dict_id=False,
        )
        packed: bytes = library.ZstdCompressor(compression_params=settings).compress(plain)
        return packed

    def _unpack(self, packed: bytes, size: int) -> bytes:
        """The ``size`` bytes in a frame, which has to state that size before a byte is made."""
        library = zstandard()
        kind = library.FORMAT_ZSTD1_MAGICLESS
        try:
            stated = library.get_frame_parameters(packed, format=kind).content_size
            if stated != size:
                raise PayloadError(f"a zstd frame does not hold the {size} bytes of its symbols")
            unpacker = library.ZstdDecompressor(format=kind)
            plain: bytes = unpacker.decompress(packed, allow_extra_data=False)
        except library.ZstdError as error:
            raise PayloadError(f"zstd symbols cannot be read: {error}") from error
        return plain
