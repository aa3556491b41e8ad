"""One bit a value: signs, coins for zeros, mean magnitudes, and the means of columns."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from compressors import OneBit, ScaledSign, Sign, compress, decompress, parse
from compressors.kernels import noise
from compressors.parts import Place
from compressors.quantize import columns
from compressors.quantize.sign import sign_codes, sign_codes_with_coins
from tests.support.generators import bits_of, from_bits, to_bits, updates, whole_numbers
from tests.support.slowtwins import two_means_torch

VALUES = torch.tensor([3.0, -1.0, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38])


def sent(method: str, x: Tensor, seed: int = 0) -> Tensor:
    """What arrives of ``x``, checked to be what a reader finds."""
    packet, _ = compress(parse(method), {"w": x}, seed=seed)
    got = decompress(parse(method), packet.payload, {"w": torch.full_like(x, math.nan)})["w"]
    assert np.array_equal(bits_of(got), bits_of(packet.sent["w"].decoded))
    return got


def body(method: str, x: Tensor) -> str:
    return to_bits(compress(parse(method), {"w": x})[0].payload[3:])


@pytest.mark.parametrize("size", [0, 1, 7, 4095, 4096, 4097, 20000])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5])
def test_kernels_and_their_twins(size: int, share: float) -> None:
    rng = np.random.default_rng(size)
    x = rng.standard_normal(size).astype(np.float32)
    x[rng.random(size) < share] = 0
    x[rng.random(size) < share / 2] = -0.0
    codes = sign_codes(torch.from_numpy(x)).numpy()
    assert codes.dtype == np.uint8
    assert np.array_equal(codes, x < 0)
    coins = sign_codes_with_coins(torch.from_numpy(x), 9).numpy()
    expected = np.where(x == 0, noise.words(9, np.arange(size)) >> 31, x < 0)
    assert np.array_equal(coins, expected)


def test_the_sign_times_the_magnitude() -> None:
    got = sent("sign(0.25)", VALUES)
    assert got.abs().tolist() == [0.25] * 8
    known = VALUES != 0
    assert torch.equal(got[known] > 0, VALUES[known] > 0)


def test_a_sign_is_one_bit_and_nothing_else() -> None:
    """Minus is 1, as in IEEE numbers."""
    assert body("sign(0.5)", torch.tensor([3.0, -1, 2, 2, -5])) == "01001" + "000"
    packet, _ = compress(parse("sign"), {"w": whole_numbers(1000, 1)})
    assert packet.spans == {"header": 24, "positions": 0, "values": 1000, "side": 0}


def test_coins_for_zeros_are_fair_and_follow_the_seed() -> None:
    """100,000 coins: the share of minus is within 5 standard errors (sqrt(1/4 / n)) of a half."""
    n = 100_000
    zeros = torch.zeros(n)
    one = sign_codes_with_coins(zeros, 1)
    assert abs(float(one.double().mean()) - 0.5) < 5 * math.sqrt(0.25 / n)
    assert torch.equal(one, sign_codes_with_coins(-zeros, 1))
    other = sign_codes_with_coins(zeros, 2)
    agree = float((one == other).double().mean())
    assert abs(agree - 0.5) < 5 * math.sqrt(0.25 / n)
    mixed = torch.where(torch.arange(n) % 3 == 0, zeros, torch.tensor(1.0))
    assert torch.equal(sign_codes_with_coins(mixed, 1)[::3], one[::3])  # a coin is its entry's own


@pytest.mark.parametrize("bad", [0, 0.0, -1, math.nan, math.inf, 1e39, 1e-46, True, "1"])
def test_a_magnitude_that_is_none(bad: object) -> None:
    with pytest.raises(ValueError, match="sign: magnitude is .*: give a float32 number above 0"):
        Sign(bad)


def test_the_mean_magnitude_is_summed_in_float64() -> None:
    """2**25 and a million ones: a running float32 sum would stay at 2**25."""
    x = torch.full((1 << 20,), 1.0)
    x[0] = 2.0**25
    assert sent("l1_sign", x)[1] == np.float32((2.0**25 + (1 << 20) - 1) / (1 << 20))
    assert sent("l1_sign", torch.tensor([3.0, -1.0, 0.0, -0.0])).tolist() == [1, -1, 1, 1]


def test_the_bits_of_a_scaled_sign() -> None:
    two = "0 10000000 00000000000000000000000"
    assert body("l1_sign", torch.tensor([3.0, -1.0])) == to_bits(from_bits(f"{two} 01"))


MATRIX = torch.tensor([[3.0, -1.0, 1.0, -2.0], [0.0, -0.0, -4.0, 8.0], [1.0, 1.0, 4.0, 2.0]])


def test_two_means_a_column_by_hand() -> None:
    """Zeros count with the positive; a column is one index of the first axis; no negatives: 0."""
    third = float(np.float32(8 / 3))
    assert sent("onebit", MATRIX).tolist() == [
        [2.0, -1.5, 2.0, -1.5],
        [third, third, -4.0, third],
        [2.0] * 4,
    ]
    packet, _ = compress(parse("onebit"), {"w": MATRIX})
    assert packet.spans["side"] == 3 * 2 * 32 and packet.spans["values"] == 12
    high, low = sum([3, 1, 0, 0, 8, 1, 1, 4, 2]) / 9, -7 / 3
    both = {float(np.float32(v)) for v in (high, low)}
    assert set(sent("onebit(false)", MATRIX).flatten().tolist()) == both
    packet, _ = compress(parse("onebit(false)"), {"w": MATRIX})
    assert packet.spans["side"] == 2 * 32


def test_one_dimension_is_one_column() -> None:
    for shape in ((12,), (1, 12), (1, 3, 4)):
        x = MATRIX.reshape(shape)
        assert torch.equal(sent("onebit", x), sent("onebit(false)", x))
    assert sent("onebit", torch.tensor(-3.0)).item() == -3.0
    conv = whole_numbers(48, 2).reshape(4, 3, 2, 2)
    assert torch.equal(sent("onebit", conv), sent("onebit", conv.reshape(4, 12)).view(4, 3, 2, 2))


def test_the_means_are_the_obvious_ones() -> None:
    """Against boolean indexing, not a complement of a byte mask (which is 254 or 255, never 0)."""
    x = torch.from_numpy(np.random.default_rng(4).standard_normal((17, 5, 3)).astype(np.float32))
    x[3] = x[3].abs()
    x[5] = -x[5].abs()
    got = sent("onebit", x)
    for mine, column in zip(got, x, strict=True):
        for side in (column >= 0, column < 0):
            for value in mine[side]:
                assert value == np.float32(column[side].double().mean())


def test_behind_a_sparsifier_columns_are_of_what_is_sent() -> None:
    """topk of 3 of 12: 8 and -4 in the second column, 4 in the third; the first has none."""
    got = sent("topk(0.25) | onebit", MATRIX)
    assert got.tolist() == [[0] * 4, [0, 0, -4, 8], [0, 0, 4, 0]]
    packet, _ = compress(parse("topk(0.25) | onebit"), {"w": MATRIX})
    assert packet.spans["side"] == 2 * 2 * 32 and packet.spans["values"] == 3
    assert sent("topk(0.5) | onebit", torch.zeros(3, 4)).count_nonzero() == 0
    assert sent("flat(topk(0.25) | onebit)", MATRIX).count_nonzero() == 3


@given(updates())
def test_two_means_never_lose_more_than_there_is(update: dict[str, Tensor]) -> None:
    """Each side's mean is the best single value for it: the loss is the variance around it."""
    packet, _ = compress(parse("onebit"), update)
    for name, x in update.items():
        lost = (x.double() - packet.sent[name].decoded.double()).square().sum()
        assert float(lost) <= float(x.double().square().sum()) * (1 + 1e-6)


