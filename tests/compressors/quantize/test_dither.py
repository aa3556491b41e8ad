"""Random dithering: levels, symbols, norms and twins."""

import math
from bisect import bisect_right

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import BitReader, BitWriter, Dither, compress, decompress, parse, text
from compressors.kernels.noise import words
from compressors.parts import Place
from compressors.quantize.dither import rounded
from compressors.quantize.levels import bucket_norms, level_codes
from compressors.segments.plan import plan_of
from tests.support.generators import from_bits, to_bits


def gaussian(k: int, seed: int = 1) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(k).astype(np.float32))


def slow_symbols(
    x: np.ndarray, norm: float, levels: list[float], carry: bool, seed: int
) -> list[int]:
    """Definition 6, entry by entry, in Python's float64: two levels around the ratio, one coin.

    A coin below the chance says up. With ``carry`` the coin is added to the mantissa, so above
    the lowest level those at the other end say up.
    """
    noise = words(seed, np.arange(x.size)) / 2.0**32
    found = []
    for value, coin in zip(x.tolist(), noise.tolist(), strict=True):
        ratio = min(1.0, abs(value) / norm)
        low = bisect_right(levels, ratio) - 1
        if low < len(levels) - 1:
            chance = (ratio - levels[low]) / (levels[low + 1] - levels[low])
            low += coin >= 1 - chance if carry and low > 0 else coin < chance
        found.append(2 * low - (value < 0 and low > 0))
    return found


@pytest.mark.parametrize("levels", [1, 2, 3, 5, 127, 128, 20000])
def test_standard_levels_against_the_definition(levels: int) -> None:
    """Equal but where float32 and float64 disagree about a coin: each with a chance of about
    s 2**-24, for s = 20000 two or three of 2000."""
    x = gaussian(2000)
    norm = bucket_norms(x, "inf", 2000)
    codes = level_codes(x, norm, 2000, levels, False, 9).numpy().astype(np.int64)
    even = [j / levels for j in range(levels + 1)]
    slow = slow_symbols(x.numpy(), float(norm[0]), even, False, 9)
    assert (codes != slow).sum() <= (0 if levels < 1000 else 6)
    assert np.abs(codes - slow).max() <= 2
    assert codes.max() <= 2 * levels


@pytest.mark.parametrize("levels", [1, 2, 4, 8, 40, 127])
def test_natural_levels_against_the_definition(levels: int) -> None:
    x = gaussian(2000) * torch.from_numpy(2.0 ** -np.arange(2000.0) * 50).float().clamp(min=1e-3)
    norm = bucket_norms(x, "2", 2000)
    codes = level_codes(x, norm, 2000, levels, True, 9).numpy().astype(np.int64)
    above = [2.0**j for j in range(1 - levels, 1)]
    slow = slow_symbols(x.numpy(), float(norm[0]), [0.0, *above], True, 9)
    assert (codes == slow).all()


def test_the_noise_is_that_of_the_place() -> None:
    """Buckets do not start the noise anew: equal buckets round differently."""
    codes = level_codes(torch.ones(64), np.full(2, 2, np.float32), 32, 1, False, 1)
    assert not torch.equal(codes[:32], codes[32:])
    assert torch.equal(
        codes, level_codes(torch.ones(64), np.full(1, 2, np.float32), 64, 1, False, 1)
    )


def test_no_symbol_is_wider_than_its_bits() -> None:
    """Public code has one level too many for its width: 2 s + 1 symbols, not 2 s + 2."""
    for levels, bits in ((1, 2), (3, 3), (7, 4), (8, 5), (15, 5), (127, 8), (128, 9)):
        for kind in ("standard", "natural")[: 2 if levels < 128 else 1]:
            coder = Dither(levels, kind=kind)
            top = coder.quantize(torch.tensor([-5.0]), Place(None, torch.Size([1])), BitWriter(), 0)
            assert top.alphabet == 2 * levels + 1
            assert math.ceil(math.log2(top.alphabet)) == bits
            assert top.codes.tolist() == [2 * levels - 1]  # the top level, minus
            packet, _ = compress(parse(text(coder)), {"w": gaussian(100)})
            assert packet.spans["values"] == 100 * bits


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
    assert (plain.position, nine.position) == (4 * 32, 4 * 9)
    assert torch.equal(a.codes, b.codes)
    down, exponent = np.log2(a.side), np.log2(b.side)
    assert ((exponent == np.floor(down)) | (exponent == np.ceil(down))).all()
    again = coder.read_side(BitReader(nine.to_bytes()), place)
    assert np.array_equal(again[1], b.side)


def normal(n: int) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 4, 7.25, 100, math.inf])
def test_norms_by_numpy(p: float) -> None:
    x = normal(100)
    found = bucket_norms(x, str(p), 40)
    for b, part in enumerate(x.split(40)):
        wanted = np.linalg.norm(part.double().numpy(), p)
        assert found[b] == pytest.approx(wanted, rel=1e-6)
        assert found[b] >= float(part.abs().max())
    top = torch.finfo(torch.float32).max
    assert bucket_norms(torch.full((9,), top), str(p), 9)[0] == np.float32(top)
    assert bucket_norms(torch.zeros(9), str(p), 4).tolist() == [0, 0, 0]


def test_the_name_of_a_norm() -> None:
    assert Dither(3, 2.0) == Dither(3, "2") and Dither(3, math.inf) == Dither(3, "inf")
    assert text(parse("dither(3, 2.5)")) == "per_tensor(dither(3, '2.5'))"
    assert parse(text(parse("dither(3, 3)"))) == parse("dither(3, 3)")
    assert plan_of(parse("dither(3, 3)")) is None
    for bad in (0.5, "nan", "two", None, True, -1):
        with pytest.raises(ValueError, match="dither: norm is .*a number of at least 1, or inf"):
            Dither(3, bad)


def test_a_compressed_norm_is_right_in_the_mean() -> None:
    """E C_nat(norm) = norm over 4e5 equal norms, 5 standard errors; saturation and denormals.

    1.5 goes to 1 or 2 with even chance: standard error 0.5 / sqrt(4e5) = 0.0008.
    """
    norms = np.full(400_000, 1.5, np.float32)
    found = rounded(norms, 3)
    assert set(found.tolist()) == {1.0, 2.0}
    assert abs(found.mean(dtype=np.float64) - 1.5) < 5 * 0.5 / math.sqrt(norms.size)
    top = np.float32([0.0, 3.4e38, 2.0**127, 2.0**-126, 8.0])
    assert rounded(top, 3).tolist() == [0.0, 2.0**127, 2.0**127, 2.0**-126, 8.0]
    tiny = np.full(100_000, 2.0**-128, np.float32)  # a quarter of the smallest normal number
    found = rounded(tiny, 4)
    assert set(found.tolist()) == {0.0, 2.0**-126}
    assert abs((found > 0).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / tiny.size)


def test_norm_and_symbols_draw_apart() -> None:
    """Unbiased as a product only if independent: 3000 messages, mean within 5 standard errors.

    The norm is 1.5 and the first ratio 0.75: coins at even odds. One coin for both would give
    (0.5 + 2) / 2 = 1.25 for 1.125, nine standard errors.
    """
    x = {"w": torch.tensor([1.125, 63**0.5 / 8])}
    method = parse("dither(2, 2, natural, norm_code=cnat)")
    found = np.array(
        [
            compress(method, x, seed=seed)[0].sent["w"].decoded.double().numpy()
            for seed in range(3000)
        ]
    )
    gap = np.abs(found.mean(0) - x["w"].numpy())
    assert (gap < 5 * found.std(0) / math.sqrt(3000)).all()
