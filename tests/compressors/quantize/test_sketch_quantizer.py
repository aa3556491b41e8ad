"""Quantile buckets: equal ranks, ties together, signs apart, and what travels."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import PayloadError, compress, decompress, parse
from tests.support.generators import bits_of, from_bits


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


def test_only_buckets_that_are_not_empty_travel() -> None:
    """Three different values in 256 buckets: 8 bits for the number, 3 means, 2 bits a value."""
    x = torch.tensor([1.0, -2.0, 5.0, 1.0, 1.0, -2.0, 5.0, 1.0])
    packet, _ = compress(parse("sketch"), {"w": x})
    assert torch.equal(packet.sent["w"].decoded, x)
    assert packet.spans["side"] == 8 + 3 * 32 and packet.spans["values"] == 16
    packet, _ = compress(parse("sketch"), {"w": torch.full((8,), 4.0)})
    assert packet.spans["side"] == 8 + 32 and packet.spans["values"] == 0


def test_a_number_of_buckets_that_cannot_be() -> None:
    template = {"w": torch.empty(3)}
    frame = compress(parse("sketch(4)"), {"w": torch.zeros(3)})[0].payload[:3]
    with pytest.raises(PayloadError, match="4 buckets announced for 3 values in 4 buckets"):
        decompress(parse("sketch(4)"), frame + from_bits("11" + "0" * 200), template)
