"""Context-adaptive positions: exact, close to the bound, better where a matrix has structure."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from compressors import BitReader, BitWriter, Context, Golomb, PayloadError
from compressors.kernels import grid, race, weights
from compressors.kernels import rangecoder as rc


def encoded(indices: np.ndarray, n: int, before: int = 0) -> tuple[bytes, int]:
    """The bytes behind ``before`` bits, and how many bits the positions took."""
    out = BitWriter()
    out.uint((1 << before) - 1, before)
    rebuilt = Context().write_positions(indices, n, out, 0)
    assert rebuilt.tolist() == indices.tolist()
    return out.to_bytes(), out.position - before


def there_and_back(indices: np.ndarray, n: int, before: int = 0) -> int:
    """Bits taken; checks the indices, and that the reader stops at the very bit."""
    payload, taken = encoded(indices, n, before)
    bits = BitReader(payload + b"\xff" * 9)
    assert bits.uint(before) == (1 << before) - 1
    found = Context().read_positions(bits, n, indices.size, 0)
    assert found.dtype == np.int64
    assert found.tolist() == indices.tolist()
    assert bits.position == before + taken
    return taken


def golomb_bits(indices: np.ndarray, n: int) -> int:
    out = BitWriter()
    Golomb().write_positions(indices, n, out, 0)
    return out.position


def bound(n: int, k: int) -> float:
    """log2 of (n choose k)."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)


def uniform(n: int, k: int, seed: int = 0) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).choice(n, k, replace=False)).astype(np.int64)


def matrix(rows: int, columns: int, p: float, seed: int = 0) -> np.ndarray:
    """Positions in a matrix whose rows and columns send log-normally unlike amounts."""
    rng = np.random.default_rng(seed)
    rate = np.exp(rng.normal(size=(rows, 1)) + rng.normal(size=(1, columns)))
    sent = rng.random((rows, columns)) < rate * p / rate.mean()
    return np.flatnonzero(sent)


@given(
    n=st.integers(1, 3000),
    share=st.sampled_from([0.001, 0.01, 0.1, 0.2, 0.5, 1.0]),
    seed=st.integers(0, 2**16),
    before=st.integers(0, 64),
)
def test_any_pattern_survives(n: int, share: float, seed: int, before: int) -> None:
    k = min(n, max(1, round(n * share)))
    there_and_back(uniform(n, k, seed), n, before)


@given(st.lists(st.integers(0, 2**46 - 1), min_size=1, max_size=30, unique=True))
def test_gaps_of_any_length_survive(indices: list[int]) -> None:
    there_and_back(np.array(sorted(indices), np.int64), 2**46)


@pytest.mark.parametrize(
    ("indices", "n"),
    [([0], 1), ([0, 1, 2, 3], 4), ([0], 2**40), ([2**40 - 1], 2**40), ([0, 2**31], 2**31 + 1),
     ([0, 2**46 - 1], 2**46), (list(range(4096)), 4096), (list(range(5000)), 5000),
     (list(range(64)), 6400), (list(range(6336, 6400)), 6400)],
)  # fmt: skip
def test_edges(indices: list[int], n: int) -> None:
    there_and_back(np.array(indices, np.int64), n)


def test_nothing_is_nothing() -> None:
    assert there_and_back(np.empty(0, np.int64), 10) == 0


def test_too_large_a_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2\*\*46"):
        encoded(np.array([0]), 2**46 + 1)
    with pytest.raises(PayloadError, match=r"2\*\*46"):
        Context().read_positions(BitReader(bytes(8)), 2**46 + 1, 1, 0)


@pytest.mark.parametrize("shape", [(500, 800), (800, 500), (64, 288), (1024, 64)])
@pytest.mark.parametrize("p", [0.01, 0.001])
def test_a_matrix_of_unlike_rows_and_columns_costs_less(shape: tuple[int, int], p: float) -> None:
    """Both sides have log-normal rates of sigma 1: a tenth below Golomb where it can be learnt."""
    indices, n = matrix(*shape, p), shape[0] * shape[1]
    taken = there_and_back(indices, n)
    assert taken < (0.9 if indices.size > 1000 else 1) * golomb_bits(indices, n) + 8


@pytest.mark.parametrize(
    ("n", "k"),
    [(400_000, 4000), (400_000, 400), (25_000, 250), (10**6, 10**4), (399_989, 4000),
     (10**5, 10**4)],
)  # fmt: skip
def test_random_positions_cost_the_bound(n: int, k: int) -> None:
    """At most 2 % and 3 bits above log2 of (n choose k)."""
    assert there_and_back(uniform(n, k), n) < 1.02 * bound(n, k) + 3


@pytest.mark.parametrize("n", [10, 32, 250, 5000, 25_000])
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_few_entries_lose_little_against_golomb(n: int, k: int) -> None:
    for seed in range(20):
        indices = uniform(n, k, seed)
        assert there_and_back(indices, n) <= golomb_bits(indices, n) + 8


