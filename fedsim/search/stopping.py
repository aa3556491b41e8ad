"""Early stopping of runs whose metric, at equal bits, is behind that of other runs."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

import optuna

from fedsim.results.values import REACHED
from fedsim.search.curves import curve_of
from fedsim.search.goal import STEPS, Curve, Goal
from fedsim.search.study import quiet

_STARTUP = 5
_BEHIND = {"budget": 50.0, "else": 75.0}
"""A run goes on while it is among so many percent of the runs that ended, at equal bits."""
_DEARER = 1.25
"""To a target, a run goes on up to so many times the fewest bits; seeds differ by less, mostly."""

BEHIND = "behind others at equal bits"
DEARER = "more bits than the best needed"


class Stopper:
    """Looks at runs as they go and says which are to end.

    Optuna's percentile pruner decides, over losses at steps of equal bits (``Goal.at_steps``), from
    the fifth run on that has ended by itself; within a budget, from a quarter of the budget on.
    """

    def __init__(self, goal: Goal) -> None:
        percentile = _BEHIND["budget" if goal.budget is not None else "else"]
        warm = STEPS // 4 if goal.budget is not None else 0
        self.goal = goal
        self._pruner = optuna.pruners.PercentilePruner(
            percentile, n_startup_trials=_STARTUP, n_warmup_steps=warm, n_min_trials=3
        )
        with quiet():
            self._ended = optuna.create_study(direction="minimize")
        self._points: dict[str, list[tuple[float, float]]] = {}
        self._step: dict[str, int] = {}
        self._fewest = inf

    def learn(self, curve: Curve) -> None:
        """Takes the curve of a run that has ended by itself."""
        losses, loss = self.goal.at_steps(curve, ended=True), self.goal.loss(curve)
        if loss is None:
            return
        if self.goal.target is not None and (point := self.goal.point(curve)):
            self._fewest = min(self._fewest, point[0])
        self._ended.add_trial(optuna.create_trial(value=loss, intermediate_values=losses))

    def begin(self, name: str, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        """A run begins, or goes on behind the rows of its checkpoint."""
        before = curve_of(rows, self.goal.budget_of)
        self._points[name] = list(zip(before.bits, before.metric, strict=True))
        self._step[name] = -1

    def verdict(self, name: str, row: Mapping[str, Any]) -> str | None:
        """Why a run is to end after a round; None: it goes on.

        ``row``: with ``spent``, for rows of rounds between evaluations may be left out.
        """
        if row["metric"] != row["metric"]:  # no evaluation
            return None
        bits, goal = float(row["spent"]), self.goal
        before = [p for p in self._points.get(name, ()) if p[0] < bits]  # some may come again
        points = self._points[name] = [*before, (bits, float(row["metric"]))]
        curve = Curve(tuple(p[0] for p in points), tuple(p[1] for p in points))
        if goal.target is not None and curve.reaches(goal.target, goal.higher) is not None:
            return REACHED
        if curve.bits[-1] > _DEARER * self._fewest:
            return DEARER
        losses = goal.at_steps(curve)
        step = max(losses, default=-1)
        if step <= self._step.get(name, -1):
            return None
        self._step[name] = step
        running = optuna.create_trial(
            state=optuna.trial.TrialState.RUNNING, intermediate_values=losses
        )
        return BEHIND if self._pruner.prune(self._ended, running) else None
