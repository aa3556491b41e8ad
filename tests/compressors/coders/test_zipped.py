"""Symbols through zlib and zstd: exact, and never more bytes than symbols need."""

import tracemalloc
import zlib

import numpy as np
import pytest
import zstandard

from compressors import BitReader, BitWriter, Deflate, PayloadError, Zstd
from compressors.parts import IEEE
from tests.support.symbols import symbol_codes


def packed(plain: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(plain) + packer.flush()


def framed(plain: bytes) -> bytes:
    """A frame as ``Zstd`` writes it: no magic number, no checksum."""
    settings = zstandard.ZstdCompressionParameters.from_level(
        3, format=zstandard.FORMAT_ZSTD1_MAGICLESS, write_checksum=False
    )
    return zstandard.ZstdCompressor(compression_params=settings).compress(plain)


def stream(data: bytes, size: int | None = None) -> BitReader:
    """A payload of a length and bytes as ``Deflate`` writes them."""
    out = BitWriter()
    out.gamma(len(data) if size is None else size)
    out.uints(np.frombuffer(data, np.uint8), 8)
    return BitReader(out.to_bytes())


def read(bits: BitReader, k: int, alphabet: int = 256, code=None) -> list[int]:
    code = code or Deflate()
    return code.read_symbols(bits, k, alphabet).tolist()


def test_the_bytes_are_the_narrowest_little_end_first() -> None:
    for alphabet, width in ((256, 1), (257, 2), (1 << 16, 2), (1 << 24, 3), (IEEE, 4)):
        out = BitWriter()
        Deflate().write_symbols(symbol_codes([1, alphabet - 2], alphabet), alphabet, out)
        bits = BitReader(out.to_bytes())
        data = bits.uints(bits.gamma(), 8, np.uint8).tobytes()
        plain = (1).to_bytes(width, "little") + (alphabet - 2).to_bytes(width, "little")
        assert zlib.decompress(data, -15) == plain


@pytest.mark.parametrize(
    ("bits", "why"),
    [
        (stream(packed(bytes(9))), "does not hold the 10 bytes"),
        (stream(packed(bytes(11))), "does not hold the 10 bytes"),
        (stream(packed(bytes(10)) + b"\0"), "does not hold the 10 bytes"),
        (stream(packed(bytes(10))[:-1]), "does not hold the 10 bytes"),
        (stream(b"\xff" * 9), "cannot be read"),
        (stream(b"", size=5), "ends early"),
        (stream(b"", size=1 << 40), "ends early"),
        (stream(packed(bytes([200] * 10))), "outside an alphabet of 150"),
    ],
)
def test_what_no_writer_wrote(bits: BitReader, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        read(bits, 10, 150)


def test_a_frame_that_states_less_than_it_holds() -> None:
    """20 MB of zeros in a frame whose size says ten: the library makes no more than ten."""
    honest = framed(bytes(2 * 10**7))
    head = zstandard.get_frame_parameters(honest, format=zstandard.FORMAT_ZSTD1_MAGICLESS)
    assert head.content_size == 2 * 10**7
    forged = bytes([0x20, 10]) + honest[5:]  # single segment, one byte of content size
    tracemalloc.start()
    with pytest.raises(PayloadError, match="cannot be read|does not hold"):
        read(stream(forged), 10, 256, Zstd())
    assert tracemalloc.get_traced_memory()[1] < 2 << 20
    tracemalloc.stop()
