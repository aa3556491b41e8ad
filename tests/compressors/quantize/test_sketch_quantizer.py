"""Quantile buckets: equal ranks, ties together, signs apart, and what travels."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from compressors import PayloadError, Sketch, compress, decompress, parse
from tests.support.generators import bits_of, from_bits, updates


def sent(method: str, x: Tensor) -> Tensor:
    """What arrives of ``x``, checked to be what a reader finds."""
    packet, _ = compress(parse(method), {"w": x})
    got = decompress(parse(method), packet.payload, {"w": torch.full_like(x, math.nan)})["w"]
    assert np.array_equal(bits_of(got), bits_of(packet.sent["w"].decoded))
    return got


def obvious(x: np.ndarray, buckets: int) -> np.ndarray:
    """The same buckets, value by value: for entries that all differ."""
    sides = [np.sort(x[x < 0]), np.sort(x[x >= 0])]
    low = round(buckets * sides[0].size / x.size)
    low = min(max(low, int(sides[0].size > 0)), buckets - int(sides[1].size > 0))
    out = np.empty_like(x)
    for side, number in zip(sides, (low, buckets - low), strict=True):
        starts = [j * side.size // number for j in range(number)] + [side.size]
        for a, b in zip(starts, starts[1:], strict=False):
            if b > a:
                out[(x >= side[a]) & (x <= side[b - 1])] = side[a:b].astype(np.float64).mean()
    return out


@pytest.mark.parametrize("buckets", [2, 3, 16, 256, 300, 5000])
@pytest.mark.parametrize("shift", [0.0, 1.5, 9.0, -9.0])
def test_against_the_obvious_way(buckets: int, shift: float) -> None:
    x = (np.random.default_rng(7).standard_normal(3001) + shift).astype(np.float32)
    assert np.unique(x).size > 2990  # a few ties: those values are in one bucket of either way
    x = np.unique(x)[np.random.default_rng(8).permutation(np.unique(x).size)]
    got = sent(f"sketch({buckets})", torch.from_numpy(x)).numpy()
    assert np.array_equal(got, obvious(x, buckets))


@given(updates())
def test_signs_never_mix_and_order_is_kept(update: dict[str, Tensor]) -> None:
    packet, _ = compress(parse("sketch(4)"), update)
    for name, x in update.items():
        got = packet.sent[name].decoded
        assert bool((got[x < 0] < 0).all())
        assert bool((got[x >= 0] >= 0).all())
        flat, order = x.flatten().sort()
        moved = got.flatten()[order]
        assert bool((moved[1:] >= moved[:-1]).all())
        same = flat[1:] == flat[:-1]
        assert torch.equal(moved[1:][same], moved[:-1][same])
        assert moved.unique().numel() <= 4


def test_as_many_buckets_as_values_keep_them() -> None:
    x = torch.tensor([3.0, -1.0, 0.5, -7.0, 2.0])
    assert torch.equal(sent("sketch(256)", x), x)
    assert sent("sketch(2)", x).tolist() == [5.5 / 3, -4, 5.5 / 3, -4, 5.5 / 3] or torch.equal(
        sent("sketch(2)", x), torch.tensor([5.5 / 3, -4, 5.5 / 3, -4, 5.5 / 3])
    )


def test_only_buckets_that_are_not_empty_travel() -> None:
    """Three different values in 256 buckets: 8 bits for the number, 3 means, 2 bits a value."""
    x = torch.tensor([1.0, -2.0, 5.0, 1.0, 1.0, -2.0, 5.0, 1.0])
    packet, _ = compress(parse("sketch"), {"w": x})
    assert torch.equal(packet.sent["w"].decoded, x)
    assert packet.spans["side"] == 8 + 3 * 32 and packet.spans["values"] == 16
    packet, _ = compress(parse("sketch"), {"w": torch.full((8,), 4.0)})
    assert packet.spans["side"] == 8 + 32 and packet.spans["values"] == 0


def test_buckets_hold_equal_numbers() -> None:
    x = torch.from_numpy(np.random.default_rng(3).standard_normal(6400).astype(np.float32))
    _, counts = sent("sketch(64)", x).unique(return_counts=True)
    assert counts.numel() == 64
    assert int(counts.max()) - int(counts.min()) <= 7  # 32 or so of each sign, of 100 values each


def test_wide_alphabets() -> None:
    x = torch.from_numpy(np.random.default_rng(3).standard_normal(50_000).astype(np.float32))
    assert np.array_equal(sent("sketch(65536)", x).numpy(), x.numpy())


def test_a_number_of_buckets_that_cannot_be() -> None:
    template = {"w": torch.empty(3)}
    frame = compress(parse("sketch(4)"), {"w": torch.zeros(3)})[0].payload[:3]
    with pytest.raises(PayloadError, match="4 buckets announced for 3 values in 4 buckets"):
        decompress(parse("sketch(4)"), frame + from_bits("11" + "0" * 200), template)


@pytest.mark.parametrize("bad", [1, 0, 65537, 2.5, True, "many"])
def test_bad_settings(bad: object) -> None:
    with pytest.raises(ValueError, match="sketch: buckets is .*: give a whole number from 2"):
        Sketch(bad)
