"""Dithering in any p-norm with p >= 1: norms, bounds and means."""

import math

import numpy as np
import pytest
import torch

from compressors import Dither, compress, parse, text
from compressors.bounds import bound
from compressors.quantize.levels import bucket_norms
from compressors.segments.plan import plan_of


def normal(n: int) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("p", [1.5, 3, 4, 7.25, 100])
def test_norms_by_numpy(p: float) -> None:
    x = normal(100)
    found = bucket_norms(x, str(p), 40)
    for b, part in enumerate(x.split(40)):
        wanted = np.linalg.norm(part.double().numpy(), p)
        assert found[b] == pytest.approx(wanted, rel=1e-6)
        assert found[b] >= float(part.abs().max())
    top = torch.finfo(torch.float32).max
    assert bucket_norms(torch.full((9,), top), "3", 9)[0] == np.float32(top)
    assert bucket_norms(torch.zeros(9), "3", 4).tolist() == [0, 0, 0]


@pytest.mark.parametrize("method", ["natural_dither(4, 3)", "dither(3, 1.5)", "dither(4, 4.5)"])
def test_they_are_unbiased_and_within_theorem_7(method: str) -> None:
    x, draws = normal(64), 400
    sent = torch.stack(
        [compress(parse(method), {"w": x}, seed=s)[0].sent["w"].decoded for s in range(draws)]
    ).double()
    error = float((sent - x).square().sum(1).mean() / x.square().sum())
    assert error <= bound(parse(method), 64).omega
    signs = torch.from_numpy(np.random.default_rng(3).choice([-1.0, 1.0], (64, 12)))
    sums = sent @ signs  # of all entries: single ones may have rare draws
    score = (sums.mean(0) - x.double() @ signs) / (sums.std(0) / math.sqrt(draws))
    assert float(score.abs().max()) < 5


def test_the_name_of_a_norm() -> None:
    assert Dither(3, 2.0) == Dither(3, "2") and Dither(3, math.inf) == Dither(3, "inf")
    assert text(parse("dither(3, 2.5)")) == "per_tensor(dither(3, '2.5'))"
    assert parse(text(parse("dither(3, 3)"))) == parse("dither(3, 3)")
    assert plan_of(parse("dither(3, 3)")) is None
    for bad in (0.5, "nan", "two", None, True, -1):
        with pytest.raises(ValueError, match="dither: norm is .*a number of at least 1, or inf"):
            Dither(3, bad)
