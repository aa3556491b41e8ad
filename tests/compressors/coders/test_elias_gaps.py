"""QSGD's format by hand, by its paper's bound, and where its bytes lie."""

import math

import numpy as np
import pytest
import torch

from compressors import BitReader, BitWriter, PayloadError, compress, parse
from compressors.coders.elias import EliasGaps, omega_word
from tests.support.generators import from_bits
from tests.support.symbols import round_trip, symbol_codes


def slowly(numbers: list[int]) -> str:
    """Code_s of the paper, word by word, and the gap that ends it."""
    word, previous = "", -1
    for i, code in enumerate(numbers):
        if code:
            word += omega_word(i - previous) + str(code % 2) + omega_word((code + 1) // 2)
            previous = i
    return word + omega_word(len(numbers) - previous)


@pytest.mark.parametrize("alphabet", [2, 3, 15, 256, 511, 1 << 20, 1 << 32])
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
