"""Arrays of narrow fields, several at a time, against one field at a time."""

import numpy as np
import pytest

from compressors import BitReader, BitWriter
from compressors.kernels import fields, noise, pack
from tests.support.generators import from_bits


def numbers(count: int, width: int, salt: int) -> np.ndarray:
    """``count`` numbers below 2**width, all of their bits used."""
    drawn = noise.words(salt, np.arange(2 * count)).astype(np.uint64)
    return ((drawn[::2] << np.uint64(32)) | drawn[1::2]) >> np.uint64(64 - width)


def stream(size: int, offset: int) -> np.ndarray:
    """A stream whose first ``offset`` bits are written, all ones."""
    words = np.zeros(size, np.uint64)
    if offset:
        words[0] = np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(64 - offset)
    return words


def put_many(words: np.ndarray, position: int, values: np.ndarray, width: int) -> int:
    """One field at a time."""
    for value in values:
        pack.put(words, position, np.uint64(value), width)
        position += width
    return position


@pytest.mark.parametrize("width", range(1, 65))
def test_all_widths_at_all_offsets(width: int) -> None:
    """The same bits and the same end, around the edges of groups, words and blocks."""
    for offset in range(64):
        for count in (0, 1, 7, 64, 131):
            values = numbers(count, width, offset)
            slow, fast = stream(140, offset), stream(140, offset)
            end = put_many(slow, offset, values, width)
            assert fields.put_fields(fast, offset, values, width) == end
            assert np.array_equal(slow, fast)
            back = np.full(count, 0x55, np.uint64)
            assert fields.get_fields(fast, offset, back, width) == end
            assert np.array_equal(back, values)


@pytest.mark.parametrize(
    ("width", "low"),
    [(1, 31), (1, 8), (8, 0), (8, 8), (7, 3), (12, 9), (20, 12), (32, 0), (40, 20)],
)
def test_a_plane_of_wider_numbers(width: int, low: int) -> None:
    """What stands above and below the plane does not travel, and it comes back to its place."""
    dtype = np.uint32 if width + low <= 32 else np.uint64
    values = numbers(300, np.iinfo(dtype).bits, 3).astype(dtype)
    plane = (values >> dtype(low)) & dtype((1 << width) - 1)
    slow, out = BitWriter(), BitWriter()
    for writer in (slow, out):
        writer.uint(1, 3)
    slow.uints(plane, width)
    out.uints(values, width, low=low)
    assert out.to_bytes() == slow.to_bytes()
    bits = BitReader(out.to_bytes())
    bits.uint(3)
    assert np.array_equal(bits.uints(300, width, dtype, low=low), plane << dtype(low))


def test_by_hand() -> None:
    out = BitWriter()
    out.uints(np.array([1, 0, 1], np.uint8), 1)
    out.uints(np.array([5, 2], np.uint16), 3)
    out.uints(np.array([0x1FF, 0x0A0], np.uint32), 8)  # the ninth bit is not asked for
    assert out.to_bytes() == from_bits("101 101 010 11111111 10100000")