def test_the_width_is_found() -> None:
    indices = matrix(500, 800, 0.01)
    widths = grid.divisors(400_000, 16)
    at, prior, saved = grid.best(indices, 400_000, widths, np.array([1.0]), indices.size)
    assert widths[at] == 800
    assert prior == 0
    assert saved > 1000


def test_divisors_are_those_nearest_the_root() -> None:
    assert grid.divisors(5000, 6).tolist() == [100, 50, 125, 40, 200, 25]
    assert grid.divisors(101, 6).tolist() == []


@njit
def write_shares(shares, position, words):
    """Shares (start, size, total) through the range coder; the bit after the last."""
    state = rc.start_write(position)
    for i in range(shares.shape[0]):
        state = rc.write_share(state, words, shares[i, 0], shares[i, 1], shares[i, 2])
    return rc.finish_write(state, words)


@njit
def read_shares(shares, position, end, words):
    """The bit after the last, or -2 where another share was read than written."""
    state = rc.start_read(words, position, end)
    for i in range(shares.shape[0]):
        share = rc.peek_share(state, shares[i, 2])
        if share < shares[i, 0] or share >= shares[i, 0] + shares[i, 1]:
            return -2
        state = rc.read_share(state, words, end, shares[i, 0], shares[i, 1], shares[i, 2])
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


def piecewise(m: int, total: int) -> tuple[np.ndarray, np.uint64, np.uint64]:
    """What ``race.before`` takes beside a mass; Python's integers would be signed."""
    c, zoom = race.class_of(m)
    return race.TABLE[c], np.uint64(race.scale_of(total)), np.uint64(zoom)


@pytest.mark.parametrize("m", [2, 3, 15, 16, 17, 31, 32, 100, 4096, 10**6])
@pytest.mark.parametrize("total", [1, 7, 3000, 1 << 14, 1 << 22])
def test_shares_of_masses_grow_strictly(m: int, total: int) -> None:
    row, scale, zoom = piecewise(m, total)
    places = range(min(total, 300))
    places = sorted({*places, *(total - 1 - place for place in places)})
    shares = [int(race.before(np.uint64(s), scale, row, zoom)) for s in places]
    assert all(a < b for a, b in zip(shares, [*shares[1:], 1 << 31], strict=True))
    for s, share in zip(places, shares, strict=True):
        assert race.invert(np.uint64(share), total, scale, row, zoom) == s


@pytest.mark.parametrize("m", [2, 8, 16, 40, 1000])
def test_shares_are_those_of_the_first_of_m_draws(m: int) -> None:
    """1 - (1 - s)**m within 2 %: pieces, classes of m, and the least slope."""
    row, scale, zoom = piecewise(m, 1 << 20)
    for s in np.linspace(0.01, min(m, 3), 50) / m:
        share = int(race.before(np.uint64(s * (1 << 20)), scale, row, zoom))
        assert share / 2**31 == pytest.approx(1 - (1 - s) ** m, abs=0.02)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=600))
def test_columns_are_found_by_mass(grown: list[int]) -> None:
    held, sums, slots, facts = weights.make(len(grown), 1)
    held += np.array(grown)
    weights.refresh(held, sums, slots, facts)
    total = int(sums[-1])
    assert total == held.sum()
    for mass in {0, total - 1, total // 2, total // 3}:
        column = weights.find(sums, slots, facts[0], mass)
        assert sums[column] <= mass < sums[column + 1]


def _mutated(payload: bytes, rng: np.random.Generator) -> bytes:
    kind = rng.integers(3)
    if kind == 0:
        return payload[: rng.integers(len(payload))]
    if kind == 1:
        return rng.bytes(int(rng.integers(1, 40)))
    changed = bytearray(payload)
    changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


@pytest.mark.parametrize(
    ("indices", "n"),
    [(matrix(50, 80, 0.05), 4000), (uniform(400_000, 400), 400_000),
     (uniform(50_000, 5000), 50_000)],
)  # fmt: skip
def test_wrong_bits_are_refused_or_legal(indices: np.ndarray, n: int) -> None:
    payload, _ = encoded(indices, n)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(350):
        bits = BitReader(_mutated(payload, rng))
        try:
            found = Context().read_positions(bits, n, indices.size, 0)
        except PayloadError:
            refused += 1
        else:
            assert bits.position <= bits.end
            assert found[0] >= 0
            assert found[-1] < n
            assert (np.diff(found) > 0).all()
    assert refused > 100  # the truncated and the short ones


def test_by_hand() -> None:
    """One entry of 16: 4 bits of place, 2 of the end. Place 5 begins at 5/16 = 0101."""
    payload, taken = encoded(np.array([5]), 16)
    assert taken == 6
    assert payload == bytes([0b01010100]) or payload[0] >> 4 == 0b0101
