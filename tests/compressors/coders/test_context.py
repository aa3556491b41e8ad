"""Context-adaptive positions: exact, close to the bound, better where a matrix has structure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitReader, Context, Golomb, PayloadError
from tests.support.generators import matrix, uniform
from tests.support.positions import round_trip


def bits_of(indices: np.ndarray, n: int, before: int = 0) -> int:
    """Bits taken behind ``before`` others; they are read back, and no bit more."""
    return len(round_trip(Context(), indices.tolist(), n, "1" * before))


@given(
    n=st.integers(1, 3000),
    share=st.sampled_from([0.001, 0.01, 0.1, 0.2, 0.5, 1.0]),
    seed=st.integers(0, 2**16),
    before=st.integers(0, 64),
)
def test_any_pattern_survives(n: int, share: float, seed: int, before: int) -> None:
    k = min(n, max(1, round(n * share)))
    bits_of(uniform(n, k, seed), n, before)


@pytest.mark.parametrize("shape", [(500, 800), (800, 500), (64, 288), (1024, 64)])
@pytest.mark.parametrize("p", [0.01, 0.001])
def test_a_matrix_of_unlike_rows_and_columns_costs_less(shape: tuple[int, int], p: float) -> None:
    """Both sides have log-normal rates of sigma 1: a tenth below Golomb where it can be learnt."""
    indices, n = matrix(*shape, p), shape[0] * shape[1]
    taken = bits_of(indices, n)
    assert taken < (0.9 if indices.size > 1000 else 1) * Golomb().position_bits(indices, n) + 8


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
    assert bits_of(indices, n) == plain + (n != 399_989 and 4 * k <= n)


def test_by_hand() -> None:
    """One entry of 16, k / n = 1/16: m = 11, c = 4, 5 short remainders; 5 is 0 and 1010."""
    assert round_trip(Context(), [5], 16) == "01010"


def test_a_width_that_is_none_is_refused() -> None:
    """6400 has 12 widths, told in 4 bits: 15 is none."""
    with pytest.raises(PayloadError, match="width number 15 of 12"):
        Context().read_positions(BitReader(bytes([0b11111000, *range(50)])), 6400, 64, 0)
