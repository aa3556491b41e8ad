"""Shared links: max-min fair rates and ends of transfers, against cases computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.network.rates import Rate
from fedsim.network.sharing import fair, transfers

CAPS = st.lists(st.floats(0.001, 1e9), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("caps", "capacity", "rates"),
    [
        ([2, 2, 2], 9, [2, 2, 2]),  # nobody is in the way of another
        ([1, 10, 10], 9, [1, 4, 4]),
        ([1, 3, 10], 9, [1, 3, 5]),
        ([math.inf, 1, math.inf], 9, [4, 1, 4]),
        ([math.inf], 9, [9]),
        ([0, 5], 4, [0, 4]),
    ],
)
def test_shares_by_hand(caps: list[float], capacity: float, rates: list[float]) -> None:
    assert fair(np.array(caps, float), capacity).tolist() == rates


@given(CAPS, st.floats(0.001, 1e9))
def test_shares_are_max_min_fair(caps: list[float], capacity: float) -> None:
    rates = fair(np.array(caps), capacity)
    assert (rates <= caps).all() and rates.sum() <= capacity * (1 + 1e-9)
    below = rates < np.array(caps) * (1 - 1e-9)
    if below.any():  # the link is full, and who is limited by it has the largest share
        assert rates.sum() == pytest.approx(capacity)
        assert rates[below] == pytest.approx(rates.max())


def constants(*values: float) -> list[Rate]:
    return [Rate.constant(value) for value in values]


def test_three_uploads_that_share_a_link_by_hand() -> None:
    """Capacity 6 bit/s. From 0 s, A (12 bits, cap 10) is alone: 6 bit/s, 6 bits by 1 s.

    From 1 s, B (4 bits, cap 1) takes 1 and A 5: A needs 6/5 s more and ends at 2.2 s.
    From 2 s, C (20 bits, cap 10) joins: caps 10, 1, 10 share 6 as 2.5, 1, 2.5. A has 1 bit left at
    2 s, and ends at 2.4 s. Then C has 5 and B 1. B sends from 1 s to 5 s. C has 19 bits left at
    2.4 s, and 6 left at 5 s, when it has the link's 6 bit/s: it ends at 6 s.
    """
    ends = transfers(np.array([0.0, 1.0, 2.0]), np.array([12, 4, 20]), constants(10, 1, 10), 6.0)
    assert ends.tolist() == pytest.approx([2.4, 5.0, 6.0])


def test_without_a_limit_they_do_not_meet() -> None:
    ends = transfers(np.array([0.0, 1.0]), np.array([10, 10]), constants(1, 5), math.inf)
    assert ends.tolist() == [10.0, 3.0]


def test_a_link_that_goes_and_comes() -> None:
    """2 bit/s for 3 s, nothing for 2 s, again and again: 10 bits take 3 + 2 + 2 s."""
    on_off = Rate((0.0, 3.0), (2.0, 0.0), period=5.0)
    assert transfers(np.zeros(1), np.array([10]), [on_off], math.inf).tolist() == [7.0]
    assert transfers(np.array([4.0]), np.array([2]), [on_off], 1.0).tolist() == [7.0]
    with pytest.raises(RuntimeError, match="never ends"):
        transfers(np.zeros(1), np.array([10]), [Rate((0.0, 3.0), (2.0, 0.0))], math.inf)


@given(st.integers(0, 2**32), st.integers(1, 12), st.floats(0.5, 50))
def test_no_bit_is_lost_on_a_shared_link(seed: int, count: int, capacity: float) -> None:
    """The link never carries more than it can, and every message takes at least its own time."""
    generator = np.random.default_rng(seed)
    starts, bits = generator.uniform(0, 5, count), generator.integers(0, 100, count)
    caps = generator.uniform(0.5, 20, count)
    ends = transfers(starts, bits, constants(*caps), capacity)
    assert (ends - starts >= bits / np.minimum(caps, capacity) * (1 - 1e-9)).all()
    assert ends.max() - starts.min() >= bits.sum() / capacity * (1 - 1e-9)


@given(st.floats(0.1, 7), st.integers(1, 4), st.integers(0, 2**32))
def test_a_clock_that_follows_the_changes_never_stands_still(
    period: float, steps: int, seed: int
) -> None:
    times = np.sort(np.random.default_rng(seed).uniform(0, period, steps))
    times[0] = 0.0
    rate = Rate(tuple(np.unique(times)), tuple(range(1, len(np.unique(times)) + 1)), period)
    now, seen = 0.0, []
    for _ in range(200):
        seen.append(rate.at(now))
        after = rate.next_change(now)
        if math.isinf(after):
            return
        assert after > now
        now = after
    assert seen[:10] == [float(1 + i % len(rate.values)) for i in range(10)]
