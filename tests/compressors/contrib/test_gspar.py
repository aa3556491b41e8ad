"""Entries by chance in proportion to their magnitude: the chances by definition, and statistics."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from compressors import GSpar, compress, parse
from compressors.bounds import bound
from compressors.contrib.sparsifiers import least_sent
from compressors.kernels.noise import words

SIZES = st.one_of(st.floats(0, 2.0**60, width=32), st.integers(0, 3).map(float), st.just(2.0**-149))


def chances(sizes: np.ndarray, k: int) -> np.ndarray:
    """Algorithm 3 of the paper until nothing changes, in Python: the slow, obvious twin."""
    found = [min(1.0, k * float(s) / math.fsum(sizes)) for s in sizes]
    for _ in sizes:
        certain = sum(p == 1 for p in found)
        rest = math.fsum(p for p in found if p < 1)
        if certain >= k or rest == 0 or (k - certain) / rest <= 1 + 1e-15:
            break
        found = [p if p == 1 else min(1.0, p * (k - certain) / rest) for p in found]
    return np.array(found)


@given(hnp.arrays(np.float32, st.integers(1, 60), elements=SIZES), st.floats(0.01, 1))
def test_chances_are_those_of_algorithm_3(sizes: np.ndarray, share: float) -> None:
    k = max(1, round(share * sizes.size))
    least = least_sent(sizes, k)
    if np.count_nonzero(sizes) <= k:
        assert least == 0
        return
    if least > 2.0**-120:  # denormal numbers have fewer digits
        found = np.minimum(1, sizes.astype(np.float64) / least)
        assert found.sum() == pytest.approx(k, rel=1e-5)
        assert found == pytest.approx(chances(sizes, k), rel=1e-4, abs=1e-7)


def test_an_entry_travels_where_its_word_lies_below_its_chance() -> None:
    x = np.random.default_rng(2).standard_t(2, 5000).astype(np.float32)
    x[::7] = 0
    indices, least = GSpar(0.1).select(torch.from_numpy(x), 9)
    drawn = words(9, np.arange(x.size)).astype(np.float64)
    below = drawn < np.abs(x).astype(np.float64) / least * 2**32
    assert indices.tolist() == np.flatnonzero(below).tolist()
    assert 400 < indices.numel() < 600
    assert set(np.flatnonzero(np.abs(x) >= least)) <= set(indices.tolist())


def test_equal_entries_reach_the_bound() -> None:
    x, method = torch.ones(200), parse("gspar(0.25) | float32")
    errors = [
        float((compress(method, {"w": x}, seed=s)[0].sent["w"].decoded - x).square().sum()) / 200
        for s in range(400)
    ]
    assert np.mean(errors) == pytest.approx(bound(method, 200).omega, rel=0.05)


def test_few_entries_and_zeros() -> None:
    few = torch.tensor([0.0, -3.0, 0.0, 2.0])
    assert GSpar(0.5).select(few, 0)[0].tolist() == [1, 3]
    sent = compress(parse("gspar(0.5) | float32"), {"w": few})[0].sent["w"]
    assert torch.equal(sent.decoded, few)
    assert GSpar(0.5).select(torch.zeros(4), 0)[0].numel() == 0
    assert GSpar(1).select(torch.ones(3), 0)[0].tolist() == [0, 1, 2]
