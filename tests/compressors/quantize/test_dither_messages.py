"""Messages of random dithering written by hand, and its settings."""

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import BitReader, BitWriter, Dither, compress, decompress, parse, qsgd
from compressors.parts import Place, Symbols
from tests.support.generators import from_bits, to_bits


def gaussian(k: int, seed: int = 1) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(k).astype(np.float32))


def sent(method: str, x: Tensor, seed: int = 0) -> Tensor:
    return compress(parse(method), {"w": x}, seed=seed)[0].sent["w"].decoded


FIVE = "0 10000001 01000000000000000000000"
FOUR = "0 10000001 00000000000000000000000"
HALF = "0 01111110 00000000000000000000000"
BY_HAND = [
    # norm 5 = |(3, 4)|; in the inf-norm 4: levels 4/4 and 2/4 of it: symbols 2j or 2j - 1 of 2.
    ("dither(2, inf)", [4, -2, 0, -4], f"{FOUR} 100 001 000 011"),
    # natural, s = 3: 1/4, 1/2, 1 of 4 are levels 1, 2, 3; seven symbols, three bits.
    ("natural_dither(3, inf)", [4, -2, 1, 0], f"{FOUR} 110 011 010 000"),
    # buckets of two, the last shorter; norms 4, 0.5 and 5 (p = 1: one non-zero in each).
    ("dither(1, 1, bucket=2)", [0, -4, 0.5, 0, 5], f"{FOUR} {HALF} {FIVE} 00 01 10 00 10"),
    # A norm that is a power of two stays: 9 bits, sign and exponent + 127.
    ("dither(1, inf, norm_code=cnat)", [4, -4], "0 10000001 10 01"),
    ("terngrad(0)", [0.5, 0, -0.5], f"{HALF} 10 00 01"),
]


@pytest.mark.parametrize(("method", "entries", "bits"), BY_HAND)
def test_messages_written_by_hand(method: str, entries: list[float], bits: str) -> None:
    x = torch.tensor(entries, dtype=torch.float32)
    payload = compress(parse(method), {"w": x})[0].payload
    assert to_bits(payload[3:]) == to_bits(from_bits(bits))
    got = decompress(parse(method), payload[:3] + from_bits(bits), {"w": x})
    assert torch.equal(got["w"], x)


def test_a_compressed_norm_takes_nine_bits_and_leaves_the_symbols() -> None:
    x = gaussian(100)
    place = Place(None, x.shape)
    plain, nine = BitWriter(), BitWriter()
    a = Dither(7, bucket=30).quantize(x, place, plain, 5)
    coder = Dither(7, bucket=30, norm_code="cnat")
    b = coder.quantize(x, place, nine, 5)
    assert (plain.spans()["side"], nine.spans()["side"]) == (4 * 32, 4 * 9)
    assert torch.equal(a.codes, b.codes)
    down, exponent = np.log2(a.side), np.log2(b.side)
    assert ((exponent == np.floor(down)) | (exponent == np.ceil(down))).all()
    again = coder.read_side(BitReader(nine.to_bytes()), place)
    assert np.array_equal(again[1], b.side)


def test_nothing_sent_has_no_side_information() -> None:
    out, place = BitWriter(), Place(torch.zeros(0, dtype=torch.int64), torch.Size([9]))
    symbols = qsgd(3, 2).quantize(torch.zeros(0), place, out, 0)
    assert out.position == 0
    assert qsgd(3, 2).dequantize(symbols, place, 0).numel() == 0
    assert qsgd(3).read_side(BitReader(b""), place) == (7, None)
    empty = Symbols(symbols.codes, 7, None)
    assert qsgd(3).dequantize(empty, place, 0).dtype == torch.float32


def test_sparse_values_share_one_norm_whatever_the_sparsifier() -> None:
    """Q-sparse: top-k, then QSGD of the k values, in the norm of those alone."""
    x = torch.tensor([0.1, -3.0, 0.2, 4.0])
    packet, _ = compress(parse("topk(0.5) | qsgd(15)"), {"w": x})
    assert packet.sent["w"].indices.tolist() == [1, 3]
    assert packet.spans["side"] == 32
    multiples = packet.sent["w"].values * 15 / 5
    torch.testing.assert_close(multiples, multiples.round())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"levels": 0}, "levels is 0: give a whole number from 1 to 65535"),
        ({"levels": 2.0}, "levels is 2.0"),
        ({"levels": True}, "levels is True"),
        ({"levels": 65536}, "levels is 65536"),
        ({"levels": 128, "kind": "natural"}, "levels is 128: give a whole number from 1 to 127"),
        ({"levels": 1, "norm": 0.5}, "norm is 0.5: p is a number of at least 1"),
        ({"levels": 1, "norm": True}, "norm is True"),
        ({"levels": 1, "norm": None}, "norm is None"),
        ({"levels": 1, "kind": "even"}, "kind is 'even': give one of standard, natural"),
        ({"levels": 1, "bucket": 0}, "bucket is 0"),
        ({"levels": 1, "norm_code": qsgd(3)}, "norm_code is 'dither.3.': give one of float32"),
        ({"levels": 1, "norm_code": "float16"}, "norm_code is 'float16': give one of float32"),
    ],
)
def test_bad_settings_are_named(settings: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Dither(**settings)


def test_many_levels_go_through_every_width_of_symbol() -> None:
    x = gaussian(300)
    for levels in (127, 128, 16383, 16384, 65535):
        got = sent(f"qsgd({levels})", x)
        assert float((got - x).abs().max()) <= float(x.norm()) / levels * 1.001
