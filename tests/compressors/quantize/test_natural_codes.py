"""Natural compression: codes by hand, windows of exponents, messages and settings."""

import pytest
import torch
from torch import Tensor

from compressors import BitWriter, Natural, compress, decompress, parse
from compressors.parts import Place
from tests.support.generators import from_bits, to_bits, whole_numbers


def codes_of(settings: Natural, values: Tensor, seed: int) -> Tensor:
    return settings.quantize(values, Place(None, values.shape), BitWriter(), seed).codes


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


def test_the_receiver_needs_no_seed() -> None:
    update = {"w": whole_numbers(500, 1) / 7}
    packets = [compress(parse("cnat"), update, seed=seed)[0] for seed in (1, 2)]
    assert not parse("cnat").needs_seed
    assert packets[0].payload != packets[1].payload
    assert len(packets[0].payload) == (24 + 9 * 500 + 7) // 8
    for packet in packets:
        got = decompress(parse("cnat"), packet.payload, update)
        assert torch.equal(got["w"], packet.sent["w"].decoded)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ((1,), "bits of cnat is 1: .* from 2 to 9"),
        ((10,), "bits of cnat is 10"),
        ((True,), "bits of cnat is True"),
        ((9, 0), "top of cnat is 0: nine bits hold every exponent"),
        ((7,), "top of cnat is None: bits=7 holds 63 exponents; say the highest"),
        ((8, -1), "top of cnat with bits=8 is -1: .* from 0 to 127"),
        ((5, 128), "top of cnat with bits=5 is 128: .* from -112 to 127"),
        ((5, 1.5), "is 1.5: give a whole number"),
        ((9, None, "up"), "rounding of cnat is 'up': give one of random, nearest"),
    ],
)
def test_bad_settings(settings: tuple, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Natural(*settings)
