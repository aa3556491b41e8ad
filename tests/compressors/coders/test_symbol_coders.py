"""Every symbol coder: any symbols at any bit, nothing, one distinct symbol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import SymbolCode, parse
from compressors.coders.rans import Exponents
from compressors.parts import IEEE
from tests.support.symbols import round_trip

TEXTS = """fixed; elias_gamma; elias_delta; elias_omega; elias_gaps; rle; huffman; sh; sh(50);
shs(1); shs(5); shs(70, fit=true); rlh; ans; deflate(1); deflate(9); zstd(3)"""
CODES = [*(parse(f"cnat | {t}").codec.symbols for t in TEXTS.split(";")), Exponents()]
every_code = pytest.mark.parametrize("code", CODES, ids=repr)
ALPHABETS = (2, 3, 15, 256, 257, 4097, 1 << 16, (1 << 16) + 1, 1 << 31, IEEE)


@every_code
@given(st.data())
def test_any_symbols_at_any_bit(code: SymbolCode, data: st.DataObject) -> None:
    """Runs of few symbols, so that codes by runs and codes by counts have something to do."""
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    few = [0, alphabet - 1, *data.draw(st.lists(st.integers(0, alphabet - 1), max_size=20))]
    runs = data.draw(st.lists(st.tuples(st.sampled_from(few), st.integers(1, 90)), max_size=20))
    numbers = [symbol for symbol, run in runs for _ in range(run)]
    round_trip(code, numbers, alphabet, data.draw(st.text("01", max_size=64)))


@every_code
def test_nothing_and_an_alphabet_of_one_take_nothing(code: SymbolCode) -> None:
    assert round_trip(code, [], 5) == round_trip(code, [0] * 9, 1) == 0
