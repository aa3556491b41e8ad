"""The k largest of many segments on a GPU: positions as the compiled loop finds them."""

import numpy as np
import pytest

from compressors.base import nominal_count
from compressors.kernels import select
from compressors.kernels.gpu import select as kernels
from compressors.kernels.gpu.layout import PROGRAM_BLOCK
from compressors.kernels.gpu.select import largest_of_segments
from tests.support.cases import cases
from tests.support.gpu import joined, looked_at, needs_triton

pytestmark = needs_triton
RNG = np.random.default_rng(7)
TINY = np.float32(1e-45)  # the least float32 above zero


def normal(n: int) -> np.ndarray:
    return RNG.normal(size=n).astype(np.float32)


INPUTS = {
    "nothing, one entry and few": [normal(0), normal(1), normal(2), normal(3), normal(0)],
    "around a block's edge": [
        normal(PROGRAM_BLOCK - 1),
        normal(PROGRAM_BLOCK),
        normal(PROGRAM_BLOCK + 1),
    ],
    "zeros, of both signs": [np.zeros(9), -np.zeros(5), np.append(np.zeros(40), [-1, 2])],
    "all equal": [np.full(PROGRAM_BLOCK + 3, 2.5), np.full(7, -1.0)],
    "ties over blocks": [RNG.integers(-2, 3, 2 * PROGRAM_BLOCK + 5)],
    "subnormals": [RNG.integers(-9, 10, 300) * TINY, np.array([TINY, -TINY, 0, 2 * TINY])],
    "keys that differ in their last bits alone": [
        (1 + RNG.integers(0, 2000, 3000) * 2.0**-23) * RNG.choice([-1, 1], 3000)
    ],
    "the largest and the least float32": [np.array([3.4028235e38, -3.4028235e38, TINY, 1e-38])],
}


def agree(parts: list[np.ndarray], p: float | list[int], sides: int) -> None:
    """``p``: the share of each segment, or how many of each."""
    parts = [np.ascontiguousarray(part, np.float32) for part in parts]
    if isinstance(p, list):
        k = np.array(p)
    else:
        k = np.array([nominal_count(p, part.size) if part.size else 0 for part in parts])
    flat, layout = joined(parts)
    found = largest_of_segments(flat, layout, k, sides)
    positions, counts = found.positions.cpu().numpy(), found.counts.cpu().numpy()
    sums, base = found.sums.cpu().numpy(), np.cumsum(k) - k
    for s, x in enumerate(parts):
        for side in range(sides):
            start = side * found.room + base[s]
            expected = select.select_largest(x, k[s], side if sides == 1 else side + 1)
            assert positions[start : start + counts[s, side]].tolist() == expected.tolist()
            exact = np.abs(x[expected].astype(np.float64)).sum()
            assert sums[s, side] == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("name", INPUTS)
def test_the_largest_of_either_sign(name: str) -> None:
    agree(INPUTS[name], 0.3, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_the_largest_above_zero_and_the_smallest_below(name: str) -> None:
    agree(INPUTS[name], 0.3, 2)


def test_every_entry() -> None:
    agree([normal(5), np.zeros(3), normal(600)], 1.0, 1)


@pytest.mark.parametrize("seed", range(3))
def test_sizes_and_shares_by_chance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [(rng.normal(size=n) ** 3).astype(np.float32) for n in rng.integers(0, 900, 5)]
    agree(parts, float(rng.uniform(0.001, 0.9)), 1 + seed % 2)


SMALL = {
    "_SAMPLE": 16,
    "_GROUP": 64,
    "_WORDS": 1,
    "_PART": 32,
    "_ROOM": 8,
    "_CHUNK": 16,
    "_GROUPS": 2,
}


def large_at(places: np.ndarray, n: int = 130) -> np.ndarray:
    x = normal(n) * np.float32(0.01)
    x[places] = 5 + np.arange(places.size) % 7
    return x


SEEN = looked_at(130, SMALL["_SAMPLE"])
UNSEEN = np.setdiff1d(np.arange(130), SEEN)
MISLEADING = {
    "large where the sample looks": large_at(SEEN),
    "large where it does not": large_at(UNSEEN[::9]),
    "below zero where it looks": -large_at(SEEN),
    "ties": np.sign(normal(130)) * np.append(np.ones(99), np.full(31, 2)),
    "all equal": np.full(70, -2.5),
    "mostly zeros": np.where(np.arange(130) % 50 == 3, normal(130), 0),
    "one side alone": np.abs(normal(90)),
    "tiny": normal(2),
    "nothing": normal(0),
    "no more than the sample": normal(16),
    "one more": normal(17),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short tensors are sampled, and several programs handle each."""
    for name, value in SMALL.items():
        monkeypatch.setattr(kernels, name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("sides", cases({"1": 1, "2": 2}, quick=["2"]))
def test_a_sample_that_misleads_changes_nothing(sides: int) -> None:
    agree([*MISLEADING.values()], 0.1, sides)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_one_entry_and_every_entry_of_a_sampled_segment() -> None:
    for sides, parts in ((1, [normal(66)] * 2 + [large_at(SEEN)]), (2, [np.abs(normal(66))] * 3)):
        agree(parts, [1, parts[1].size, parts[2].size - 1], sides)
