"""The draws of random sparsifiers, by their definition."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from compressors import Bernoulli
from compressors.kernels import sample
from compressors.kernels.noise import words
from compressors.sparsify.randk import drawn
from tests.support.generators import smallest_words

SEEDS = st.integers(0, 2**32 - 1)


@given(st.integers(1, 300), st.floats(0, 1), SEEDS)
@example(1, 1.0, 0)
@example(2, 0.5, 0)
def test_draws_are_the_smallest_words(n: int, share: float, seed: int) -> None:
    k = min(n, max(1, round(share * n)))
    expected = smallest_words(n, k, seed)
    assert len(set(expected)) == k
    assert sample.smallest(n, k, seed).tolist() == expected
    assert drawn(n, k, seed).tolist() == expected


@pytest.mark.parametrize("n", [4095, 4096, 4097, 20_000])
def test_draws_of_many_chunks(n: int) -> None:
    for k, seed in itertools.product((1, 7, n // 100, n // 2, n - 1, n), (0, 2**32 - 1)):
        expected = smallest_words(n, k, seed)
        assert sample.smallest(n, k, seed).tolist() == expected


@given(st.integers(1, 9000), st.sampled_from([1e-12, 1e-4, 0.1, 0.5, 1 - 1e-12, 1.0]), SEEDS)
def test_bernoulli_is_a_limit_on_the_word(n: int, q: float, seed: int) -> None:
    below = max(1, round(q * 2**32))
    expected = np.flatnonzero(words(seed, np.arange(n)).astype(np.uint64) < below).tolist()
    indices, scale = Bernoulli(q).select(torch.zeros(n), seed)
    assert indices.tolist() == expected
    assert scale == 2**32 / below
    places = Bernoulli(q).places(n, seed)
    assert places.dtype == torch.int64
    assert places.tolist() == expected


def test_every_subset_is_as_likely() -> None:
    """2 of 5, 4,000 seeds: chi-square of the 10 subsets has 9 degrees of freedom.

    Its 0.9999 quantile is 33.7. Pairs are told apart, so that a draw of runs, or of one
    entry that drags its neighbour along, is seen.
    """
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(4000):
        subset = tuple(sample.smallest(5, 2, seed).tolist())
        counts[subset] = counts.get(subset, 0) + 1
    assert len(counts) == 10
    assert sum((c - 400) ** 2 / 400 for c in counts.values()) < 33.7