@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_means_by_column_and_their_twin(name: str) -> None:
    """Within one unit in the last place: sums in float64 in another order."""
    x = torch.from_numpy(np.random.default_rng(5).standard_normal((30, 40)).astype(np.float32))
    x[7, :20] = 0
    x[9] = x[9].abs()
    chosen = None if name == "dense" else torch.arange(0, 1200, 7)
    place = Place(chosen, x.shape)
    values = x.flatten() if chosen is None else x.flatten()[chosen]
    counts = columns.lengths(place)
    assert int(counts.sum()) == values.numel()
    fast = columns.two_means(values, counts)
    slow = two_means_torch(values, counts)
    gap = np.abs(bits_of(fast).astype(np.int64) - bits_of(slow).astype(np.int64))
    assert gap.max() <= 1


def test_means_of_no_values() -> None:
    """Of a tensor of which nothing is sent."""
    none, counts = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    fast, slow = columns.two_means(none, counts), two_means_torch(none, counts)
    assert fast.shape == slow.shape == (0, 2) and slow.dtype == torch.float32


def test_settings_of_one_bit() -> None:
    with pytest.raises(ValueError, match="onebit: columns is 2: give true or false"):
        OneBit(2)
    assert parse("onebit(columns=false)") == parse("onebit(false)")
    assert ScaledSign() == ScaledSign()


def test_error_feedback_of_signs_is_the_published_method() -> None:
    """By hand: (3, -1) sends (2, -2), keeps (1, 1); (1, 2) + (1, 1) sends (2.5, 2.5)."""
    method = parse("ef_sign()")
    assert parse("ef_sign") == method == parse("ef(per_tensor(l1_sign))")
    packet, state = compress(method, {"w": torch.tensor([3.0, -1.0])})
    assert packet.sent["w"].decoded.tolist() == [2, -2]
    packet, state = compress(method, {"w": torch.tensor([1.0, 2.0])}, state)
    assert packet.sent["w"].decoded.tolist() == [2.5, 2.5]
    assert state["residual/w"].tolist() == [-0.5, 0.5]
