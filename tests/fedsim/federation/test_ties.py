"""Those that come at one moment under ``--ask``: a fair order, which follows from the seed.

Tolerances are four standard deviations of a fair draw; all seeds are fixed.
"""

from collections import Counter
from typing import Any

import pytest

from fedsim.network.cohorts import Rules

SEEDS, ROUNDS = 3000, 40


def near(count: int, share: float, draws: int) -> bool:
    return abs(count - share * draws) < 4 * (share * (1 - share) * draws) ** 0.5


@pytest.mark.parametrize("seed_of", [lambda i: (i, 1), lambda i: (7, i)], ids=["seeds", "rounds"])
def test_each_of_five_is_among_the_first_two_equally_often(seed_of: Any) -> None:
    every = [Rules().order([2.5] * 5, *seed_of(i)) for i in range(SEEDS)]
    taken = Counter(place for order in every for place in order[:2])
    assert all(near(taken[place], 2 / 5, SEEDS) for place in range(5))
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in every)


def test_all_orders_of_three_come_equally_often() -> None:
    orders = Counter(tuple(Rules().order([1.0] * 3, seed, 4)) for seed in range(SEEDS))
    assert len(orders) == 6 and all(near(count, 1 / 6, SEEDS) for count in orders.values())


def test_a_seed_and_a_round_say_the_order() -> None:
    for seed in range(50):
        assert Rules().order([1.0] * 9, seed, 2) == Rules().order([1.0] * 9, seed, 2)
    assert Rules().order([1.0] * 9, 0, 2) != Rules().order([1.0] * 9, 0, 3)
    assert Rules().order([1.0] * 9, 0, 2) != Rules().order([1.0] * 9, 1, 2)


def test_who_comes_earlier_is_before_all_who_come_later() -> None:
    """Places 1 and 3 come first and together, then 0 and 4, then 2."""
    orders = [Rules().order([5.0, 4.0, 6.0, 4.0, 5.0], seed, 1) for seed in range(SEEDS)]
    found = Counter(map(tuple, orders))
    assert set(found) == {(a, 4 - a, b, 4 - b, 2) for a in (1, 3) for b in (0, 4)}
    assert all(near(count, 1 / 4, SEEDS) for count in found.values())
