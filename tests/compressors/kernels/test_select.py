"""Exact selection: the compiled kernel against sorting, and inputs made to mislead it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from compressors.kernels import select
from compressors.kernels.select import MAGNITUDE, NEGATIVE, POSITIVE, select_largest
from compressors.sparsify.topk import OneSided, TopK, largest

every_side = pytest.mark.parametrize("side", [MAGNITUDE, POSITIVE, NEGATIVE])
SIZES = sorted(
    {1, 2, 31, 32, 33, 255}
    | {select._SMALL + d for d in (-1, 0, 1)}
    | {select._CHUNK + d for d in (-1, 0, 1)}
    | {2 * select._CHUNK + 1}
)


def by_sorting(x: np.ndarray, k: int, side: int) -> list[int]:
    """Sort by key, ties by index, drop keys that are not above zero: the definition, in Python."""
    keys = {MAGNITUDE: np.abs(x), POSITIVE: x, NEGATIVE: -x}[side].tolist()
    order = sorted(range(len(keys)), key=lambda i: (-keys[i], i))[:k]
    return sorted(i for i in order if keys[i] > 0)


def agree(x: np.ndarray, k: int, side: int) -> None:
    """The kernel chooses the entries that come first by the definition."""
    x = np.ascontiguousarray(x, np.float32)
    expected = by_sorting(x, k, side)
    found = select_largest(x, k, side)
    assert found.dtype == np.int64
    assert found.tolist() == expected
    assert largest(torch.from_numpy(x), k, side).tolist() == expected


def sampled(n: int, k: int) -> np.ndarray:
    """The indices that the kernel's sample looks at (multiples of the golden ratio), in Python."""
    mask, size = (1 << 64) - 1, int(2 * (n * k) ** (1 / 3)) + 32
    return np.array([((i * 0x9E3779B97F4A7C15 & mask) >> 40) * n >> 24 for i in range(1, size + 1)])


def threshold(x: np.ndarray, k: int, side: int) -> int:
    """What the sample says that a little more than ``k`` entries reach."""
    flip, mask = np.int32(-(1 << 31) * (side == NEGATIVE)), np.int32(-1)
    mask = np.int32(0x7FFFFFFF) if side == MAGNITUDE else mask
    return select._threshold(select._sample(x.view(np.int32), k), k / x.size, flip, mask)


@every_side
@given(
    x=hnp.arrays(
        np.float32,
        st.integers(1, 200),
        elements=st.one_of(
            st.floats(width=32, allow_nan=False, allow_infinity=False),
            st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 2.0**-149, -(2.0**-149)]),
        ),
    ),
    share=st.floats(0, 1),
)
def test_small_vectors(side: int, x: np.ndarray, share: float) -> None:
    agree(x, max(1, round(share * x.size)), side)


@every_side
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(select._SMALL, 2 * select._CHUNK + 9),
    p=st.sampled_from([1e-9, 0.001, 0.01, 0.1, 0.124, 0.126, 0.5]),
    grain=st.sampled_from([0.0, 0.5, 2.0]),
    zeros=st.sampled_from([0.0, 0.5, 0.99, 0.9999]),
)
def test_large_vectors(side: int, seed: int, n: int, p: float, grain: float, zeros: float) -> None:
    """Random vectors, rounded to a grain (many ties) and thinned out (few non-zeros)."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    x = np.round(x / grain) * grain if grain else x
    agree(x * (rng.random(n) >= zeros), max(1, round(p * n)), side)


@every_side
@pytest.mark.parametrize("n", SIZES)
def test_sizes_around_every_boundary(side: int, n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n)
    for k in {1, max(1, n // 1000), max(1, n // 9), n}:
        agree(x, k, side)


@pytest.mark.parametrize("side", [MAGNITUDE, POSITIVE])
def test_a_sample_that_hits_every_spike(side: int) -> None:
    """The threshold is far too high, fewer than k reach it, and everything is looked at again."""
    n, k = 100_000, 5_000
    x = np.random.default_rng(0).random(n).astype(np.float32)
    x[sampled(n, k)] += np.float32(100)
    assert threshold(x, k, side) > np.sort(x)[n - k].view(np.int32)
    agree(x, k, side)


def test_a_sample_that_hits_the_spikes_of_both_sides() -> None:
    """Each side is found too short, and is looked for by itself."""
    n, k = 100_000, 5_000
    x = np.random.default_rng(0).uniform(-1, 1, n).astype(np.float32)
    seen = sampled(n, k)
    x[seen] += np.where(np.arange(seen.size) % 2, 100, -100).astype(np.float32)
    high, low = select.both_sides(x, k, k - 1)
    assert high.tolist() == by_sorting(x, k, POSITIVE)
    assert low.tolist() == by_sorting(x, k - 1, NEGATIVE)


@every_side
def test_a_sample_that_misses_every_spike(side: int) -> None:
    """The threshold is far too low, and nearly all entries are candidates."""
    n, k = 100_000, 1_000
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(n) + 50 * rng.choice([-1, 1], n)).astype(np.float32)
    seen = sampled(n, k)
    x[seen] = rng.standard_normal(seen.size) / 1000
    assert threshold(x, k, side) < np.float32(0.01).view(np.int32)
    agree(x, k, side)


@every_side
@pytest.mark.parametrize("value", [1.0, -1.0, 0.0, -0.0, 2.0**-149, -(2.0**-149)])
def test_constant_vectors(side: int, value: float) -> None:
    for n in (select._SMALL - 1, 50_000):
        agree(np.full(n, value), 77, side)


@every_side
def test_a_run_of_spikes(side: int) -> None:
    """All large entries in one chunk, at the start, in the middle and at the end."""
    n = 3 * select._CHUNK
    for start, k in ((0, 99), (select._CHUNK - 50, 100), (n - 100, 101)):
        x = np.random.default_rng(2).standard_normal(n)
        x[start : start + 100] *= 1e30
        agree(x, k, side)


@pytest.mark.parametrize(
    ("values", "k", "wanted"),
    [
        ([-1.0, 1.0], 1, [1]),
        ([-3.0, 1.0, 3.0, -1.0], 2, [1, 2]),
        ([0.0, -2.0, 2.0], 2, [2]),
        ([-3.0, 1.0, 2.0, -1.0], 2, [0, 3]),
        ([2.0, 2.0, -1.0], 1, [0]),
        ([0.0, -0.0], 1, []),
    ],
)
def test_equal_means_choose_the_positive_side(
    values: list[float], k: int, wanted: list[int]
) -> None:
    """What is stronger wins, and zeros say nothing."""
    assert select.one_sided(np.array(values, np.float32), k).tolist() == wanted


@pytest.mark.parametrize(
    ("p", "n", "k"),
    [
        (1, 0, 0),
        (0.01, 0, 0),
        (0.01, 1, 1),
        (0.01, 149, 1),
        (0.01, 151, 2),
        (0.5, 3, 2),
        (0.001, 500, 1),
        (0.001, 400_000, 400),
        (1, 7, 7),
    ],
)
def test_the_nominal_count(p: float, n: int, k: int) -> None:
    assert TopK(p).count(n) == OneSided(p).count(n) == k
