"""Random sparsifiers: their statistics over fixed seeds, and what travels of them."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from compressors import Bernoulli, RandK, RTopK, compress, parse, text
from compressors.kernels import sample
from compressors.kernels.noise import words
from compressors.sparsify.randk import drawn
from tests.support.generators import decoded, same_bits, smallest_words

SEEDS = st.integers(0, 2**32 - 1)
X = np.random.default_rng(4).standard_normal(60).astype(np.float32)
X[::10] = 0


@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 2), (60, 18), (61, 18)])
def test_the_factor_is_of_the_true_number(n: int, k: int) -> None:
    """n / k with the k that is sent, not 1 / p."""
    indices, scale = RandK(0.3).select(torch.ones(n), 0)
    assert (indices.numel(), scale) == (k, n / k)
    assert RandK(0.3, scaled=False).select(torch.ones(n), 0)[1] == 1.0
    assert Bernoulli(0.25).select(torch.ones(n), 0)[1] == 4.0
    assert Bernoulli(0.25, scaled=False).select(torch.ones(n), 0)[1] == 1.0


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


def test_counts_are_nominal() -> None:
    for part in (RandK(0.01), Bernoulli(0.01), RTopK(0.01, 0.5)):
        assert [part.count(n) for n in (0, 1, 149, 151)] == [0, 1, 1, 2]


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
