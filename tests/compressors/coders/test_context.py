"""Context-adaptive positions: exact, close to the bound, better where a matrix has structure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitReader, BitWriter, Context, Golomb, PayloadError
from tests.support.generators import matrix, uniform


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
    [
        ([0], 1),
        ([0, 1, 2, 3], 4),
        ([0], 2**40),
        ([2**40 - 1], 2**40),
        ([0, 2**31], 2**31 + 1),
        ([0, 2**46 - 1], 2**46),
        (list(range(4096)), 4096),
        (list(range(5000)), 5000),
        (list(range(64)), 6400),
        (list(range(6336, 6400)), 6400),
    ],
)
def test_edges(indices: list[int], n: int) -> None:
    there_and_back(np.array(indices, np.int64), n)


def test_nothing_is_nothing() -> None:
    assert there_and_back(np.empty(0, np.int64), 10) == 0


@pytest.mark.parametrize("shape", [(500, 800), (800, 500), (64, 288), (1024, 64)])
@pytest.mark.parametrize("p", [0.01, 0.001])
def test_a_matrix_of_unlike_rows_and_columns_costs_less(shape: tuple[int, int], p: float) -> None:
    """Both sides have log-normal rates of sigma 1: a tenth below Golomb where it can be learnt."""
    indices, n = matrix(*shape, p), shape[0] * shape[1]
    taken = there_and_back(indices, n)
    assert taken < (0.9 if indices.size > 1000 else 1) * golomb_bits(indices, n) + 8


@pytest.mark.parametrize(
    ("n", "k"),
    [
        (400_000, 4000),
        (400_000, 400),
        (25_000, 250),
        (10**6, 10**4),
        (399_989, 4000),
        (10**5, 10**4),
        (5000, 8),
        (4000, 1001),
        (10**5, 9 * 10**4),
    ],
)
def test_random_positions_cost_a_bit_more_than_golomb(n: int, k: int) -> None:
    """No grid is worth its cost, and one bit says so; 4 k > n and k < 8 need none."""
    indices = uniform(n, k)
    plain = Golomb(kind="exact").position_bits(indices, n)
    assert there_and_back(indices, n) == plain + (n != 399_989 and 4 * k <= n)


@pytest.mark.parametrize("n", [10, 32, 250, 5000, 25_000])
@pytest.mark.parametrize("k", [1, 2, 5, 7])
def test_few_entries_cost_what_golomb_takes(n: int, k: int) -> None:
    for seed in range(20):
        indices = uniform(n, k, seed)
        assert there_and_back(indices, n) == Golomb(kind="exact").position_bits(indices, n)


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
    [
        (matrix(50, 80, 0.05), 4000),
        (uniform(400_000, 400), 400_000),
        (uniform(50_000, 5000), 50_000),
    ],
)
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
    """One entry of 16, k / n = 1/16: m = 11, c = 4, 5 short remainders; 5 is 0 and 1010."""
    assert encoded(np.array([5]), 16) == (bytes([0b01010000]), 5)


def test_a_width_that_is_none_is_refused() -> None:
    """6400 has 12 widths, told in 4 bits: 15 is none."""
    with pytest.raises(PayloadError, match="width number 15 of 12"):
        Context().read_positions(BitReader(bytes([0b11111000, *range(50)])), 6400, 64, 0)
