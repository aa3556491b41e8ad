"""What a learning curve is worth, and where curves are compared."""

import math
from typing import Any

import pytest

from fedsim import UsageError
from fedsim.network.quantities import quantity
from fedsim.search.goal import NOT_REACHED, Curve, Goal

CURVE = Curve((100.0, 250.0, 400.0), (0.5, 0.9, 0.8))


def test_a_curve_that_misses_its_target_is_worse_than_any_that_reaches_it() -> None:
    goal = Goal(True, "accuracy", target=0.95)
    missed, dear = goal.loss(CURVE), goal.loss(Curve((1e30,), (0.96,)))
    assert missed is not None and dear is not None
    assert missed == pytest.approx(NOT_REACHED + 0.05) and missed > dear
    nearer = goal.loss(Curve((100.0,), (0.94,)))
    assert nearer is not None and nearer < missed


def test_a_target_that_is_reached_before_any_bits_is_the_cheapest() -> None:
    goal = Goal(True, "accuracy", target=0.5)
    assert goal.loss(Curve((0.0, 50.0), (0.6, 0.9))) == 0 < goal.loss(Curve((9.0,), (0.6,)))


def test_a_task_loss_that_is_no_number_is_the_last() -> None:
    goal = Goal(True, "accuracy", budget=100.0)
    assert goal.task_loss(Curve((50.0,), (0.5,), (math.nan,))) == math.inf


def test_curves_are_compared_at_steps_of_equal_bits() -> None:
    goal = Goal(True, "accuracy", budget=400.0)  # sixteenths: 25 bits
    losses = goal.at_steps(Curve((100.0, 250.0), (0.5, 0.9)))
    assert losses == {4: -0.5, 5: -0.5, 6: -0.5, 7: -0.5, 8: -0.5, 9: -0.5, 10: -0.9}
    ended = goal.at_steps(Curve((100.0, 250.0), (0.5, 0.9)), ended=True)
    assert ended[16] == -0.9 and ended[9] == -0.5 and min(ended) == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": 2e6, "target": 0.9}, "--budget is 2 Mbit and --target 0.9: give one"),
        ({"budget": None, "target": 98.0}, "--target is 98.0: accuracy lies in"),
    ],
)
def test_goals_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Goal(**given, higher=True, name="accuracy")


@pytest.mark.parametrize("text", ["soon", "0", "-3min", "nan"])
def test_times_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--time is"):
        quantity(text, "--time", "time")
