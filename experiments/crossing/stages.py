"""The runs of a setting at one length: trials of delay and rate, then ten seeds of the best."""

from collections.abc import Collection
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments.common.budgets import KEPT, Budgets, Use
from experiments.common.staged import Runs, within
from fedsim import Cell, RunConfig
from fedsim.search import OWN_CODER, Sizes

from .rows import CLIENTS, DENSE, EVALUATIONS, EXTENSIONS, ROWS, SETTINGS, Scale


class Case(NamedTuple):
    """A method at a budget (None: dense, without any)."""

    method: str
    budget: float | None


Trial = tuple[int, float]
"""A delay n, and the factor on the task's rate."""

FACTOR = 3.0


class Stages(Runs):
    """What is run of one setting at one length.

    Args:
        name: of the setting.
        scale: what is run.
        iterations: local iterations of a client.
        out: the folder of the setting.
        jobs: runs at the same time.
        data: the folder with data sets; None: fedsim's default.
        methods: names of the rows that are run.
    """

    def __init__(
        self,
        name: str,
        scale: Scale,
        iterations: int,
        out: Path,
        jobs: int,
        data: str | None,
        methods: Collection[str] = tuple(ROWS),
    ) -> None:
        super().__init__(out / f"{iterations}", jobs)
        self.name, self.scale, self.iterations, self.methods = name, scale, iterations, methods
        setting = SETTINGS[name]
        self._shared: dict[str, Any] = {
            "task": setting.task,
            "partition": setting.partition,
            "clients": CLIENTS,
            "test_samples": setting.scored,
            "data": data,
        }
        sizes = Sizes(RunConfig.of(method="raw", temporal=1, iterations=1, **self._shared))
        self._budgets, self._rate = Budgets(sizes), sizes.rate
        self.dense = sizes.bits("raw", None, OWN_CODER) * iterations

    def cases(self) -> list[Case]:
        """The methods at the budgets that they can keep."""
        every = [Case(m, b) for m in ROWS if m != DENSE for b in self.scale.budgets]
        mine = [case for case in (Case(DENSE, None), *every) if case.method in self.methods]
        return [case for case in mine if self.delays(case)]

    def delays(self, case: Case) -> list[int]:
        """The first two values of n at which all rounds, at least two, fit the budget."""
        fit = [n for n in self.scale.delays if 2 * n <= self.iterations and self._use(case, n)]
        return fit[:2]

    def _use(self, case: Case, delay: int) -> Use | None:
        rounds = self.iterations // delay
        bits = inf if case.budget is None else case.budget * self.dense
        if case.budget is None:
            return Use(None, rounds)
        use = self._budgets.use(ROWS[case.method].text, bits, rounds)
        return use if use and use.rounds == rounds else None

    def cell(self, case: Case, trial: Trial, seed: int | None) -> Cell:
        """A run.

        Args:
            case: the method and the budget.
            trial: its delay, and the factor on the rate.
            seed: of a final run, on all training samples; None: a trial of seed 0, which is scored
                on a fifth of the training samples that it does not train on.
        """
        (delay, factor), row = trial, ROWS[case.method]
        use = self._use(case, delay)
        assert use is not None
        config = RunConfig.of(
            method=row.text,
            gradient=use.fraction,
            temporal=delay,
            iterations=use.rounds * delay,
            lr=float(f"{self._rate * factor:.4g}"),
            stop_at_bits=None if case.budget is None else KEPT * case.budget * self.dense,
            evaluate_every=max(1, use.rounds // EVALUATIONS),
            seed=seed or 0,
            label=case.method,
            validation=0.2 if seed is None else None,
            **self._shared,
            **row.more,
        )
        budget = "dense" if case.budget is None else f"{case.budget:g}"
        part = "trial" if seed is None else f"seed{seed}"
        return Cell(f"{case.method}-b{budget}-n{delay}-x{factor:.4g}-{part}", config)

    def tune(self) -> dict[Case, dict[Trial, float]]:
        """The validation loss of every trial, infinite where it diverged."""
        waiting = {
            case: [(n, factor) for factor in self.scale.factors for n in self.delays(case)]
            for case in self.cases()
        }
        tried: dict[Case, dict[Trial, float]] = {case: {} for case in waiting}
        for _ in range(1 + EXTENSIONS):
            cells = {
                (case, trial): self.cell(case, trial, None)
                for case, trials in waiting.items()
                for trial in trials
            }
            self.run(cells.values(), "trials")
            for (case, trial), cell in cells.items():
                curve = self.curve(cell, "trials")
                tried[case][trial] = curve.losses[-1] if curve.losses else inf
            waiting = {case: beyond(losses) for case, losses in tried.items() if beyond(losses)}
        return tried

    def finals(self, tried: dict[Case, dict[Trial, float]]) -> dict[tuple[Case, int], Cell]:
        """The runs of what was chosen, on fresh seeds."""
        cells = {
            (case, seed): self.cell(case, best(losses), seed)
            for seed in range(1, self.scale.seeds + 1)
            for case, losses in tried.items()
        }
        self.run(cells.values(), "finals", described=True)
        return cells

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Runs all; a line per trial, and a line per final run."""
        tried = self.tune()
        trials = [
            self._line(case, n, f) | {"loss": None if loss == inf else loss}
            for case, losses in tried.items()
            for (n, f), loss in losses.items()
        ]
        finals = []
        for (case, seed), cell in self.finals(tried).items():
            summary = self.summary(cell, "finals")
            bits = inf if case.budget is None else case.budget * self.dense
            point = within(self.curve(cell, "finals"), bits)
            rounds = cell.config.iterations // cell.config.temporal
            finals.append(
                self._line(case, *best(tried[case]))
                | {
                    "seed": seed,
                    "rounds": rounds,
                    "p": cell.config.gradient,
                    "bits": None if point is None else point[0],
                    "metric": None if point is None else point[1],
                    "status": summary["status"],
                    "seconds": summary.get("seconds"),
                }
            )
        return pd.DataFrame(trials), pd.DataFrame(finals)

    def _line(self, case: Case, delay: int, factor: float) -> dict[str, Any]:
        return {
            "setting": self.name,
            "iterations": self.iterations,
            "method": case.method,
            "kind": ROWS[case.method].kind,
            "budget": case.budget,
            "n": delay,
            "factor": float(f"{factor:.4g}"),
        }


def best(tried: dict[Trial, float]) -> Trial:
    """The trial of the least loss; of equals the first: the lower rate, then the smaller delay."""
    return min(sorted(tried, key=lambda trial: trial[::-1]), key=lambda trial: tried[trial])


def beyond(tried: dict[Trial, float]) -> list[Trial]:
    """The trial beyond the best one's rate, where that is the least or the greatest of its delay.

    Example:
        >>> beyond({(5, 1.0): 0.5, (5, 3.0): 0.4}), beyond({(5, 1.0): 0.4, (5, 3.0): 0.4})
        ([(5, 9.0)], [(5, 0.3333333333333333)])
    """
    delay, factor = best(tried)
    ladder = [f for n, f in tried if n == delay]
    if factor == min(ladder):
        return [(delay, factor / FACTOR)]
    return [(delay, factor * FACTOR)] if factor == max(ladder) else []
