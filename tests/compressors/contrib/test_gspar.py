"""Entries by chance in proportion to their magnitude: the chances by definition, and statistics."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from compressors import GSpar, UpdateError, compress, parse
from compressors.bounds import bound
from compressors.contrib.gspar import least_sent
from compressors.kernels.noise import words
from tests.support.generators import decoded

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


def test_what_is_likely_keeps_its_value_and_the_rest_has_one_magnitude() -> None:
    x = {"w": torch.from_numpy(np.random.default_rng(2).standard_t(2, 5000).astype(np.float32))}
    packet, _ = compress(parse("gspar(0.1) | float32 | golomb"), x, seed=3)
    sent = packet.sent["w"]
    own = x["w"][sent.indices]
    same = sent.values == own
    assert 0 < int(same.sum()) < sent.count
    assert len(sent.values[~same].abs().unique()) == 1
    assert torch.equal(sent.values.sign(), own.sign())
    assert bool((sent.values.abs() >= own.abs()).all())
    text = "gspar(0.1) | float32 | golomb"
    assert torch.equal(decoded(text, packet.payload, x)["w"], sent.decoded)


@pytest.mark.slow
def test_unbiased_with_the_variance_of_the_paper() -> None:
    """E C(x) = x, E||C(x) - x||^2 = sum x^2 (1 / p - 1): below uniform chances, within theory's."""
    x = torch.from_numpy(np.random.default_rng(5).standard_t(3, 400).astype(np.float32))
    method, draws = parse("gspar(0.1) | float32"), 1500
    found = np.stack(
        [compress(method, {"w": x}, seed=s)[0].sent["w"].decoded.numpy() for s in range(draws)]
    ).astype(np.float64)
    wanted = x.double().numpy()
    p = np.minimum(1, np.abs(wanted) / least_sent(x.abs().numpy(), 40))
    variance = (wanted**2 * (1 / p - 1)).sum()
    errors = ((found - wanted) ** 2).sum(1)
    assert abs(errors.mean() - variance) <= 5 * errors.std() / math.sqrt(draws)
    spread = np.sqrt(wanted**2 * (1 / p - 1) / draws)
    assert (np.abs(found.mean(0) - wanted) <= 6 * spread + 1e-5 * np.abs(wanted)).all()
    omega = bound(method, 400).omega
    assert omega == pytest.approx(9)
    assert variance / (wanted**2).sum() < 0.5 * omega
    counts = (found != 0).sum(1)
    assert abs(counts.mean() - 40) <= 5 * counts.std() / math.sqrt(draws)


def test_equal_entries_reach_the_bound() -> None:
    x, method = torch.ones(200), parse("gspar(0.25) | float32")
    errors = [
        float((compress(method, {"w": x}, seed=s)[0].sent["w"].decoded - x).square().sum()) / 200
        for s in range(400)
    ]
    assert np.mean(errors) == pytest.approx(bound(method, 200).omega, rel=0.05)


def test_few_entries_zeros_and_overflow() -> None:
    few = torch.tensor([0.0, -3.0, 0.0, 2.0])
    assert GSpar(0.5).select(few, 0)[0].tolist() == [1, 3]
    sent = compress(parse("gspar(0.5) | float32"), {"w": few})[0].sent["w"]
    assert torch.equal(sent.decoded, few)
    assert GSpar(0.5).select(torch.zeros(4), 0)[0].numel() == 0
    assert GSpar(1).select(torch.ones(3), 0)[0].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="gspar: p is 0: a fraction"):
        GSpar(0)
    huge = {"w": torch.full((100,), 3e38)}
    for seed in range(4):  # whether or not anything is drawn
        with pytest.raises(UpdateError, match="overflow float32"):
            compress(parse("gspar(0.01) | float32"), huge, seed=seed)
