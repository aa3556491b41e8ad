"""Natural compression against Definition 1, exactly where all of its noise can be run through."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import BitWriter, Natural, compress, decompress, parse, text
from compressors.kernels import noise
from compressors.parts import Place, code_dtype
from tests.support.generators import bits_of, from_bits, to_bits

SETTINGS = [
    Natural(),
    Natural(rounding="nearest"),
    Natural(8),
    Natural(8, 0),
    Natural(8, 127),
    Natural(8, 3, "nearest"),
    Natural(5, 0),
    Natural(5, -112),
    Natural(5, -112, "nearest"),
    Natural(3, 2),
    Natural(2, 0),
    Natural(2, -1, "nearest"),
]
every_setting = pytest.mark.parametrize("settings", SETTINGS, ids=text)


def all_kinds() -> Tensor:
    """Finite numbers of every exponent and both signs; powers, their neighbours, denormals."""
    drawn = noise.words(11, np.arange(20_000))
    powers = np.arange(255, dtype=np.uint32) << np.uint32(23)
    near = [powers, powers + np.uint32(1), powers | np.uint32(0x400000), powers[1:] - np.uint32(1)]
    bits = np.concatenate([drawn, *near, np.array([1, 5, 0x7FFFFF, 0x7F7FFFFF], np.uint32)])
    bits = np.concatenate([bits, bits | np.uint32(0x80000000)])
    finite = bits[(bits & 0x7F800000) != 0x7F800000]
    return torch.from_numpy(finite.view(np.float32))


def codes_of(settings: Natural, values: Tensor, seed: int) -> Tensor:
    out = BitWriter()
    symbols = settings.quantize(values, Place(None, values.shape), out, seed)
    assert out.position == 0
    assert symbols.alphabet == 1 << settings.bits
    assert symbols.codes.dtype == code_dtype(symbols.alphabet)
    return symbols.codes


def rounded(settings: Natural, values: Tensor, seed: int) -> Tensor:
    return settings.decode(codes_of(settings, values, seed))


def power_below(size: Fraction) -> Fraction:
    """The greatest power of two that is not above ``size`` > 0."""
    guess = Fraction(2) ** (size.numerator.bit_length() - size.denominator.bit_length())
    return guess if guess <= size else guess / 2


def by_definition(settings: Natural, value: float, word: int) -> float:
    """One value by the definition, in fractions; ``word`` is its 32 bits of noise."""
    size, sign = abs(Fraction(value)), math.copysign(1.0, value)
    low, high = Fraction(2) ** settings.lowest, Fraction(2) ** settings.highest
    nearest = settings.rounding == "nearest"
    if size == 0:
        return sign * 0.0
    if size < low:
        whole = settings.lowest == -126  # float32's denormals: the carry
        share = Fraction(word & 0x7FFFFF, 1 << 23) if whole else Fraction(2 * word + 1, 1 << 33)
        up = (
            size / low >= Fraction(1, 2)
            if nearest
            else (size / low + share >= 1 if whole else share < size / low)
        )
        return sign * float(low) if up else sign * 0.0
    lower = power_below(size)
    part = size / lower - 1
    share = Fraction(1, 2) if nearest else Fraction(word & 0x7FFFFF, 1 << 23)
    return sign * float(min(high, lower * 2 if part + share >= 1 else lower))


@every_setting
def test_every_value_by_the_definition(settings: Natural) -> None:
    values = all_kinds()[::7]
    words = noise.words(5, np.arange(values.numel())).tolist()
    wanted = [by_definition(settings, v, w) for v, w in zip(values.tolist(), words, strict=True)]
    found = rounded(settings, values, seed=5)
    assert np.array_equal(bits_of(found), bits_of(torch.tensor(wanted)))


def test_nearest_and_ties() -> None:
    values = [1.0, 1.49, 1.5, 1.51, -1.5, -2.9, 3.1, 2.0**-127, 2.0**-128, 0.0, 3e38]
    wanted = [1.0, 1.0, 2.0, 2.0, -2.0, -2.0, 4.0, 2.0**-126, 0.0, 0.0, 2.0**127]
    near = Natural(rounding="nearest")
    found = codes_of(near, torch.tensor(values), seed=1)
    assert near.decode(found).tolist() == wanted
    assert torch.equal(found, codes_of(near, torch.tensor(values), seed=2))


def test_a_window() -> None:
    """Three bits: sign, and zero or one of three exponents; here 2, 1 and 0."""
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, -1.0, -100.0, 0.0, 0.5, 0.49, 3.0])
    near = Natural(3, 2, "nearest")
    assert (near.lowest, near.highest) == (0, 2)
    codes = codes_of(near, values, 0)
    assert codes.tolist() == [1, 2, 3, 3, 0b101, 0b111, 0, 1, 0, 3]
    assert near.decode(codes).tolist() == [1, 2, 4, 4, -1, -4, 0, 1, 0, 4]
    assert (Natural().lowest, Natural().highest) == (-126, 127)
    assert (Natural(8).lowest, Natural(8).highest) == (-63, 63)
    assert (Natural(2, 5).lowest, Natural(2, 5).highest) == (5, 5)


BY_HAND = [
    # The sign and the biased exponent: 1 is 2**(127 - 127). First all signs, then all bytes.
    ("cnat", [1.0, -0.5, 0.0, 2.0**127], "0100 01111111 01111110 00000000 11111110"),
    ("cnat(rounding='nearest')", [3.0, -5.0], "01 10000001 10000001"),
    # Eight bits: sign and exponent + 64, so that -63 is 1.
    ("cnat(8)", [1.0, -(2.0**-63), 2.0**63, 2.0**90], "01000000 10000001 01111111 01111111"),
    # Three exponents, -1 to 1; fields 1 to 3 and zero.
    ("cnat(3, 1)", [2.0, -1.0, 0.5, 0.0], "011 110 001 000"),
    ("cnat(2, 0, 'nearest')", [2.0, -1.0, 0.25], "01 11 00"),
]


@pytest.mark.parametrize(("method", "entries", "bits"), BY_HAND)
def test_messages_written_by_hand(method: str, entries: list[float], bits: str) -> None:
    update = {"w": torch.tensor(entries)}
    packet, _ = compress(parse(method), update)
    assert to_bits(packet.payload[3:]) == to_bits(from_bits(bits))
    assert packet.spans["side"] == packet.spans["positions"] == 0
    assert packet.spans["values"] == len(bits.replace(" ", ""))
    assert packet.spans["header"] == 8 * len(packet.payload) - packet.spans["values"]
    got = decompress(parse(method), packet.payload, update)
    assert torch.equal(got["w"], packet.sent["w"].decoded)
