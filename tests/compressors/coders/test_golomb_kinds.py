"""Golomb codes of any m, fitted Rice codes, and the split order, against their formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitWriter, Golomb
from compressors.coders.golomb import fitted_parameter, golomb_parameter
from fedsim.measure.theory.positions import golomb_bits
from tests.support.positions import round_trip


def test_golomb_parameters() -> None:
    """methods.md's, and the best of all by their exact costs, for densities of all sizes."""
    assert [golomb_parameter(p) for p in (0.1, 0.01, 0.001)] == [7, 69, 693]
    assert golomb_parameter(1) == golomb_parameter(0.9) == 1
    assert golomb_bits(0.01, 69) == pytest.approx(8.10501, abs=5e-6)
    assert golomb_bits(0.001, 693) == pytest.approx(11.43589, abs=5e-6)
    for p in np.geomspace(2e-3, 0.999, 60).tolist():
        m = golomb_parameter(p)
        best = min(golomb_bits(p, other) for other in range(1, 2 * m + 20))
        assert golomb_bits(p, m) <= best * (1 + 1e-12), p


@given(st.sets(st.integers(0, 10**6), min_size=1, max_size=60), st.sampled_from((1, 37, 10**9)))
def test_fitted_parameters_are_the_best(indices: set[int], stride: int) -> None:
    """Against all of them, by the length of the Rice codes written out."""
    array = np.array(sorted(indices), np.int64) * stride
    gaps = np.diff(array, prepend=-1) - 1
    cost = [int((gaps >> b).sum()) + (1 + b) * gaps.size for b in range(60)]
    assert cost[fitted_parameter(array)] == min(cost)
    assert fitted_parameter(array) == cost.index(min(cost))


@pytest.mark.parametrize("kind", ["rice", "exact", "fit"])
@given(st.sets(st.integers(0, 3000), min_size=1, max_size=50), st.integers(1, 10**6))
def test_split_is_as_long_as_interleaved(kind: str, indices: set[int], room: int) -> None:
    known, n = sorted(indices), max(indices) + room
    both = [round_trip(Golomb(None, kind, order), known, n) for order in ("interleaved", "split")]
    assert len(both[0]) == len(both[1])
    assert sorted(both[0]) == sorted(both[1])


def test_exact_quotients_at_multiples_of_m() -> None:
    """Gaps next to multiples of m, where a rounded product could be off by one."""
    for p in (0.4, 0.1, 0.013, 1e-5):
        m = golomb_parameter(p)
        gaps = [q * m + r for q in (0, 1, 2, 3, 31, 32, 33, 49, 1000) for r in (-1, 0, 1)][1:]
        indices = (np.cumsum(np.array(gaps) + 1) - 1).tolist()
        round_trip(Golomb(p, "exact"), indices, indices[-1] + 5)
        round_trip(Golomb(p, "exact", "split"), indices, indices[-1] + 5)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"kind": "best"}, "golomb: kind is 'best': one of rice, exact, fit"),
        ({"order": "other"}, "golomb: order is 'other': one of interleaved, split"),
        ({"p": 0.1, "kind": "fit"}, "golomb: p is 0.1: a fitted parameter takes none"),
        ({"p": "exact", "kind": "fit"}, "golomb: p is 'exact'"),
    ],
)
def test_settings_that_cannot_be(settings: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Golomb(**settings)


def test_a_writer_makes_room_for_the_last_index_and_not_for_the_tensor() -> None:
    """One index of 2**40: seven bits, where all entries as gaps would be 128 GiB."""
    out = BitWriter()
    Golomb("fit").write_positions(np.array([0]), 2**40, out, 0)
    assert out.position == 7 and out.words.nbytes < 2**16
