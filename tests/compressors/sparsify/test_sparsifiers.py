"""Sparsifiers that follow from the data: each against its definition in plain numpy."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from compressors import Blocks, Dryden, Nonzero, Threshold, TopK, compress, parse
from compressors.kernels.sign import signs
from compressors.parts import Sparsifier

VALUES = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 2.0**-149, -(2.0**-149)]),
)
VECTORS = hnp.arrays(np.float32, st.integers(1, 150), elements=VALUES)
SHARES = st.sampled_from([1e-9, 0.01, 0.1, 0.3, 0.5, 0.999, 1.0])
edge_cases = [np.zeros(1), np.ones(1), np.zeros(40), np.full(40, -2.0), np.arange(-9, 9)]


def normal(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def chosen(part: Sparsifier, x: np.ndarray, seed: int = 0) -> list[int]:
    indices, scale = part.select(torch.from_numpy(np.asarray(x, np.float32)), seed)
    assert indices.dtype == torch.int64
    assert scale == 1.0
    return indices.tolist()


def nominal(p: float, n: int) -> int:
    return min(n, max(1, round(p * n)))


def top(keys: np.ndarray, k: int) -> list[int]:
    """The k largest keys that are above zero, ties to the lowest index."""
    order = np.lexsort((np.arange(keys.size), -keys))[:k]
    return sorted(i for i in order.tolist() if keys[i] > 0)


def by_side(x: np.ndarray, p: float) -> list[int]:
    """Dryden's rule, one sign after the other."""
    found = []
    for key in (x, -x):
        inside = int((key > 0).sum())
        found += top(key, nominal(p, inside)) if inside else []
    return sorted(found)


@given(VECTORS, SHARES)
@example(edge_cases[0], 0.5)
@example(edge_cases[1], 0.5)
@example(edge_cases[2], 0.5)
@example(edge_cases[3], 0.3)
@example(edge_cases[4], 1.0)
def test_dryden(x: np.ndarray, p: float) -> None:
    x = x.astype(np.float32)
    assert chosen(Dryden(p), x) == by_side(x, p)


@pytest.mark.parametrize("p", [1e-9, 0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("shift", [-9.0, -2.0, 0.0, 0.5, 9.0])
def test_dryden_with_a_sample_and_unequal_sides(p: float, shift: float) -> None:
    """Large enough for the sampled threshold; one side may be small, or missing."""
    x = normal(20_000, 1) + np.float32(shift)
    assert chosen(Dryden(p), x) == by_side(x, p)


@given(VECTORS, st.sampled_from([1e-45, 0.1, 1.0, 2.0, 1e30]))
@example(np.array([0.1, -0.1, np.nextafter(np.float32(0.1), np.float32(0))]), 0.1)
@example(np.array([0.7, -0.7]), 0.7)  # as a float32 0.7 is less than itself
def test_threshold(x: np.ndarray, t: float) -> None:
    x = x.astype(np.float32)
    expected = np.flatnonzero(np.abs(x) >= np.float32(t)).tolist()
    assert chosen(Threshold(t), x) == expected


def test_a_threshold_is_of_the_magnitude() -> None:
    """Not of max(x): a tensor of negative entries sends them too."""
    assert chosen(Threshold(1.0), np.array([-3.0, -0.5, -1.0])) == [0, 2]
    assert chosen(TopK(0.4), np.array([0.1, -3.0, 0.2, -2.0, 0.3])) == [1, 3]


@given(VECTORS)
def test_nonzero_is_lossless(x: np.ndarray) -> None:
    assert chosen(Nonzero(), x) == np.flatnonzero(x).tolist()
    packet, _ = compress(parse("nonzero | float32"), {"w": torch.tensor(x)})
    assert torch.equal(packet.sent["w"].decoded, torch.tensor(x))


def norms_of(x: np.ndarray, b: int) -> np.ndarray:
    return np.array([np.square(x[i : i + b], dtype=np.float64).sum() for i in range(0, x.size, b)])


@given(VECTORS, st.sampled_from([1, 2, 3, 8, 64, 10**12]))
def test_blocks_that_hold_something(x: np.ndarray, b: int) -> None:
    expected = [u for u in range(-(-x.size // b)) if x[u * b : (u + 1) * b].any()]
    assert chosen(Blocks(b), x) == chosen(Blocks(b, 1), x) == expected
    packet, _ = compress(parse(f"blocks({b}) | float32"), {"w": torch.tensor(x)})
    assert packet.sent["w"].count == sum(min(b, x.size - u * b) for u in expected)
    assert torch.equal(packet.sent["w"].decoded, torch.tensor(x))


@given(hnp.arrays(np.float32, st.integers(1, 99), elements=st.integers(-3, 3)), SHARES)
@pytest.mark.parametrize("b", [1, 3, 4, 7])
def test_blocks_of_the_largest_norm(b: int, x: np.ndarray, p: float) -> None:
    """Small whole numbers: norms are exact in any order of sums, and ties are many."""
    norms = norms_of(x, b)
    assert chosen(Blocks(b, p), x) == top(norms, nominal(p, norms.size))


def test_blocks_order_denormals_and_giants() -> None:
    """Squares of the smallest and the largest floats neither vanish nor overflow."""
    tiny, huge = np.float32(2.0**-149), np.finfo(np.float32).max
    assert chosen(Blocks(2, 0.5), np.array([tiny, 0, tiny, tiny, 0, 0, 0, 0])) == [0, 1]
    assert chosen(Blocks(2, 0.3), np.array([huge, 0, huge, huge, 0, 0])) == [1]


def test_a_block_costs_one_position() -> None:
    """8 of 100 blocks: at most 8 bits each, not 512 positions of single entries."""
    update = {"w": torch.zeros(64 * 100)}
    update["w"][: 64 * 8] = 1
    packet, _ = compress(parse("blocks(64) | float32"), update)
    assert packet.sent["w"].count == 512
    assert packet.spans["positions"] <= 8 * 8


def test_counts_are_nominal() -> None:
    assert [Dryden(0.01).count(n) for n in (0, 1, 149, 151)] == [0, 1, 1, 2]
    assert Threshold(1).count(10) == Nonzero().count(10) == Blocks(3).count(10) == 0
    assert Blocks(3, 0.1).count(30) == 3
    assert signs(np.array([1, -1, 0, -0.0, 5], np.float32)) == (2, 1)


def test_all_and_none_in_many_chunks() -> None:
    for n in (1, 4095, 4096, 4097, 50_000):
        assert chosen(Nonzero(), np.ones(n)) == list(range(n))
        assert chosen(Nonzero(), np.zeros(n)) == []
        assert chosen(Threshold(1), np.ones(n)) == list(range(n))
