"""Positions by Huffman codes and ANS: classes of gaps, bytes of indices, delta keys."""

import math

import numpy as np
import pytest

from compressors import Ans, BitReader, BitWriter, DeltaHuffman, Huffman, IndexHuffman, PayloadError
from compressors.coders import gaps
from compressors.coders.huffman import byte_counts
from compressors.kernels import gaps as kernels
from tests.support.generators import from_bits, to_bits


def check(code, indices: list[int] | np.ndarray, n: int, before: str = "") -> str:
    """Writes behind ``before`` and reads it back exactly; returns the bits."""
    indices, out = np.asarray(indices, np.int64), BitWriter()
    for bit in before:
        out.uint(int(bit), 1)
    rebuilt = code.write_positions(indices, n, out, 0)
    assert np.array_equal(rebuilt, indices)
    bits = BitReader(out.to_bytes())
    bits.uint(len(before))
    assert np.array_equal(code.read_positions(bits, n, indices.size, 0), indices)
    assert bits.position == out.position
    return to_bits(out.to_bytes())[len(before) : out.position]


def test_classes_are_parts_of_octaves() -> None:
    """Every gap comes back from its class and low bits; classes rise with gaps, by steps of one."""
    for t in range(4):
        classes = np.array([gaps.gap_class(gap, t) for gap in range(1, 5000)])
        assert set(np.diff(classes)) <= {0, 1}
        assert classes[0] == 0
        at = np.arange(1, 5000).cumsum() - 1
        found = np.empty(4999, np.uint16)
        kernels.classes(at, t, found)
        assert np.array_equal(found, classes)
        widths = np.array([kernels.count_low_bits(np.array([c]), t) for c in classes])
        sizes = np.bincount(classes)[:-1]
        assert np.array_equal(2 ** widths[np.unique(classes, return_index=True)[1][:-1]], sizes)


@pytest.mark.parametrize("k", [1023, 1024, 8191, 8192, 65_535, 65_536])
@pytest.mark.parametrize("code", [Huffman(), Ans()], ids=["huffman", "ans"])
def test_octaves_with_more_parts(code, k: int) -> None:
    drawn = np.unique(np.random.default_rng(k).integers(0, 40 * k, 2 * k))[:k]
    check(code, drawn, 40 * k)


@pytest.mark.parametrize(
    ("code", "above"), [(Huffman(), 0.05), (Ans(), 0.005)], ids=["huffman", "ans"]
)
@pytest.mark.parametrize("p", [0.3, 0.01])
def test_random_positions_cost_their_entropy(code, above: float, p: float) -> None:
    """Against H(k / n) n / k. Within an eighth of an octave gaps are nearly alike (excess below
    0.001 bit by the second derivative); ANS's table is 40 numbers of at most 30 bits. Huffman's
    code has its redundancy on top: below 0.05 bit a gap here."""
    n = round(80_000 / p)
    indices = np.flatnonzero(np.random.default_rng(3).random(n) < p)
    q = indices.size / n
    entropy = -(q * math.log2(q) + (1 - q) * math.log2(1 - q)) / q
    bits = len(check(code, indices, n)) / indices.size
    assert entropy < bits + 0.001 < entropy + above + 1800 / indices.size


def test_huffman_gaps_by_hand() -> None:
    """n = 8: four classes. Gaps 1, 1, 4 are classes 0, 0, 2 (two low bits: 00)."""
    table = "010" + "1 1 010" + "1"  # two symbols; order 0, gaps 1 and 2; first length 1
    assert check(Huffman(), [0, 1, 5], 8) == (table + "0 0 1" + "00").replace(" ", "")


def test_delta_keys_by_hand() -> None:
    """Keys 5, 2, 593: one, one and two bytes; a table of all two counts, lengths 1 (and 1)."""
    bits = "010 1" + "0 0 1" + "00000101 00000010 00000010 01010001"
    assert check(DeltaHuffman(), [5, 7, 600], 1000) == bits.replace(" ", "")


@pytest.mark.parametrize("n", [1, 3, 256, 257, 1000, 70_000])
def test_bytes_of_all_indices(n: int) -> None:
    """Counted in closed form as the paper counts them: from all indices."""
    plain = np.arange(n).astype(">u4").view(np.uint8)
    assert np.array_equal(byte_counts(n, 4), np.bincount(plain, minlength=256))


def test_index_bytes_without_a_table() -> None:
    """n = 3: zeros are 10 of 12 bytes and take a bit; 1 and 2 take two."""
    assert check(IndexHuffman(), [0, 1, 2], 3) == "0000" + "00010" + "00011"


def refused(code, bits: str, n: int, k: int) -> str:
    with pytest.raises(PayloadError) as error:
        code.read_positions(BitReader(from_bits(bits)), n, k, 0)
    return str(error.value)


def test_positions_that_do_not_rise_or_reach_n() -> None:
    one_class = "1" + "1 010"  # gaps of class 1 of four: 2 or 3, a low bit each
    assert "past entry 7" in refused(Huffman(), one_class + "1 1 1 0", 8, 3)
    assert "ends early" in refused(Huffman(), one_class + "1", 16, 4)
    one_byte = "1 1 1"  # of two counts the first alone
    assert "do not rise" in refused(DeltaHuffman(), one_byte + "00000001 00000000", 1000, 2)
    assert "do not rise" in refused(DeltaHuffman(), "1 1 010" + "1" * 32, 1000, 2)
    assert "do not rise" in refused(IndexHuffman(), "00011" + "00010", 3, 2)
    assert "ends early" in refused(IndexHuffman(), "0", 3, 4)
    assert "ends early" in refused(DeltaHuffman(), one_byte, 1000, 10**12)
