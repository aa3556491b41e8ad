"""Random sparsifiers: their statistics over fixed seeds, and what travels of them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compressors import Bernoulli, RandK, RTopK, TopK, compress, parse, text
from tests.support.generators import decoded, same_bits, smallest_words

CPU = torch.device("cpu")
SEEDS = st.integers(0, 2**32 - 1)


X = np.random.default_rng(4).standard_normal(60).astype(np.float32)
X[::10] = 0


def draws(method: str, seeds: int) -> np.ndarray:
    """What a receiver has of ``X``, once a seed: (seeds, 60) in float64."""
    part = parse(method).codec.sparsify
    found = np.zeros((seeds, X.size))
    for seed in range(seeds):
        indices, scale = part.select(torch.tensor(X), seed)
        found[seed, indices.numpy()] = X[indices.numpy()] * scale
    return found


@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 2), (60, 18), (61, 18)])
def test_the_factor_is_of_the_true_number(n: int, k: int) -> None:
    """n / k with the k that is sent, not 1 / p."""
    indices, scale = RandK(0.3).select(torch.ones(n), 0)
    assert (indices.numel(), scale) == (k, n / k)
    assert RandK(0.3, scaled=False).select(torch.ones(n), 0)[1] == 1.0
    assert Bernoulli(0.25).select(torch.ones(n), 0)[1] == 4.0
    assert Bernoulli(0.25, scaled=False).select(torch.ones(n), 0)[1] == 1.0


def test_bernoulli_sends_a_binomial_number() -> None:
    """n q = 300, sigma = 16.4; 400 seeds: the mean within 4 * 0.82, the deviation within 15 %.

    The standard error of a deviation over 400 draws is 1 / sqrt(800) = 3.5 % of it: four.
    """
    counts = [Bernoulli(0.1).places(3000, seed).numel() for seed in range(400)]
    assert abs(np.mean(counts) - 300) < 4 * math.sqrt(270 / 400)
    assert abs(np.std(counts) / math.sqrt(270) - 1) < 0.15


@pytest.mark.parametrize("name", ["randk", "bernoulli"])
def test_positions_travel_or_the_seed_does(name: str) -> None:
    """The same entries either way, for the same seed."""
    update = {"a": torch.tensor(X), "b": torch.tensor(X[:7])}
    seeded, written = (parse(f"{name}(0.2, seeded={s}) | float32") for s in ("true", "false"))
    first, second = (compress(c, update, seed=3)[0] for c in (seeded, written))
    for packet in (first, second):
        assert packet.sent["a"].count > 0
    assert seeded.needs_seed
    assert not written.needs_seed
    assert first.spans["positions"] == 0 < second.spans["positions"]
    assert first.spans["header"] == 56 > second.spans["header"]
    for method, packet in ((seeded, first), (written, second)):
        got = decoded(text(method), packet.payload, update)
        assert same_bits(got, {key: one.decoded for key, one in second.sent.items()})


def test_positions_follow_from_the_seed_alone() -> None:
    """Zeros are sent too: an all-zero tensor costs what any other does."""
    method = parse("randk(0.2) | float32")
    full = compress(method, {"w": torch.tensor(X)}, seed=9)[0]
    empty = compress(method, {"w": torch.zeros(60)}, seed=9)[0]
    assert torch.equal(full.sent["w"].indices, empty.sent["w"].indices)
    assert full.sent["w"].count == 12
    assert len(full.payload) == len(empty.payload) == 7 + 12 * 4
    other = compress(method, {"w": torch.tensor(X)}, seed=10)[0]
    assert not torch.equal(full.sent["w"].indices, other.sent["w"].indices)


def test_equal_tensors_of_a_message_are_drawn_apart() -> None:
    update = {name: torch.tensor(X) for name in "abc"}
    sent = compress(parse("randk(0.2) | float32"), update, seed=1)[0].sent
    assert len({tuple(one.indices.tolist()) for one in sent.values()}) == 3


@pytest.mark.parametrize("part", [RandK(0.1), Bernoulli(0.1), RTopK(0.1, 0.5), TopK(0.01, 0.001)])
def test_no_global_generator_is_moved(part: RandK) -> None:
    x = torch.linspace(-1, 1, 5000)
    torch.manual_seed(5)
    np.random.seed(5)
    here, there = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = part.select(x, 1)[0]
    assert torch.equal(here, torch.get_rng_state())
    assert np.array_equal(there, np.random.get_state()[1])
    torch.manual_seed(6)
    assert torch.equal(first, part.select(x, 1)[0])


@given(st.integers(1, 400), SEEDS, st.sampled_from([(0.01, 0.1), (0.1, 0.1), (0.2, 1.0)]))
@pytest.mark.parametrize("zeros", [0.0, 0.9, 1.0])
def test_rtopk_by_its_definition(
    zeros: float, n: int, seed: int, shares: tuple[float, float]
) -> None:
    p, m = shares
    rng = np.random.default_rng(n)
    x = (rng.standard_normal(n) * (rng.random(n) >= zeros)).astype(np.float32)
    k, widest = (min(n, max(1, round(share * n))) for share in (p, m))
    order = np.lexsort((np.arange(n), -np.abs(x)))[:widest]
    top = np.sort(order[x[order] != 0])
    kept = min(k, top.size)
    expected = top[smallest_words(top.size, kept, seed)].tolist() if kept else []
    for scaled in (False, True):
        indices, scale = RTopK(p, m, scaled).select(torch.tensor(x), seed)
        assert indices.tolist() == expected
        assert scale == (top.size / kept if scaled and kept else 1.0)


def test_rtopk_is_unbiased_about_the_top() -> None:
    """Means within 4.5 standard errors of topk(m); what is not among the m is never sent."""
    found = draws("rtopk(0.1, 0.4, scaled=true) | float32", 2000)
    top = np.zeros(X.size)
    inside = TopK(0.4).select(torch.tensor(X), 0)[0].numpy()
    top[inside] = X[inside]
    error = np.abs(top) * math.sqrt((4 - 1) / 2000)
    assert (np.abs(found.mean(0) - top) <= 4.5 * error + 1e-9).all()


def test_rtopk_with_equal_shares_is_topk() -> None:
    x = torch.tensor(X)
    for seed in range(5):
        assert torch.equal(RTopK(0.2, 0.2).select(x, seed)[0], TopK(0.2).select(x, 0)[0])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: RandK(0), "randk: p is 0"),
        (lambda: RandK(0.1, scaled=2), "randk: scaled is 2: give true or false"),
        (lambda: RandK(0.1, seeded="no"), "randk: seeded is 'no'"),
        (lambda: Bernoulli(1.1), "bernoulli: q is 1.1"),
        (lambda: Bernoulli(0.1, seeded=None), "bernoulli: seeded is None"),
        (lambda: RTopK(0, 0.1), "rtopk: p is 0"),
        (lambda: RTopK(0.1, 2), "rtopk: m is 2"),
        (lambda: RTopK(0.1, 0.2, scaled=1), "rtopk: scaled is 1"),
    ],
)
def test_bad_settings_are_named(make, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()


def test_counts_are_nominal() -> None:
    for part in (RandK(0.01), Bernoulli(0.01), RTopK(0.01, 0.5)):
        assert [part.count(n) for n in (0, 1, 149, 151)] == [0, 1, 1, 2]
