"""When a trial ends early, at the exact boundaries of the rule, by numbers worked out by hand.

Within a budget of 1600 bits a step is 100 bits. Five others have ended, whose metrics at 400 bits
are 0.5, 0.6, 0.7, 0.8, 0.9: the median is 0.7, and the 25th percentile is 0.6.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from fedsim.search.goal import Curve, Goal
from fedsim.search.stopping import BEHIND, DEARER, REACHED, Stopper
from tests.support.madesearch import curve

BUDGET = Goal(True, "accuracy", budget=1600.0)
FRONT = Goal(True, "accuracy")
SCORES = (0.5, 0.6, 0.7, 0.8, 0.9)


def row(bits: float, metric: float) -> dict[str, float]:
    """``bits``: that a client has sent by then."""
    return {"spent": bits, "metric": metric}


def kept(bits: float, metric: float, clients: int) -> dict[str, float]:
    """A row of a checkpoint, in which a client has sent so many bits."""
    return {"up_wire_bits": bits * clients, "clients": clients, "metric": metric}


def watching(goal: Goal, curves: Sequence[Curve]) -> Stopper:
    stopper = Stopper(goal)
    for one in curves:
        stopper.learn(one)
    stopper.begin("new")
    return stopper


def others(scores: Sequence[float], first: float = 400) -> list[Curve]:
    """Curves that have these scores from ``first`` bits on."""
    return [curve((first, score), (1600, score)) for score in scores]


@pytest.mark.parametrize(("metric", "why"), [(0.7, None), (0.699, BEHIND)])
def test_within_a_budget_the_median_goes_on_and_what_is_below_it_ends(
    metric: float, why: str | None
) -> None:
    assert watching(BUDGET, others(SCORES)).verdict("new", row(400, metric)) == why


@pytest.mark.parametrize(("metric", "why"), [(0.75, None), (0.749, BEHIND)])
def test_of_an_even_number_the_median_lies_between_the_middle_two(
    metric: float, why: str | None
) -> None:
    """0.5, 0.6, 0.7, 0.8, 0.9, 1.0: the mean of 0.7 and 0.8."""
    assert watching(BUDGET, others((*SCORES, 1.0))).verdict("new", row(400, metric)) == why


@pytest.mark.parametrize(("bits", "why"), [(399, None), (400, BEHIND)])
def test_within_a_budget_nothing_ends_before_a_quarter_of_it(bits: float, why: str | None) -> None:
    """Behind all others from 100 bits on."""
    stopper = watching(BUDGET, others(SCORES, 100))
    assert stopper.verdict("new", row(100, 0.1)) is None
    assert stopper.verdict("new", row(bits, 0.1)) == why


@pytest.mark.parametrize(("count", "why"), [(4, None), (5, BEHIND)])
def test_the_rule_begins_with_the_fifth_run_that_has_ended(count: int, why: str | None) -> None:
    assert watching(BUDGET, others([0.9] * count)).verdict("new", row(400, 0.1)) == why


@pytest.mark.parametrize(("known", "why"), [(2, None), (3, BEHIND)])
def test_three_of_them_have_to_be_known_at_these_bits(known: int, why: str | None) -> None:
    """Of five that have ended, the others had no evaluation by 400 bits."""
    ended = others([0.9] * known) + others([0.9] * (5 - known), first=1000)
    assert watching(BUDGET, ended).verdict("new", row(400, 0.1)) == why


def test_a_run_that_ended_before_the_budget_stays_where_it_was() -> None:
    """All others ended by themselves at 800 bits with 0.9; at 1500 bits 0.8 is behind them."""
    short = [curve((800, 0.9))] * 5
    assert watching(BUDGET, short).verdict("new", row(1500, 0.8)) == BEHIND
    assert watching(BUDGET, short).verdict("new", row(799, 0.8)) is None  # nobody is known there


def test_a_run_is_judged_by_the_best_that_it_has_been() -> None:
    """0.75 at 400 bits, 0.1 at 500: the best so far is above the median."""
    stopper = watching(BUDGET, others(SCORES))
    assert stopper.verdict("new", row(400, 0.75)) is None
    assert stopper.verdict("new", row(500, 0.1)) is None


def test_a_run_is_judged_once_a_step() -> None:
    """At 400 bits four others have ended; the fifth ends before 450 bits, which is the same step.

    What a run had by 400 bits is not known where its first evaluation is at 450.
    """
    stopper = watching(BUDGET, others([0.9] * 4))
    assert stopper.verdict("new", row(400, 0.1)) is None
    stopper.learn(others([0.9])[0])
    assert stopper.verdict("new", row(450, 0.1)) is None
    assert stopper.verdict("new", row(500, 0.1)) == BEHIND
    assert watching(BUDGET, others(SCORES)).verdict("new", row(450, 0.1)) is None


def test_bits_behind_a_checkpoint_are_those_of_a_client() -> None:
    """0.1 at 300 bits, before the stop; at 400 it is known to have been behind all along."""
    for bits, why in ((400, BEHIND), (399, None)):
        stopper = watching(BUDGET, others(SCORES))
        stopper.begin("new", [kept(200, float("nan"), 2), kept(100, 0.1, 4)])
        assert stopper.verdict("new", row(bits, 0.1)) == why


def test_rows_that_are_left_out_are_in_the_bits_of_those_that_come() -> None:
    """Of rounds of one bit each only the 400th is told: a quarter of the budget, not one bit."""
    told = row(400, 0.1) | {"up_wire_bits": 1, "clients": 1, "round": 400}
    assert watching(BUDGET, others(SCORES)).verdict("new", told) == BEHIND


def test_rows_that_come_again_after_a_lost_worker_count_once() -> None:
    """501 bits are dearer than a quarter more than 400; the worker in its place is at 300 again."""
    goal = Goal(True, "accuracy", target=0.8)
    stopper = watching(goal, [curve((400, 0.85))])
    for bits, metric, why in ((300, 0.1, None), (501, 0.2, DEARER), (300, 0.1, None)):
        assert stopper.verdict("new", row(bits, metric)) == why


def test_a_curve_without_an_evaluation_within_the_budget_is_not_learnt() -> None:
    """Four others and one whose first evaluation came too late: the rule has not begun."""
    four = others([0.9] * 4)
    assert watching(BUDGET, [*four, curve((1601, 0.9))]).verdict("new", row(400, 0.1)) is None


@pytest.mark.parametrize(("metric", "why"), [(0.6, None), (0.599, BEHIND)])
def test_without_a_budget_the_worst_quarter_ends_from_the_first_evaluation_on(
    metric: float, why: str | None
) -> None:
    """The 25th percentile of five is the second from below."""
    ended = [curve((8, score), (64, score)) for score in SCORES]
    assert watching(FRONT, ended).verdict("new", row(8, metric)) == why


@pytest.mark.parametrize(("metric", "why"), [(30.0, None), (30.1, BEHIND)])
def test_where_less_is_better_it_is_the_other_side(metric: float, why: str | None) -> None:
    """Perplexities 10 to 50: the median is 30."""
    goal = Goal(False, "perplexity", budget=1600.0)
    ended = [curve((400, score), (1600, score)) for score in (10.0, 20.0, 30.0, 40.0, 50.0)]
    assert watching(goal, ended).verdict("new", row(400, metric)) == why


@pytest.mark.parametrize(
    ("higher", "metric", "why"),
    [(True, 0.8, REACHED), (True, 0.799, None), (False, 0.8, REACHED), (False, 0.801, None)],
)
def test_at_the_target_a_run_ends(higher: bool, metric: float, why: str | None) -> None:
    goal = Goal(higher, "accuracy", target=0.8)
    assert watching(goal, []).verdict("new", row(10, metric)) == why


@pytest.mark.parametrize(("bits", "why"), [(1000.0, None), (1000.5, DEARER)])
def test_to_a_target_a_run_may_cost_a_quarter_more_than_the_fewest_bits(
    bits: float, why: str | None
) -> None:
    """The fewest are 800, of the second; what the last sent reached nothing."""
    goal = Goal(True, "accuracy", target=0.8)
    reached = [curve((900, 0.85)), curve((400, 0.7), (800, 0.8)), curve((1000, 0.85))]
    ended = [*reached, curve((10, 0.1))]
    assert watching(goal, ended).verdict("new", row(bits, 0.5)) == why


def test_what_reaches_the_target_has_reached_it_however_dear() -> None:
    goal = Goal(True, "accuracy", target=0.8)
    assert watching(goal, [curve((10, 0.9))]).verdict("new", row(5000, 0.8)) == REACHED


def test_several_runs_at_once_do_not_mix() -> None:
    """`old` is judged at 400 bits of its own, after `new` has sent 300."""
    stopper = watching(BUDGET, others(SCORES))
    stopper.begin("old")
    assert stopper.verdict("new", row(300, 0.1)) is None
    assert stopper.verdict("old", row(350, 0.1)) is None
    assert stopper.verdict("new", row(400, 0.1)) == BEHIND
    assert stopper.verdict("old", row(400, 0.1)) == BEHIND


def steps(goal: Goal, *bits: float) -> list[int]:
    return [goal.step(x) for x in bits]


def test_steps_are_sixteenths_of_a_budget_and_quarters_of_a_doubling_else() -> None:
    """Sixteenths of 1600 bits are 100; 2^(1/4) is 1.189, 2^(3/4) is 1.682, 2^(5/4) 2.378."""
    assert steps(BUDGET, 0, 99.9, 100, 1599, 1600, 5000) == [0, 0, 1, 15, 16, 16]
    assert steps(FRONT, 0, 1, 1.18, 1.2, 1.69, 2, 2.37, 2.38, 1024) == [0, 0, 0, 1, 3, 4, 4, 5, 40]


def test_a_curve_has_at_every_step_what_it_had_by_then() -> None:
    """First at 150 bits (step 1 is 100: too early), then 0.6 at exactly 300, then 0.5 at 480."""
    found = BUDGET.at_steps(curve((150, 0.4), (300, 0.6), (480, 0.5)))
    assert found == {2: -0.4, 3: -0.6, 4: -0.6}
    ended: Any = BUDGET.at_steps(curve((150, 0.4), (480, 0.5)), ended=True)
    assert ended == {2: -0.4, 3: -0.4, 4: -0.4} | dict.fromkeys(range(5, 17), -0.5)
    assert FRONT.at_steps(curve((2, 0.4), (4, 0.6))) == {
        4: -0.4,
        5: -0.4,
        6: -0.4,
        7: -0.4,
        8: -0.6,
    }
    assert BUDGET.at_steps(Curve((), ())) == {}
