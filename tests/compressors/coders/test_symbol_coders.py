"""Every symbol coder: any symbols at any bit, nothing, one distinct symbol, hostile bytes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compressors import (
    Ans,
    BitReader,
    BitWriter,
    Deflate,
    EliasDelta,
    EliasGamma,
    EliasOmega,
    Fixed,
    Huffman,
    PayloadError,
    RunLength,
    RunLengthHuffman,
    SampleHuffman,
    SparseHuffman,
    SymbolCode,
    Zstd,
)
from compressors.coders.elias import EliasGaps
from compressors.coders.exponents import Exponents
from compressors.parts import IEEE
from tests.support.symbols import round_trip, symbol_codes

CODES = [
    Fixed(), EliasGamma(), EliasDelta(), EliasOmega(), EliasGaps(), RunLength(), Huffman(),
    SampleHuffman(), SampleHuffman(50), SparseHuffman(1), SparseHuffman(5),
    SparseHuffman(70, fit=True), RunLengthHuffman(), Ans(), Deflate(1), Deflate(9), Zstd(3),
    Exponents(),
]  # fmt: skip
every_code = pytest.mark.parametrize("code", CODES, ids=repr)
ALPHABETS = (2, 3, 15, 256, 257, 4097, 1 << 16, (1 << 16) + 1, 1 << 31, IEEE)
CPU = torch.device("cpu")


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


@every_code
def test_hostile_bytes(code: SymbolCode) -> None:
    """Random bytes, honest ones with a flipped bit, a megabyte of one: refused, or legal."""
    draw = np.random.default_rng(3)
    refused = 0
    for i in range(600):
        alphabet, k = int(draw.choice(ALPHABETS)), int(draw.integers(0, 40))
        payload = bytearray(draw.bytes(int(draw.integers(0, 40))))
        if i % 2:
            out = BitWriter()
            honest = symbol_codes(draw.integers(0, alphabet, k), alphabet)
            code.write_symbols(honest, alphabet, out)
            payload = bytearray(out.to_bytes())
            if payload:
                payload[int(draw.integers(len(payload)))] ^= 1 << int(draw.integers(8))
        refused += not read(code, bytes(payload), k, alphabet)
    for byte in (b"\0", b"\xff", b"\x55"):
        refused += not read(code, byte * 1_000_000, 7, 50)
    assert 0 < refused < 603


def read(code: SymbolCode, payload: bytes, k: int, alphabet: int) -> bool:
    """Whether a payload was read; then its k symbols lie within the alphabet."""
    bits = BitReader(payload)
    try:
        found = code.read_symbols(bits, k, alphabet)
    except PayloadError:
        return False
    assert found.shape == (k,) and bits.position <= bits.end
    assert k == 0 or int((found.long() & 0xFFFFFFFF).max()) < alphabet
    return True
