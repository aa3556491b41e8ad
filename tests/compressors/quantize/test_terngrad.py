"""TernGrad: clipping, the scale, and that it is dithering with one level in the inf-norm."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import Dither, TernGrad, compress, parse, text
from compressors.quantize.dither import deviation
from tests.support.generators import from_bits, to_bits


def gaussian(k: int, seed: int = 1) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(k).astype(np.float32))


def scale_of(method: str, x: Tensor) -> float:
    found = compress(parse(method), {"w": x})[0].sent["w"].decoded.abs()
    return float(found.max())


def test_without_clipping_it_is_dithering_with_one_level() -> None:
    x = {"w": gaussian(500)}
    for seed in range(3):
        payload = compress(parse("terngrad(0)"), x, seed=seed)[0].payload
        assert payload[3:] == compress(parse("dither(1, inf)"), x, seed=seed)[0].payload[3:]


def test_the_scale_is_the_largest_magnitude_after_clipping() -> None:
    x = gaussian(20_000)
    sigma = float(x.double().std(correction=0))
    assert float(x.abs().max()) > 3.5 * sigma
    assert scale_of("terngrad", x) == np.float32(2.5 * sigma)
    assert scale_of("terngrad(1)", x) == np.float32(sigma)
    assert scale_of("terngrad(100)", x) == scale_of("terngrad(none)", x) == float(x.abs().max())


def test_the_spread_is_about_the_mean_and_the_clipping_about_zero() -> None:
    x = torch.tensor([9.0, 11.0] * 50)  # standard deviation 1
    assert scale_of("terngrad", x) == 2.5
    assert set(compress(parse("terngrad"), {"w": x})[0].sent["w"].decoded.tolist()) == {2.5}


def test_equal_values_are_not_clipped() -> None:
    """Not even where the float64 mean of equal values is off by a rounding."""
    for value in (0.1, 3.3, -7.7e-30, 3e38):
        for k in (1, 3, 7, 1000):
            x = torch.full((k,), value)
            assert deviation(x) == 0.0
            got = compress(parse("terngrad"), {"w": x})[0].sent["w"].decoded
            assert torch.equal(got, x)


@pytest.mark.parametrize("k", [2, 15, 16, 17, 1000])
def test_the_spread_against_numpy(k: int) -> None:
    """Far from zero too, where one pass would cancel all of it."""
    for x in (gaussian(k), gaussian(k) + 1000, gaussian(k) * 1e30):
        expected = float(x.double().numpy().std())
        assert math.isclose(deviation(x), expected, rel_tol=1e-9)


def test_a_message_written_by_hand() -> None:
    """sigma^2 = 3/4 - 1/16 = 11/16, 2 sigma = 1.66 > 1: s = 1 = 2**0; symbols 2, 1, 2, 0."""
    x = torch.tensor([1.0, -1, 1, 0])
    payload = compress(parse("terngrad(2)"), {"w": x})[0].payload
    one = "0 01111111 00000000000000000000000"
    assert to_bits(payload[3:]) == to_bits(from_bits(f"{one} 10 01 10 00"))


def test_settings() -> None:
    assert TernGrad(0) == TernGrad(None) == TernGrad(0.0)
    assert text(TernGrad(0)) == "terngrad(none)"
    assert text(TernGrad()) == "terngrad"
    assert parse("terngrad(clip=3)") == parse("terngrad(3)")
    for bad in (-1, math.inf, math.nan, True, False, "2.5"):
        with pytest.raises(ValueError, match=f"terngrad: clip is {bad!r}"):
            TernGrad(bad)
    assert Dither(1, "inf") != TernGrad(None)
