"""Nearest levels: bins with their means, and int4 and int8 values with a step per bucket."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import compress, parse
from compressors.bounds import bound

HUGE = torch.finfo(torch.float32).max


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


def test_a_bucket_larger_than_the_tensor_takes_no_memory() -> None:
    tracemalloc.start()
    assert torch.equal(sent("steps(4, 10000000)", normal(150)), sent("steps(4)", normal(150)))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_steps_at_the_ends_of_float32() -> None:
    for bits in range(2, 9):
        assert sent(f"steps({bits})", torch.tensor([HUGE, -HUGE, 0.0])).tolist() == pytest.approx(
            [HUGE, -HUGE, 0.0], rel=1e-6
        )
    assert sent("steps(8)", torch.zeros(5)).tolist() == [0.0] * 5
    assert bool(torch.isfinite(sent("steps(8)", torch.tensor([1e-45, -1e-45]))).all())


@pytest.mark.parametrize("bits", [2, 4])
def test_the_bound_of_steps_is_reached(bits: int) -> None:
    """All others just below half a step become zero."""
    most = 2 ** (bits - 1) - 1
    x = torch.full((200,), 0.4999 / most)
    x[7] = 1.0
    error = float((sent(f"steps({bits})", x) - x).square().sum() / x.square().sum())
    delta = bound(parse(f"steps({bits})"), 200).delta
    assert error <= 1 - delta and error == pytest.approx(1 - delta, rel=1e-2)


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


def test_the_bound_of_bins_is_reached() -> None:
    """One value above all others and one below: each shares its mean with half of them."""
    x = torch.tensor([1.0] + 99 * [1e-6] + 99 * [-1e-6] + [-1.0])
    error = float((sent("bins(1)", x) - x).square().sum() / x.square().sum())
    delta = bound(parse("bins(1)"), 200).delta
    assert error <= 1 - delta and error == pytest.approx(1 - delta, rel=1e-3)


def test_bins_of_few_values() -> None:
    assert sent("bins(2)", torch.tensor([3.5])).tolist() == [3.5]
    assert sent("bins(2)", torch.full((6,), -2.0)).tolist() == [-2.0] * 6
    assert bool(torch.isfinite(sent("bins(3)", torch.tensor([HUGE, -HUGE, HUGE]))).all())


@pytest.mark.parametrize(
    "bad",
    ["bins(0)", "bins(9)", "bins(2, 0)", "bins(2, true)", "steps(1)", "steps(9)", "steps(4, 0)"],
)
def test_bad_settings(bad: str) -> None:
    with pytest.raises(ValueError, match="(bins|steps): (bits|spread|bucket) is"):
        parse(bad)


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
