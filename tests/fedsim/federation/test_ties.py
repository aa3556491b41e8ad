"""Those that come at one moment under ``--ask``: a fair order, which follows from the seed.

Tolerances are four standard deviations of a fair draw; all seeds are fixed.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compressors import derive
from fedsim import RunConfig, run
from fedsim.network.cohorts import Rules
from tests.support.runs import clients
from tests.support.threes import table, threes

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


def first_two(seed: int, number: int, there: list[int]) -> list[int]:
    """Those of ``there`` with the smallest lots, of which each that arrives has one."""
    lots = np.random.default_rng(derive(seed, "arrival", number)).random(len(there))
    return sorted(there[place] for place in np.argsort(lots)[:2])


def test_who_is_not_taken_counts_in_the_next_round_and_is_not_asked_for_it(
    make_task: Any, tmp_path: Path
) -> None:
    """With ``--late count``: two of four, then these two and the other two, and so on."""
    task = make_task(**threes([16.0, 32.0, 64.0, 128.0]))
    settings = {"method": "raw", "temporal": 1, "iterations": 6, "network": "compute=1s"}
    run(RunConfig.of(task=task.name, cohort=2, ask=4, late="count", **settings), tmp_path)
    rows, came = table(tmp_path), clients(tmp_path)
    assert rows["sim_seconds"].tolist() == [1] * 6
    assert rows["clients"].tolist() == [2, 4] * 3
    assert rows["late"].tolist() == [0, 2] * 3 and rows["failures"].tolist() == [2, 0] * 3
    used = came[came["samples"] > 0]
    for number in (1, 3, 5):
        taken = used.loc[used["round"] == number, "client"].tolist()
        assert sorted(taken) == first_two(0, number, [0, 1, 2, 3])
        late = used[(used["round"] == number + 1) & (used["late"] > 0)]
        assert sorted([*taken, *late["client"]]) == [0, 1, 2, 3]


def test_who_counts_when_it_comes_is_not_drawn_for_that_round(
    make_task: Any, tmp_path: Path
) -> None:
    """Three of four are asked and two are taken: the next round asks all but the third, which comes
    in it. So three are used in every round but the first, and one is late in each.
    """
    task = make_task(**threes([16.0, 32.0, 64.0, 128.0]))
    settings = {"method": "raw", "temporal": 1, "iterations": 8, "network": "compute=1s"}
    run(RunConfig.of(task=task.name, cohort=2, ask=3, late="count", **settings), tmp_path)
    rows, came = table(tmp_path), clients(tmp_path)
    assert rows["clients"].tolist() == [2] + [3] * 7 and rows["late"].tolist() == [0] + [1] * 7
    assert rows["failures"].tolist() == [1] * 8
    for number in range(1, 8):
        (left,) = came.loc[(came["round"] == number) & (came["failures"] > 0), "client"]
        after = came[(came["round"] == number + 1) & (came["down_message_bits"] > 0)]
        assert sorted(after["client"]) == [client for client in range(4) if client != left]
