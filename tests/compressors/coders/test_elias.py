"""Elias codes: words written by hand, every length, exact round trips, hostile bits."""

import math

import numpy as np
import pytest
import torch

from compressors import (
    BitReader,
    BitWriter,
    EliasDelta,
    EliasGamma,
    EliasOmega,
    PayloadError,
    compress,
    parse,
)
from compressors.coders.elias import EliasGaps, delta_word, gamma_word, omega_word
from tests.support import positions
from tests.support.generators import from_bits, to_bits
from tests.support.symbols import round_trip, symbol_codes

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
    indices = (np.cumsum(np.array(values, np.int64)) - 1).tolist()
    return positions.round_trip(code, indices, indices[-1] + 1, before)


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


def test_omega_groups_above_63_bits_are_refused() -> None:
    """A one behind 100 says that a group of 101 bits follows: none is written."""
    for v in (64, 100, 2**40):
        bits = omega_word(v)[:-1] + "1"
        with pytest.raises(PayloadError):
            EliasOmega().read_positions(BitReader(from_bits(bits + "0" * 128)), 2**41, 1, 0)


def slowly(numbers: list[int]) -> str:
    """Code_s of the paper, word by word, and the gap that ends it."""
    word, previous = "", -1
    for i, code in enumerate(numbers):
        if code:
            word += omega_word(i - previous) + str(code % 2) + omega_word((code + 1) // 2)
            previous = i
    return word + omega_word(len(numbers) - previous)


SLOW = [pytest.param(alphabet, marks=pytest.mark.slow) for alphabet in (511, 1 << 20)]


@pytest.mark.parametrize("alphabet", [2, 3, 15, 256, 1 << 32, *SLOW])
def test_symbols_are_those_of_the_slow_coder(alphabet: int) -> None:
    rng = np.random.default_rng(alphabet % 1000)
    for share in (0.0, 0.02, 0.5, 1.0):
        numbers = rng.integers(0, alphabet, 300) * (rng.random(300) < share)
        wanted = slowly(numbers.tolist())
        for before in ("", "101"):
            assert round_trip(EliasGaps(), numbers, alphabet, before) == len(wanted)
    out = BitWriter()
    EliasGaps().write_symbols(symbol_codes(numbers, alphabet), alphabet, out)
    assert out.to_bytes() == from_bits(wanted)


@pytest.mark.parametrize("bits", ["", "11111111", "101000 0 0", "0 0 110 0", "0 0 100 0"])
def test_wrong_bits_are_refused(bits: str) -> None:
    """Cut codes, gaps past the end of 2 entries, and levels outside an alphabet of 3."""
    with pytest.raises(PayloadError, match="elias_gaps: codes run past"):
        EliasGaps().read_symbols(BitReader(from_bits(bits)), 2, 3)


@pytest.mark.parametrize("levels", [1, 4, 16])
def test_bits_stay_within_theorem_3_2(levels: int) -> None:
    """(3 + 3/2 log2(2 (s^2 + n) / (s (s + sqrt n)))) s (s + sqrt n) + 32, its o(1) left out."""
    n = 1 << 16
    x = {"w": torch.randn(n, generator=torch.Generator().manual_seed(2))}
    packet, _ = compress(parse(f"qsgd({levels}) | elias_gaps"), x, seed=1)
    sent = levels * (levels + math.sqrt(n))
    bound = (3 + 1.5 * math.log2(2 * (levels**2 + n) / sent)) * sent + 32
    assert packet.spans["values"] + packet.spans["side"] < bound
    assert packet.spans["values"] < 0.5 * n * math.ceil(math.log2(2 * levels + 1))
