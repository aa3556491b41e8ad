"""Random dithering: levels, symbols, norms and twins."""

import math
from bisect import bisect_right

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import BitWriter, Dither, compress, parse, text
from compressors.kernels.noise import words
from compressors.parts import Place
from compressors.quantize.levels import bucket_norms, level_codes

LARGEST = torch.finfo(torch.float32).max


def gaussian(k: int, seed: int = 1) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(k).astype(np.float32))


def sent(method: str, x: Tensor, seed: int = 0) -> Tensor:
    return compress(parse(method), {"w": x}, seed=seed)[0].sent["w"].decoded


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


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
@pytest.mark.parametrize("size", [1, 3, 16, 17, 100, 5000])
def test_norms_are_summed_in_float64(norm: str, size: int) -> None:
    x = gaussian(1000) * 1e20
    found = bucket_norms(x, norm, size)
    for bucket, got in zip(x.double().split(size), found, strict=True):
        expected = np.float32(float(torch.linalg.vector_norm(bucket, float(norm))))
        assert abs(float(got) - float(expected)) <= 1.2e-7 * float(expected)  # one unit at most
        assert got >= bucket.abs().max()


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


@pytest.mark.parametrize("kind", ["standard", "natural"])
@pytest.mark.parametrize("norm", ["1", "2", "inf"])
@pytest.mark.parametrize("code", ["float32", "cnat"])
def test_extremes_stay_finite(kind: str, norm: str, code: str) -> None:
    method = f"dither(3, {norm}, {kind}, norm_code={code})"
    for x in (
        torch.tensor([LARGEST, -LARGEST] * 50),
        torch.arange(-20, 21) * 2.0**-149,
        torch.tensor([LARGEST, 2.0**-149, 0.0, -1.0]),
    ):
        got = sent(method, x)
        assert bool(torch.isfinite(got).all())
        assert bool((got.sign() * x.sign() >= 0).all())


def test_a_single_value_is_its_norm() -> None:
    for method in ("qsgd(5)", "natural_dither(5, 1)", "dither(1, inf)"):
        for value in (3.7, -LARGEST, 2.0**-149, -1.1754942e-38):
            x = torch.tensor([value])
            assert torch.equal(sent(method, x), x)


def test_zeros_have_norm_zero_and_no_sign() -> None:
    x = torch.tensor([0.0, -0.0, 0.0, 4.0])
    got = sent("qsgd(3, 3)", x)
    assert got.tolist() == [0, 0, 0, 4]
    assert not torch.signbit(got).any()


# Exact numbers: values that are levels already, so that no chance is left.
# float32: sign, exponent + 127 in 8 bits, 23 of fraction. Symbol 2j - 1 is minus level j.
