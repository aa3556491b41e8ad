"""What context-adaptive positions stand on: a grid, counts, weights and a range coder."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from compressors.kernels import grid
from compressors.kernels.context import counts, race, weights
from compressors.kernels.context import rangecoder as rc
from tests.support.generators import matrix, uniform


@pytest.mark.parametrize("shape", [(500, 800), (800, 500), (1024, 256), (65, 256)])
def test_the_width_is_found(shape: tuple[int, int]) -> None:
    n = shape[0] * shape[1]
    widths = grid.divisors(n, 12)
    at, prior, saved = grid.best_grid(matrix(*shape, 0.02), n, widths, np.array([100.0, 1.0]))
    assert widths[at] == shape[1]
    assert prior == 1
    assert saved > 100


@pytest.mark.parametrize("shape", [(3, 5), (64, 4), (4, 64), (50, 500)])
def test_a_turned_grid_turns_back(shape: tuple[int, int]) -> None:
    rows, width = shape
    indices = uniform(rows * width, rows * width // 3)
    mask = np.zeros(shape, bool)
    mask.flat[indices] = True
    turned = grid.turn(indices, rows, width)
    assert turned.tolist() == np.flatnonzero(mask.T).tolist()
    assert grid.turn(turned, width, rows).tolist() == indices.tolist()


def test_divisors_are_those_nearest_the_root() -> None:
    assert grid.divisors(5000, 6).tolist() == [100, 50, 125, 40, 200, 25]
    assert grid.divisors(101, 6).tolist() == []


@njit(cache=True)
def write_shares(shares, position, words):
    """Shares (start, size, total) through the range coder; the bit after the last."""
    state = rc.start_write(position)
    for i in range(shares.shape[0]):
        state = rc.write_share(state, words, shares[i, 0], shares[i, 1], shares[i, 2])
    return rc.finish_write(state, words)


@njit(cache=True)
def read_shares(shares, position, end, words):
    """The bit after the last, or -2 where another share was read than written."""
    state = rc.start_read(words, position, end)
    for i in range(shares.shape[0]):
        share = rc.peek_share(state, shares[i, 2])
        if share < shares[i, 0] or share >= shares[i, 0] + shares[i, 1]:
            return -2
        state = rc.read_share(state, words, end, shares[i, 0], shares[i, 1], shares[i, 2])
    return rc.finish_read(state, end)


@njit(cache=True)
def write_counts(sent, mean, words):
    """Counts up to 3000 through the range coder; the bit after the last."""
    state = rc.start_write(0)
    shift, frequencies = counts.table(mean)
    for count in sent:
        state = counts.write_count(state, words, count, 3000, shift, frequencies)
    return rc.finish_write(state, words)


@njit(cache=True)
def read_counts(sent, mean, end, words):
    """The bit after the last, or -2 where another count was read than written."""
    state = rc.start_read(words, 0, end)
    shift, frequencies = counts.table(mean)
    for count in sent:
        found, state = counts.read_count(state, words, end, 3000, shift, frequencies)
        if found != count:
            return -2
    return rc.finish_read(state, end)


def check_shares(shares: list[tuple[int, int, int]], position: int) -> None:
    """There and back, an end that is missed, and at most 2 bits and 0.1 % above the information."""
    table = np.array(shares, np.uint64).reshape(-1, 3)
    words = np.zeros(len(shares) + 8, np.uint64)
    end = write_shares(table, position, words)
    assert read_shares(table, position, end, words) == end
    assert read_shares(table, position, end - 1, words) in (-1, -2)
    ideal = sum(math.log2(total / size) for _, size, total in shares)
    assert end - position <= 1.001 * ideal + 2.001


@st.composite
def some_shares(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    shares = []
    for total in draw(st.lists(st.sampled_from([2, 3, 1000, 2**16, 2**31, 2**32]), max_size=100)):
        start = draw(st.integers(0, total - 1))
        shares.append((start, draw(st.integers(1, total - start)), total))
    return shares


@given(some_shares(), st.integers(0, 70))
def test_the_range_coder_is_exact_and_ends_within_two_bits(
    shares: list[tuple[int, int, int]], position: int
) -> None:
    check_shares(shares, position)


def test_a_carry_runs_through_many_words() -> None:
    """(2**32 - 1) / 2**32 twenty times is a row of ones; what is added later may carry through."""
    ones = [(2**32 - 1, 1, 2**32)] * 20
    for last in ([(2**31, 2**31, 2**32)] * 40, [(2, 1, 3)] * 40, [(998, 2, 1000)] * 40):
        check_shares([(0, 1, 3), *ones, *last], 3)


def class_of(m: int) -> tuple[int, np.uint64]:
    """As kernels pass it on; what numba hands to Python would be signed."""
    c, zoom = race.class_of(m)
    return c, np.uint64(zoom)


@pytest.mark.parametrize("m", [2, 3, 15, 16, 17, 31, 32, 100, 4096, 10**6])
@pytest.mark.parametrize("total", [1, 7, 3000, 1 << 14, 1 << 22])
def test_shares_of_masses_grow_strictly_and_are_found_again(m: int, total: int) -> None:
    c, zoom = class_of(m)
    scale = np.uint64(race.scale_of(total))
    places = range(min(total, 300))
    places = sorted({*places, *(total - 1 - place for place in places)})
    shares = [int(race.before(np.uint64(s), scale, c, zoom)) for s in places]
    assert all(a < b for a, b in zip(shares, [*shares[1:], 1 << 31], strict=True))
    for s, share in zip(places, shares, strict=True):
        assert abs(race.guess(np.uint64(share), total, c, zoom) - s) <= 1


@pytest.mark.parametrize("m", [2, 8, 16, 40, 1000])
def test_shares_are_those_of_the_first_of_m_draws(m: int) -> None:
    """1 - (1 - s)**m within 2 %: pieces, classes of m, and the least slope."""
    c, zoom = class_of(m)
    scale = np.uint64(race.scale_of(1 << 20))
    for s in np.linspace(0.01, min(m, 3), 50) / m:
        share = int(race.before(np.uint64(s * (1 << 20)), scale, c, zoom))
        assert share / 2**31 == pytest.approx(1 - (1 - s) ** m, abs=0.02)


@given(st.integers(1, 700), st.integers(1, 16), st.lists(st.integers(0, 699), max_size=300))
def test_columns_are_found_by_mass(width: int, gain: int, columns: list[int]) -> None:
    """Whatever was added, and however long ago the guide was made."""
    urn, span = weights.make_urn(width, 3)
    held = np.full(width, 3)
    weights.guide(urn, span, int(held.sum()))
    for column in columns:
        weights.add_weight(urn, span, column % width, gain, weights.SIZE)
        held[column % width] += gain
    total, ends = int(held.sum()), np.cumsum(held)
    for column in {0, width // 3, width - 1}:
        assert weights.place(urn, span, column) == (ends[column] - held[column], ends[column])
    for _ in range(2):
        for mass in {0, total - 1, total // 2, total // 3}:
            found = weights.find(urn, span, mass, total)
            assert ends[found] - held[found] <= mass < ends[found]
        weights.guide(urn, span, total)


@pytest.mark.slow
@given(st.lists(st.integers(0, 3000), max_size=200), st.sampled_from([0.001, 1.0, 8.0, 50.0, 1e3]))
def test_counts_survive(sent: list[int], mean: float) -> None:
    words = np.zeros(2 * len(sent) + 8, np.uint64)
    end = write_counts(np.array(sent, np.int64), mean, words)
    assert read_counts(np.array(sent, np.int64), mean, end, words) == end
