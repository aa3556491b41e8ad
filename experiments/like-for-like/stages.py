"""The runs of a task in stages: trials, each chosen by those before, then what they chose."""

from collections.abc import Iterable
from math import inf
from pathlib import Path

import pandas as pd

from experiments.common.staged import Runs, within
from fedsim import Cell

from .points import Points
from .walk import Trial, best, next_trial

Pair = tuple[str, float]
"""A method and a budget."""


class Stages(Runs):
    """What is run for one task, in a folder that holds what was run before.

    Args:
        points: the task's runs.
        out: the folder; trials go to ``trials`` there and the rest to ``finals``.
        jobs: runs at the same time.
    """

    def __init__(self, points: Points, out: Path, jobs: int) -> None:
        super().__init__(out, jobs)
        self.points = points

    def tune(self, rows: Iterable[str]) -> dict[Pair, dict[Trial, float]]:
        """The loss of every trial, by method and budget; budgets that no message fits are left out.

        Args:
            rows: the methods.
        """
        pairs = [(row, budget) for row in rows for budget in self.points.size.budgets]
        tried: dict[Pair, dict[Trial, float]] = {
            pair: {} for pair in pairs if self.points.delays(*pair)
        }
        while work := {pair: new for pair in tried if (new := self._next(pair, tried[pair]))}:
            named = {
                (pair, trial): self.points.run(*pair, trial)
                for pair, trials in work.items() for trial in trials
            }  # fmt: skip
            self.run(named.values(), "trials")
            for (pair, trial), cell in named.items():
                point = within(self.curve(cell, "trials"), pair[1] * self.points.dense)
                sign = -1 if cell.config.plan.task.higher_is_better else 1
                tried[pair][trial] = inf if point is None else sign * point[1]
        return tried

    def _next(self, pair: Pair, tried: dict[Trial, float]) -> list[Trial]:
        """The trials that can run side by side: all delays, or one rate."""
        delays, most = self.points.delays(*pair), self.points.size.trials
        trials: list[Trial] = []
        while (trial := next_trial(tried | dict.fromkeys(trials, inf), delays, most)) is not None:
            if trial[1] != 1.0 and trials:
                break
            trials.append(trial)
            if trial[1] != 1.0:
                break
        return trials

    def finals(self, tried: dict[Pair, dict[Trial, float]]) -> dict[tuple[Pair, int], Cell]:
        """The runs of what was chosen, on fresh seeds, by method, budget and seed."""
        seeds = range(1, self.points.size.seeds + 1)
        cells = {
            (pair, seed): self.points.run(*pair, best(losses), seed)
            for pair, losses in tried.items() for seed in seeds
        }  # fmt: skip
        self.run(cells.values(), "finals", described=True)
        return cells

    def curves(self, cells: dict[tuple[Pair, int], Cell]) -> pd.DataFrame:
        """A line per evaluation of every final run, in order."""
        lines = []
        for ((row, budget), seed), cell in cells.items():
            curve = self.curve(cell, "finals")
            for bits, metric in zip(curve.bits, curve.metric, strict=True):
                lines.append({"method": row, "budget": budget, "seed": seed,
                              "bits": bits, "metric": metric})  # fmt: skip
        return pd.DataFrame(lines)

    def frame(self, cells: dict[tuple[Pair, int], Cell], part: str) -> pd.DataFrame:
        """A line per run: its settings, bits and metric of its last evaluation in the budget."""
        lines = []
        for ((row, budget), seed), cell in cells.items():
            point = within(self.curve(cell, part), budget * self.points.dense)
            config = cell.config
            lines.append({
                "method": row, "text": config.method, "budget": budget, "seed": seed,
                "n": config.temporal, "p": config.gradient, "lr": config.training.lr,
                "iterations": config.iterations,
                "bits": None if point is None else point[0],
                "metric": None if point is None else point[1],
            })  # fmt: skip
        return pd.DataFrame(lines)
