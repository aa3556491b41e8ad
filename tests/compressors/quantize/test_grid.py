"""Even grids: between the extremes (minmax), of a fixed step (codebook), whole numbers (cint)."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import (
    BitReader,
    BitWriter,
    Codebook,
    MinMax,
    PayloadError,
    RandomInteger,
    compress,
    decompress,
    parse,
)
from compressors.parts import IEEE, Place
from tests.support.generators import from_bits, to_bits

LARGEST = torch.finfo(torch.float32).max


def there_and_back(coder, x: Tensor, seed: int = 0) -> Tensor:
    place, out = Place(None, x.shape), BitWriter()
    symbols = coder.quantize(x, place, out, seed)
    alphabet, side = coder.read_side(BitReader(out.to_bytes()), place)
    assert alphabet == symbols.alphabet
    assert int(symbols.codes.max()) < alphabet
    return coder.dequantize(symbols._replace(side=side), place, seed)


def test_minmax_is_exact_on_its_levels() -> None:
    x = torch.tensor([-3.0, -1.0, 1.0, 3.0, 3.0])
    assert torch.equal(there_and_back(MinMax(2), x), x)
    for value in (0.1, -LARGEST, 2.0**-149, 0.0):
        for k in (1, 7):
            same = torch.full((k,), value)
            assert torch.equal(there_and_back(MinMax(3), same), same)


def test_codebook_is_equation_1() -> None:
    """The share that goes up is (value - e) / step: 200,000 of each value, 5 standard errors."""
    coder, k = Codebook(3, 0.5), 200_000
    for value, low in ((0.1, 0.0), (-0.1, -0.5), (1.4, 1.0), (-1.9, -2.0), (0.49, 0.0)):
        found = there_and_back(coder, torch.full((k,), value))
        assert set(found.tolist()) == {low, low + 0.5}
        chance = (np.float64(np.float32(value)) - low) / 0.5
        share = float((found == low + 0.5).double().mean())
        assert abs(share - chance) < 5 * math.sqrt(chance * (1 - chance) / k)


def test_codebook_ends() -> None:
    """-4 .. 3 steps with 3 bits: what is outside becomes the nearer end; on the grid all stays."""
    x = torch.tensor([-9.0, -2.0, -1.75, 1.5, 1.6, 7.0, LARGEST, -LARGEST, 0.0, -0.0])
    got = there_and_back(Codebook(3, 0.5), x)
    low = got[2].item()
    assert low in (-2.0, -1.5)
    assert got.tolist() == [-2, -2, low, 1.5, 1.5, 1.5, 1.5, -2, 0, 0]
    grid = torch.arange(-32768, 32768) * 0.25
    assert torch.equal(there_and_back(Codebook(16, 0.25), grid), grid)
    assert there_and_back(Codebook(1, 2.0), torch.tensor([-2.0, 0.0, 5.0])).tolist() == [-2, 0, 0]


def test_cint_carries_whole_numbers_exactly() -> None:
    for x in (
        torch.tensor([-(2.0**24), 2.0**24, 0.0, 2.0**24 - 1]),
        torch.tensor([2.0**24 + 2, 3.0, -5.0]),
        torch.tensor([LARGEST, -LARGEST, 2.0**60, 1.0, 0.0]),
        torch.arange(-200.0, 300.0),
    ):
        assert torch.equal(there_and_back(RandomInteger(), x), x)
    got = there_and_back(RandomInteger(), torch.tensor([-0.0, -1e-30, -(2.0**40)]))
    assert not torch.signbit(got[:2]).any()


def test_cint_uses_as_few_bits_as_its_range_needs() -> None:
    for x, alphabet, side in (
        (torch.tensor([5.0, 5.0]), 1, 34),
        (torch.tensor([5.0, 8.0]), 4, 38),
        (torch.tensor([-(2.0**24), 2.0**24]), 2**25 + 1, 33 + 51),
        (torch.tensor([2.0**25]), IEEE, 1),
    ):
        out = BitWriter()
        assert RandomInteger().quantize(x, Place(None, x.shape), out, 0).alphabet == alphabet
        assert out.position == side


@pytest.mark.parametrize(("least", "alphabet"), [(2**24, 2), (-(2**24) - 1, 1), (0, 2**40)])
def test_cint_refuses_numbers_that_it_never_writes(least: int, alphabet: int) -> None:
    out = BitWriter()
    out.uint(0, 1)
    out.uint(least & 0xFFFFFFFF, 32)
    out.gamma(alphabet)
    with pytest.raises(PayloadError, match="whole numbers from"):
        RandomInteger().read_side(BitReader(out.to_bytes()), Place(None, torch.Size([3])))


ZERO, ONE, MINUS_TWO = "0" * 32, "0 01111111" + "0" * 23, "1 10000000" + "0" * 23
BY_HAND = [
    # Levels -2, -1, 0, 1.
    ("minmax(2)", [1, -2, -1, 0], f"{MINUS_TWO} {ONE} 11 00 01 10"),
    # Zig-zag: 0, -1, 1, -2 steps are symbols 0, 1, 2, 3.
    ("codebook(2, 0.5)", [0, -0.5, 0.5, -1], "00 01 10 11"),
    # Narrow; the least is -1 (32 ones); gamma(4) = 00100; then value + 1.
    ("cint", [-1, 0, 2], f"0 {'1' * 32} 00100 00 01 11"),
    # Wide: 2**25 has exponent 127 + 25 = 152.
    ("cint", [2**25, 1], f"1 0 10011000 {'0' * 23} {ONE}"),
]


@pytest.mark.parametrize(("method", "entries", "bits"), BY_HAND)
def test_messages_written_by_hand(method: str, entries: list[float], bits: str) -> None:
    x = torch.tensor(entries, dtype=torch.float32)
    payload = compress(parse(method), {"w": x})[0].payload
    assert to_bits(payload[3:]) == to_bits(from_bits(bits))
    assert torch.equal(decompress(parse(method), payload, {"w": x})["w"], x)
