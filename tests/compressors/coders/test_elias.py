"""Elias codes: words written by hand, every length, exact round trips, hostile bits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitReader, BitWriter, EliasDelta, EliasGamma, EliasOmega, PayloadError
from compressors.coders.elias import delta_word, gamma_word, omega_word
from tests.support.generators import from_bits, to_bits
from tests.support.symbols import symbol_codes

CODES = {EliasGamma(): gamma_word, EliasDelta(): delta_word, EliasOmega(): omega_word}
every_code = pytest.mark.parametrize("code", CODES, ids=lambda code: type(code).__name__)
# Numbers around every power of two, up to the longest gap and the largest symbol + 1.
EDGES = sorted({max(1, 2**e + d) for e in range(63) for d in (-1, 0, 1)})

BY_HAND = [
    (omega_word, 1, "0"),
    (omega_word, 2, "100"),
    (omega_word, 3, "110"),
    (omega_word, 4, "101000"),
    (omega_word, 8, "1110000"),
    (omega_word, 16, "10100100000"),
    (omega_word, 100, "1011011001000"),
    (delta_word, 1, "1"),
    (delta_word, 2, "0100"),
    (delta_word, 100, "00111100100"),
    (gamma_word, 1, "1"),
    (gamma_word, 5, "00101"),
]


def written(code, values: list[int], before: str = "") -> str:
    """The bits that the numbers take as gaps, behind the bits ``before``."""
    out = BitWriter()
    for bit in before:
        out.uint(int(bit), 1)
    indices = np.cumsum(np.array(values, np.int64)) - 1
    code.write_positions(indices, int(indices[-1]) + 1, out, 0)
    return to_bits(out.to_bytes())[len(before) : out.position]


@pytest.mark.parametrize(("word", "v", "bits"), BY_HAND)
def test_words_by_hand(word, v: int, bits: str) -> None:
    """methods.md, computed by hand from Elias 1975; what the coder writes, as gap and symbol."""
    assert word(v) == bits
    code = next(code for code, known in CODES.items() if known is word)
    assert written(code, [v]) == bits
    out = BitWriter()
    code.write_symbols(symbol_codes([v - 1], 256), 256, out)
    assert to_bits(out.to_bytes())[: out.position] == bits


@every_code
def test_every_length(code) -> None:
    """One number at a time, against the words; at an odd bit, and read back."""
    for v in EDGES:
        bits = written(code, [v], "101")
        assert bits == CODES[code](v), v
        reader = BitReader(from_bits("101" + bits))
        reader.uint(3)
        assert code.read_positions(reader, v, 1, 0).tolist() == [v - 1]
        assert reader.position == 3 + len(bits)


@every_code
def test_words_are_a_prefix_code(code) -> None:
    words = sorted(CODES[code](v) for v in [*range(1, 600), *EDGES])
    words = sorted(set(words))
    assert not any(b.startswith(a) for a, b in zip(words, words[1:], strict=False))


@every_code
@pytest.mark.parametrize("alphabet", [2, 3, 255, 256, 257, 2**15, 2**31, 2**32])
@given(st.data())
def test_symbols_at_any_bit(code, alphabet: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, alphabet - 1), max_size=30))
    numbers += [0, alphabet - 1]
    before = data.draw(st.text("01", max_size=64))
    out = BitWriter()
    for bit in before:
        out.uint(int(bit), 1)
    codes = symbol_codes(numbers, alphabet)
    code.write_symbols(codes, alphabet, out)
    bits = to_bits(out.to_bytes())[len(before) : out.position]
    assert bits == "".join(CODES[code](v + 1) for v in numbers)
    reader = BitReader(out.to_bytes())
    reader.uints(len(before), 1)
    got = code.read_symbols(reader, len(numbers), alphabet)
    assert got.dtype == codes.dtype
    assert torch.equal(got, codes)
    assert reader.position == out.position


@every_code
def test_a_symbol_outside_the_alphabet(code) -> None:
    """5 symbols: code + 1 is at most 5; the word of 6 is refused."""
    for v, ok in ((5, True), (6, False)):
        reader = BitReader(from_bits(CODES[code](v)))
        if ok:
            assert code.read_symbols(reader, 1, 5).tolist() == [4]
        else:
            with pytest.raises(PayloadError, match="outside an alphabet of 5"):
                code.read_symbols(reader, 1, 5)


@every_code
def test_an_index_past_the_end(code) -> None:
    reader = BitReader(from_bits(CODES[code](3) + CODES[code](4)))
    with pytest.raises(PayloadError, match="past entry 5"):
        code.read_positions(reader, 6, 2, 0)


def test_omega_groups_above_63_bits_are_refused() -> None:
    """A one behind 100 says that a group of 101 bits follows: none is written."""
    for v in (64, 100, 2**40):
        bits = omega_word(v)[:-1] + "1"
        with pytest.raises(PayloadError):
            EliasOmega().read_positions(BitReader(from_bits(bits + "0" * 128)), 2**41, 1, 0)


@every_code
def test_cut_words_are_refused(code) -> None:
    """Whole bytes of words whose last bits are gone, up to two words of 64 bits each."""
    for v in EDGES[20::7]:
        bits = CODES[code](v) + CODES[code](v)
        for cut in range(8, len(bits), 8):
            with pytest.raises(PayloadError):
                code.read_positions(BitReader(from_bits(bits[:cut])), 2 * v, 2, 0)
