"""Dithering in any p-norm with p >= 1: norms, bounds and means."""

import math

import numpy as np
import pytest
import torch

from compressors import Dither, parse, text
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


def test_the_name_of_a_norm() -> None:
    assert Dither(3, 2.0) == Dither(3, "2") and Dither(3, math.inf) == Dither(3, "inf")
    assert text(parse("dither(3, 2.5)")) == "per_tensor(dither(3, '2.5'))"
    assert parse(text(parse("dither(3, 3)"))) == parse("dither(3, 3)")
    assert plan_of(parse("dither(3, 3)")) is None
    for bad in (0.5, "nan", "two", None, True, -1):
        with pytest.raises(ValueError, match="dither: norm is .*a number of at least 1, or inf"):
            Dither(3, bad)
