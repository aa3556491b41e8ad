"""Run lengths of bitmaps and symbols: by hand, by the definition, and hostile bits."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitReader, BitWriter, PayloadError, RunLength
from compressors.coders.elias import gamma_word
from tests.support.generators import from_bits, to_bits
from tests.support.positions import round_trip
from tests.support.symbols import symbol_codes


def of_positions(indices: list[int], n: int) -> str:
    """The definition, entry by entry: the first entry's bit, gamma codes of all runs but a last
    one of zeros."""
    bitmap = [int(i in indices) for i in range(n)]
    runs = [(bit, len(list(group))) for bit, group in itertools.groupby(bitmap)]
    if runs[-1][0] == 0:
        runs.pop()
    return str(bitmap[0]) + "".join(gamma_word(run) for _, run in runs) if runs else ""


def of_symbols(numbers: list[int], alphabet: int) -> str:
    width = (alphabet - 1).bit_length()
    runs = [(number, len(list(group))) for number, group in itertools.groupby(numbers)]
    return "".join(gamma_word(run) + format(number, f"0{width}b") for number, run in runs)


@pytest.mark.parametrize(
    ("indices", "n", "bits"),
    [
        ([0], 1, "1 1"),
        ([0, 1, 2], 3, "1 011"),
        ([2, 3, 4], 9, "0 010 011"),
        ([8], 9, "0 0001000 1"),
        ([0, 8], 9, "1 1 00111 1"),
        ([0, 1, 4, 5, 6], 7, "1 010 010 011"),
    ],
)
def test_positions_by_hand(indices: list[int], n: int, bits: str) -> None:
    assert round_trip(RunLength(), indices, n) == bits.replace(" ", "")


def test_symbols_by_hand() -> None:
    """Gajjala et al.'s string 0001002000100: runs 3 1 2 1 3 1 2 of 0 1 0 2 0 1 0, in 2 bits."""
    numbers = [int(c) for c in "0001002000100"]
    out = BitWriter()
    RunLength().write_symbols(symbol_codes(numbers, 3), 3, out)
    expected = "011 00 1 01 010 00 1 10 011 00 1 01 010 00".replace(" ", "")
    assert to_bits(out.to_bytes())[: out.position] == expected


@given(st.sets(st.integers(0, 120), min_size=1), st.integers(1, 60), st.text("01", max_size=64))
def test_positions_at_any_bit(indices: set[int], room: int, before: str) -> None:
    known, n = sorted(indices), max(indices) + room
    assert round_trip(RunLength(), known, n, before) == of_positions(known, n)


@pytest.mark.parametrize("alphabet", [2, 3, 255, 256, 257, 2**15, 2**31, 2**32])
@given(st.data())
def test_symbols_at_any_bit(alphabet: int, data: st.DataObject) -> None:
    runs = st.tuples(st.sampled_from((0, 1, alphabet - 1, alphabet // 2)), st.integers(1, 70))
    drawn = data.draw(st.lists(runs, max_size=12))
    numbers = [number for number, run in drawn for _ in range(run)]
    before = data.draw(st.text("01", max_size=64))
    out = BitWriter()
    for bit in before:
        out.uint(int(bit), 1)
    codes = symbol_codes(numbers, alphabet)
    RunLength().write_symbols(codes, alphabet, out)
    assert to_bits(out.to_bytes())[len(before) : out.position] == of_symbols(numbers, alphabet)
    reader = BitReader(out.to_bytes())
    reader.uints(len(before), 1)
    got = RunLength().read_symbols(reader, len(numbers), alphabet)
    assert got.dtype == codes.dtype
    assert torch.equal(got, codes)
    assert reader.position == out.position


@pytest.mark.parametrize(
    ("bits", "k", "why"),
    [
        ("1 00101", 4, "4 sent entries of 9"),  # five ones where four are announced
        ("0 0001010", 4, "past"),  # ten zeros in nine entries
        ("0 00101 00101", 5, "past"),  # five zeros, then five ones: entry 9
        ("0 0001001 1", 1, "past"),  # nine zeros: no room for a one
        ("", 1, "ends early"),
    ],
)
def test_runs_that_do_not_fit(bits: str, k: int, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        RunLength().read_positions(BitReader(from_bits(bits)), 9, k, 0)


@pytest.mark.parametrize(
    ("bits", "k"),
    [
        ("00101 01", 4),  # a run of five in four
        ("00100 11", 4),  # symbol 3 of 0, 1, 2
        ("1 01 0001", 4),  # the second pair ends behind the payload
        ("", 1),
    ],
)
def test_pairs_that_do_not_fit(bits: str, k: int) -> None:
    with pytest.raises(PayloadError):
        RunLength().read_symbols(BitReader(from_bits(bits)), k, 3)
