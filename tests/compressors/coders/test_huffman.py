"""Prefix codes against the papers' numbers, Huffman's bound, and hostile tables."""

import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import Ans, BitReader, BitWriter, DeltaHuffman, Huffman, IndexHuffman, PayloadError
from compressors.coders.huffman import PrefixCode, byte_counts, code_lengths
from compressors.coders.numbers import write_list
from compressors.kernels.huffman import LONGEST
from tests.support import positions
from tests.support.generators import from_bits, to_bits
from tests.support.symbols import STRING, symbol_codes


def by_heap(weights: list[int]) -> int:
    """Total bits of Huffman's code by the textbook's heap: the sum of all joined weights."""
    heap, total = list(weights), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        total += joined
        heapq.heappush(heap, joined)
    return total


def test_the_codes_of_figure_1_bit_by_bit() -> None:
    out = BitWriter()
    Huffman().write_symbols(symbol_codes(STRING, 3), 3, out)
    table = "011" + "1" + "1" + "011"  # three symbols; length 1; order 0; step +1 as 3
    code = {0: "0", 1: "10", 2: "11"}
    bits = table + "".join(code[s] for s in STRING)
    assert out.to_bytes() == from_bits(bits)


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=60))
def test_lengths_are_optimal_and_complete(weights: list[int]) -> None:
    lengths = code_lengths(np.array(weights))
    assert int((lengths * np.array(weights)).sum()) == by_heap(weights)
    assert sum(2.0 ** -int(n) for n in lengths) == 1
    total = sum(weights)  # Lemma 1: H <= mean length <= H + 1
    entropy = -sum(w / total * math.log2(w / total) for w in weights)
    assert entropy - 1e-9 <= by_heap(weights) / total <= entropy + 1


def fibonacci(count: int) -> list[int]:
    numbers = [1, 1]
    while len(numbers) < count:
        numbers.append(numbers[-1] + numbers[-2])
    return numbers[:count]


@pytest.mark.parametrize("count", [2, 3, 12, 13, 25, 33])
def test_the_longest_codes(count: int) -> None:
    """Fibonacci weights make the longest code there is: count - 1 bits."""
    lengths = code_lengths(np.array(fibonacci(count)))
    assert sorted(lengths.tolist()) == sorted([*range(1, count), count - 1])


@pytest.mark.parametrize("count", [34, 50, 80])
def test_no_code_is_longer_than_32_bits(count: int) -> None:
    """Weights are halved until it is not; what that costs is little."""
    weights = np.array(fibonacci(count))
    lengths = code_lengths(weights)
    assert lengths.max() <= LONGEST
    assert sum(2.0**-length for length in lengths.tolist()) == 1
    assert float((lengths * weights.astype(float)).sum()) < 1.001 * by_heap(weights.tolist())


def test_codes_of_every_length_go_through_the_tables() -> None:
    """Shorter than the quick table, at its edge, longer: all 32 lengths in all orders."""
    code = PrefixCode(np.arange(33) * 3, np.array([*range(1, 33), 32], np.uint8))
    numbers = (np.array([*range(33), *range(32, -1, -1), *range(0, 33, 5)]) * 3).astype(np.uint8)
    for offset in (0, 1, 31, 32, 33, 63):
        out = BitWriter()
        out.uint((1 << offset) - 1, offset)
        code.encode(numbers, 97, out)
        assert out.position == offset + int(code.lengths[numbers // 3].astype(int).sum())
        bits = BitReader(out.to_bytes())
        assert bits.uint(offset) == (1 << offset) - 1
        back = np.empty_like(numbers)
        code.decode(bits, back)
        assert np.array_equal(back, numbers)
        assert bits.position == out.position


def read(bits: str, k: int, alphabet: int) -> list[int]:
    reader = BitReader(from_bits(bits))
    return Huffman().read_symbols(reader, k, alphabet).tolist()


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("011 1 1 1", "no complete"),  # lengths 1, 1, and nothing left for the third
        ("011 010 1 00101", "no complete"),  # 2 and 4: 11/16 is left, which no code fills
        ("011 010 1 011", "no complete"),  # 2 and 3: 5/8 is left
        ("011 1 1 010", "no complete"),  # a length of 0
        ("011 00000100001 1 1", "no complete"),  # 33 bits
        ("00100", "at most 3 can occur"),  # four symbols of three
        ("010 1 00101 1", "sum to more than 3"),  # two of three: gap 5
        ("1 000000000000000000000000000000", "longer than any"),
    ],
)
def test_tables_that_are_no_code(table: str, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        read(table + "0" * 64, 4, 3)


def test_a_table_by_hand() -> None:
    """Symbols 0 and 2 of three: order 0, gaps 1 and 2; first length 1; the codes 0 and 1."""
    assert read("010 1 1 010 1 0110", 4, 3) == [0, 2, 2, 0]
    assert read("1 1 010", 4, 3) == [1, 1, 1, 1]


def test_codes_that_run_past_the_end() -> None:
    with pytest.raises(PayloadError, match="ends early"):
        read("011 1 1 011 0", 100, 3)
    with pytest.raises(PayloadError, match="run past"):
        read("011 1 1 011 11111111", 8, 3)


def test_lists_by_hand() -> None:
    """The order plus one as gamma, then each number: gamma of what is above its low bits, those."""
    for values, bits in (
        ([1, 2, 5], "1" + "1 010 00101"),  # 10 bits; order 1 takes 3 + 8
        ([8, 7, 5], "00100" + "1111 1110 1100"),  # order 3: 17; order 0 takes 1 + 17
        ([17, 18, 20], "00100" + "011000 011001 011011"),  # 16 = 2 * 8: 2 + 1 above
    ):
        out = BitWriter()
        write_list(np.array(values), out)
        assert to_bits(out.to_bytes())[: out.position] == bits.replace(" ", "")


def check(code, indices: list[int] | np.ndarray, n: int) -> str:
    return positions.round_trip(code, np.asarray(indices).tolist(), n)


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
