"""Nearest levels: bins with their means, and int4 and int8 values with a step per bucket."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import compress, parse


def normal(n: int) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(n))


def sent(method: str, x: Tensor) -> Tensor:
    return compress(parse(method), {"w": x})[0].sent["w"].decoded


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("bucket", [None, 1, 7, 64])
def test_steps_are_rounding_by_bucket(bits: int, bucket: int | None) -> None:
    x = normal(150)
    found = sent(f"steps({bits}, {'none' if bucket is None else bucket})", x)
    most = 2 ** (bits - 1) - 1
    for part, got in zip(x.split(bucket or 150), found.split(bucket or 150), strict=True):
        step = float(part.abs().max()) / most
        wanted = np.sign(part.numpy()) * np.floor(np.abs(part.numpy()) / step + 0.5) * step
        assert np.allclose(got.numpy(), wanted, atol=1e-6)
        assert float((got - part).abs().max()) <= 0.5001 * step


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("spread", [1, 6, None])
def test_bins_are_means_of_even_bins(bits: int, spread: float | None) -> None:
    x = normal(400) * 3 + 1
    method = f"bins({bits})" if spread is None else f"bins({bits}, {spread})"
    got, count = sent(method, x).numpy(), 2**bits
    step = (spread or 2.7 + 0.66 * bits) * x.double().std() / count
    place = ((x.double() - x.double().mean()) / step + count / 2).floor().clamp(0, count - 1)
    for b in range(count):
        inside = (place == b).numpy()
        if inside.any():
            assert np.allclose(got[inside], x.numpy()[inside].mean(), atol=1e-5)
    error = x.numpy() - got
    assert float(error @ got) == pytest.approx(0, abs=1e-2)
    assert float(error @ error) <= float(x @ x)


def test_a_memory_fades_by_its_decay() -> None:
    """Nothing of the second entry is ever sent: the memory is a geometric sum."""
    state, method = None, parse("ef(topk(0.5) | float32, 0.5)")
    for turn in range(1, 8):
        _, state = compress(method, {"w": torch.tensor([9.0, 1.0])}, state)
        assert float(state["residual/w"][1]) == pytest.approx(2 * (1 - 0.5**turn))
    assert parse("ef(topk(0.5) | float32, 1)") == parse("ef(topk(0.5) | float32)")
    for bad in (0, -1, 1.5, math.inf, math.nan, "true"):
        with pytest.raises(ValueError, match="ef: decay is"):
            parse(f"ef(raw, {'true' if bad == 'true' else repr(bad)})".replace("inf", "1e999"))
