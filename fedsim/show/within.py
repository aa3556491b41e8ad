"""A cell's scores within any budget: the last evaluation of every seed, and their mean."""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Steps:
    """The scores of one cell within a budget, from each budget on to the next.

    Attributes:
        budgets: (N,) ascending; from the first on, all seeds have an evaluation.
        metric: (N,) the seeds' mean, each at its last evaluation within the budget.
        spread: (N,) their sample standard deviation; NaN of one seed.
        iteration: (N,) the mean of those evaluations' iterations.
        spent: (N,) what the seeds had spent by then, on average.
        seeds: how many.
    """

    budgets: np.ndarray
    metric: np.ndarray
    spread: np.ndarray
    iteration: np.ndarray
    spent: np.ndarray
    seeds: int

    def at(self, budget: float | np.ndarray) -> np.ndarray:
        """The place of what there is within a budget, or of each; -1: not every seed has any."""
        return np.searchsorted(self.budgets, budget, side="right") - 1


def steps_of(table: pd.DataFrame, spent: str) -> list[Steps]:
    """The steps of every cell, in the order of their numbers.

    All rows are sorted at once: pandas takes a millisecond per group, however few its rows.

    Args:
        table: rows of evaluations; `_cell` numbers the cells, each row of a cell and `run` is of
            its own `round`.
        spent: the column of what was spent so far, such as bits.

    Example:
        >>> rows = {"_cell": 0, "run": list("aab"), "round": [1, 2, 1], "iteration": [1, 2, 1],
        ...         "bits": [10, 20, 12], "metric": [0.5, 0.9, 0.7]}
        >>> (cell,) = steps_of(pd.DataFrame(rows), "bits")
        >>> cell.budgets.tolist(), cell.metric.round(2).tolist()
        ([12.0, 20.0], [0.6, 0.8])
    """
    run = pd.factorize(table["run"])[0]
    cell = table["_cell"].to_numpy()
    order = np.lexsort((table["round"], run, cell))
    columns = {
        name: table[name].to_numpy(dtype=float)[order] for name in (spent, "metric", "iteration")
    }
    cell, run = cell[order], run[order]
    cuts = np.flatnonzero((np.diff(cell) != 0) | (np.diff(run) != 0)) + 1
    seeds: dict[int, list[np.ndarray]] = {}
    for rows in np.split(np.arange(len(order)), cuts):
        seeds.setdefault(int(cell[rows[0]]), []).append(rows)
    steps = []
    for runs_rows in seeds.values():
        bits = [columns[spent][rows] for rows in runs_rows]  # of each seed, by round
        budgets = np.unique(np.concatenate(bits))
        budgets = budgets[budgets >= max(of[0] for of in bits)]
        last = [
            rows[np.searchsorted(of, budgets, side="right") - 1]
            for rows, of in zip(runs_rows, bits, strict=True)
        ]
        metric, iteration, used = (
            np.stack([columns[name][rows] for rows in last])
            for name in ("metric", "iteration", spent)
        )
        spread = metric.std(axis=0, ddof=1) if len(runs_rows) > 1 else np.full(len(budgets), np.nan)
        steps.append(
            Steps(budgets, metric.mean(0), spread, iteration.mean(0), used.mean(0), len(runs_rows))
        )
    return steps
