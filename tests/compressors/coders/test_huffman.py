"""Prefix codes against the papers' numbers, Huffman's bound, and hostile tables."""

import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitReader, BitWriter, Huffman, PayloadError
from compressors.coders.huffman import PrefixCode, code_lengths
from compressors.coders.numbers import read_list, write_list
from compressors.kernels import huffman
from compressors.kernels.huffman import LONGEST, QUICK
from compressors.parts import IEEE
from tests.support.generators import from_bits, to_bits
from tests.support.symbols import SHS, STRING, round_trip, symbol_codes


def by_heap(weights: list[int]) -> int:
    """Total bits of Huffman's code by the textbook's heap: the sum of all joined weights."""
    heap, total = list(weights), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        total += joined
        heapq.heappush(heap, joined)
    return total


def test_figure_1() -> None:
    """16 bits without the table; 8 bits of table: gamma(3), gamma(1), order, one step."""
    counts = np.bincount(STRING)
    assert code_lengths(counts).tolist() == [1, 2, 2]
    assert PrefixCode.best(np.arange(3), counts).bits(counts) == 16
    assert round_trip(Huffman(), STRING, 3) == 24


def test_the_codes_of_figure_1_bit_by_bit() -> None:
    out = BitWriter()
    Huffman().write_symbols(symbol_codes(STRING, 3), 3, out)
    table = "011" + "1" + "1" + "011"  # three symbols; length 1; order 0; step +1 as 3
    code = {0: "0", 1: "10", 2: "11"}
    bits = table + "".join(code[s] for s in STRING)
    assert out.to_bytes() == from_bits(bits)


def test_the_papers_example_of_shs() -> None:
    weights = np.array([round(p * 1e6) for p in SHS])
    assert code_lengths(weights).tolist() == [2, 5, 5, 2, 3, 3, 4, 3]


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


def test_canonical_codes_rise_with_length_then_symbol() -> None:
    lengths = np.array([3, 1, 3, 2], np.uint8)
    entries = huffman.book(lengths, np.arange(4), 4)
    assert [format(int(e) >> 8, f"0{int(e) & 255}b") for e in entries] == ["110", "0", "111", "10"]


@pytest.mark.parametrize("alphabet", [2, 3, 256, 257, 1 << 15, 1 << 16, 1 << 31, IEEE])
@pytest.mark.parametrize("k", [1, 2, 3, 300])
def test_alphabets_up_to_the_largest(alphabet: int, k: int) -> None:
    drawn = np.random.default_rng(k).integers(0, alphabet, k)
    round_trip(Huffman(), drawn, alphabet, "101")
    round_trip(Huffman(), [0, alphabet - 1] * k, alphabet)


def test_nothing_and_one_distinct_symbol() -> None:
    assert round_trip(Huffman(), [], 5) == 0
    assert round_trip(Huffman(), [0] * 9, 1) == 0
    assert round_trip(Huffman(), [7] * 1000, 256) == round_trip(Huffman(), [7], 256)


def test_a_large_message_is_within_a_bit_of_entropy_and_of_its_lengths() -> None:
    """Lemma 1, and exactly the sum of lengths besides the table (at most 20 bits a symbol)."""
    numbers = np.minimum(np.random.default_rng(1).geometric(0.2, 50_000) - 1, 255)
    counts = np.bincount(numbers, minlength=256)
    used = counts[counts > 0]
    entropy = -(used * np.log2(used / numbers.size)).sum()
    bits = round_trip(Huffman(), numbers, 256)
    assert entropy < bits < entropy + numbers.size + 20 * used.size
    assert by_heap(used.tolist()) < bits < by_heap(used.tolist()) + 20 * used.size


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


def test_a_short_payload_takes_no_memory() -> None:
    """Neither a table of 2**32 symbols nor 10**12 codes of a bit are believed."""
    for table, k in (("0" * 32 + "1" + "0" * 32, 10), ("0" * 31 + "1" * 40, 10)):
        with pytest.raises(PayloadError):
            read(table, k, IEEE)
    with pytest.raises(PayloadError, match="ends early"):
        read("011 1 1 011" + "0" * 64, 10**12, 3)


@given(st.lists(st.integers(1, 2**40), max_size=50), st.text("01", max_size=64))
def test_lists(values: list[int], before: str) -> None:
    out = BitWriter()
    for bit in before:
        out.uint(int(bit), 1)
    write_list(np.array(values, np.int64), out)
    reader = BitReader(out.to_bytes())
    reader.uint(len(before))
    assert read_list(reader, len(values), sum(values)).tolist() == values
    assert reader.position == out.position
    if values:
        reader = BitReader(out.to_bytes())
        reader.uint(len(before))
        with pytest.raises(PayloadError, match="sum to more"):
            read_list(reader, len(values), sum(values) - 1)


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


def test_the_quick_table_is_as_small_as_the_code() -> None:
    quick, bits, *_ = huffman.tables(np.arange(3), np.array([1, 2, 2], np.uint8))
    assert (bits, quick.size) == (2, 4)
    quick, bits, *_ = huffman.tables(np.arange(33), np.array([*range(1, 33), 32], np.uint8))
    assert (bits, quick.size) == (QUICK, 1 << QUICK)
