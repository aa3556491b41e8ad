"""One bit a value: signs, coins for zeros, mean magnitudes, and the means of columns."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import compress, decompress, parse
from compressors.kernels import noise
from compressors.quantize.sign import sign_codes, sign_codes_with_coins
from tests.support.generators import bits_of, from_bits, to_bits, whole_numbers


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


def test_a_sign_is_one_bit_and_nothing_else() -> None:
    """Minus is 1, as in IEEE numbers."""
    assert body("sign(0.5)", torch.tensor([3.0, -1, 2, 2, -5])) == "01001" + "000"
    packet, _ = compress(parse("sign"), {"w": whole_numbers(1000, 1)})
    assert packet.spans == {"header": 24, "positions": 0, "values": 1000, "side": 0}


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


def test_behind_a_sparsifier_columns_are_of_what_is_sent() -> None:
    """topk of 3 of 12: 8 and -4 in the second column, 4 in the third; the first has none."""
    got = sent("topk(0.25) | onebit", MATRIX)
    assert got.tolist() == [[0] * 4, [0, 0, -4, 8], [0, 0, 4, 0]]
    packet, _ = compress(parse("topk(0.25) | onebit"), {"w": MATRIX})
    assert packet.spans["side"] == 2 * 2 * 32 and packet.spans["values"] == 3
    assert sent("topk(0.5) | onebit", torch.zeros(3, 4)).count_nonzero() == 0
    assert sent("flat(topk(0.25) | onebit)", MATRIX).count_nonzero() == 3


def test_error_feedback_of_signs_is_the_published_method() -> None:
    """By hand: (3, -1) sends (2, -2), keeps (1, 1); (1, 2) + (1, 1) sends (2.5, 2.5)."""
    method = parse("ef_sign()")
    assert parse("ef_sign") == method == parse("ef(per_tensor(l1_sign))")
    packet, state = compress(method, {"w": torch.tensor([3.0, -1.0])})
    assert packet.sent["w"].decoded.tolist() == [2, -2]
    packet, state = compress(method, {"w": torch.tensor([1.0, 2.0])}, state)
    assert packet.sent["w"].decoded.tolist() == [2.5, 2.5]
    assert state["residual/w"].tolist() == [-0.5, 0.5]
