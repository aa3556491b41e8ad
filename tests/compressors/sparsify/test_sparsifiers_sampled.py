"""Thresholds from a random sample: how many entries they send, and never too many."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compressors import TopK, compress, parse, text
from compressors.sparsify.topk import sample_size
from tests.support.generators import decoded


def normal(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def chosen(part: TopK, x: np.ndarray, seed: int = 0) -> list[int]:
    indices, scale = part.select(torch.from_numpy(x), seed)
    assert scale == 1.0
    return indices.tolist()


def top(keys: np.ndarray, k: int) -> list[int]:
    """The k largest keys, ties to the lowest index."""
    return sorted(np.lexsort((np.arange(keys.size), -keys))[:k].tolist())


def test_sample_sizes() -> None:
    assert sample_size(10**6, 0.001, 0.001) == 25_000  # the least: 25 survivors expected
    assert sample_size(10**8, 0.001, 0.001) == 100_000
    assert sample_size(10**6, 0.01, 1) == 10**6


@pytest.mark.parametrize("sample", [0.001, 1])
def test_a_tensor_not_larger_than_its_sample_is_exact(sample: float) -> None:
    for n in (1, 40, 2500):
        x = normal(n, n)
        assert chosen(TopK(0.01, sample), x, 3) == chosen(TopK(0.01), x)


def test_a_sampled_threshold_sends_k_give_or_take_a_fifth() -> None:
    """2,500 looked at of 100,000, 25 survivors: the number sent is k S, S about Gamma(25) / 25.

    Its mean is 1 and its standard deviation 0.2. Over 200 seeds the mean's standard error
    is 0.0141 and that of the deviation about 0.2 / sqrt(400) = 0.01, a little more for the
    skew: four of them each. The seeds are fixed.
    """
    x, k = normal(100_000), 1000
    counts = np.array([len(chosen(TopK(0.01, 0.001), x, seed)) for seed in range(200)]) / k
    assert abs(counts.mean() - 1) < 4 * 0.0141
    assert abs(counts.std() - 0.2) < 4 * 0.012
    assert counts.max() <= 2


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 1.0]))
def test_a_sampled_threshold_by_its_definition(seed: int, grain: float) -> None:
    x = normal(6000, seed % 97)
    x = np.round(x / grain) * np.float32(grain) if grain else x
    words = np.array([_word(seed, i) for i in range(2500)], np.uint64)
    keys = np.sort(np.abs(x[(words * np.uint64(6000)) >> np.uint64(32)]))
    passing = np.flatnonzero((np.abs(x) >= keys[-25]) & (x != 0))
    expected = passing.tolist() if passing.size <= 120 else top(np.abs(x), 60)
    assert chosen(TopK(0.01, 0.001), x, seed) == expected


def _word(seed: int, index: int) -> int:
    """The noise word of an index, in Python's own integers."""
    mask64, mask = 2**64 - 1, 2**32 - 1
    mixed = ((seed + 1) * 0x9E3779B97F4A7C15) & mask64
    mixed = ((mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93) & mask64
    mixed ^= mixed >> 32
    x = (index * (mixed & mask | 1) + (mixed >> 32)) & mask
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & mask
    x = ((x ^ (x >> 15)) * 0x846CA68B) & mask
    return x ^ (x >> 16)


@pytest.mark.parametrize("filled", [0, 3, 100, 3000])
def test_never_more_than_twice_k(filled: int) -> None:
    """Ties, or so many zeros that the threshold is zero: the k largest, exactly."""
    x = np.zeros(30_000, np.float32)
    x[:filled] = 1
    k = 60
    sent = chosen(TopK(0.002, 0.001), x, 1)
    assert sent == list(range(filled if filled <= 2 * k else k))


def test_a_sampled_message_carries_its_positions_and_no_seed() -> None:
    method = "topk(0.01, 0.001) | float32 | golomb"
    assert text(parse("topk(0.01, sample=0.001) | float32")) == f"per_tensor({method})"
    assert not parse(method).needs_seed
    update = {"w": torch.tensor(normal(9000))}
    payloads = {compress(parse(method), update, seed=seed)[0].payload for seed in range(8)}
    assert len(payloads) > 4
    for payload in payloads:
        got = decoded(method, payload, update)["w"]
        assert 30 < int((got != 0).sum()) <= 180
