"""The metric of each cell and of each method over budgets of bits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedsim.ground.errors import NothingToDraw
from fedsim.network.rates import ROUNDED
from fedsim.show.curves import Bits, evaluated
from fedsim.show.inputs import check_task, of_done
from fedsim.show.style import CellKey


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
        return np.searchsorted(self.budgets, budget * ROUNDED, side="right") - 1


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


@dataclass(frozen=True)
class Budget:
    """The best cell of one method within any budget.

    Attributes:
        method: its label.
        dense: whether it is raw sending.
        bits: (N,) ascending: bits of a client of every round from which on the best is another.
        metric: (N,) that best, of any of the method's cells, seeds averaged.
        cells: N cells, each that which has it.
        end: bits at the last evaluation of any of its cells: beyond, nothing was run.
    """

    method: str
    dense: bool
    bits: np.ndarray
    metric: np.ndarray
    cells: tuple[CellKey, ...]
    end: float


def budgets(
    rounds: pd.DataFrame,
    higher: bool,
    bits: Bits = "wire",
    x: str = "up_bits",
    budget_of: str = "up",
) -> list[Budget]:
    """The best metric within a budget of bits, one per method, `dense` first.

    A cell (n, p) counts with its last evaluation within the budget, the mean over its seeds
    (`steps_of`). So what a method has can become worse with more bits.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows; those of runs that are
            not done are left out.
        higher: whether a higher metric is better.
        bits: which bits, as for `curve_lines`.
        x: what is spent, as for `curve_lines`: with `TIME`, the numbers that are called bits are
            seconds.
        budget_of: "up", or "total": both ways.
    """
    rounds = of_done(rounds)
    check_task(rounds)
    sign = 1 if higher else -1
    by_method = rounds.assign(_coded=~rounds["dense"]).groupby(["_coded", "label"])
    methods = []
    for (compressed, name), group in by_method:
        table, cells = evaluated(group, x, bits, budget_of)
        reached = steps_of(table, x)
        spent = np.unique(np.concatenate([cell.budgets for cell in reached]))
        spent = spent[spent > 0]  # a logarithmic axis has no zero
        if not len(spent):
            continue
        pairs = [(cell, cell.at(spent)) for cell in reached]
        losses = np.stack([np.where(at < 0, np.inf, -sign * cell.metric[at]) for cell, at in pairs])
        since = np.stack([np.where(at < 0, np.inf, cell.budgets[at]) for cell, at in pairs])
        best = losses.min(axis=0)
        leads = np.where(losses == best, since, np.inf).argmin(axis=0)  # of equals, of fewer bits
        changes = np.flatnonzero(np.diff(best, prepend=np.nan) != 0)
        methods.append(
            Budget(
                str(name),
                not compressed,
                spent[changes],
                -sign * best[changes],
                tuple(cells[k] for k in leads[changes]),
                float(spent[-1]),
            )
        )
    if not methods:
        raise NothingToDraw("there is no run that is done and has sent bits.")
    return methods


def leaders(methods: Sequence[Budget], higher: bool) -> list[tuple[float, float, str]]:
    """Which method is best where: (from bits, to bits, its label), ascending.

    Of equals, the one that needs fewer bits leads. A method leads no further than it was run: there
    is a gap where the best had ended, until another is better. From and to are the same
    where a method leads at its last evaluation alone.
    """
    sign = 1 if higher else -1
    turns = list[tuple[float, str]]()
    for budget in sorted({float(bits) for curve in methods for bits in curve.bits}):
        affordable = [curve for curve in methods if curve.bits[0] <= budget]
        places = [
            int(np.searchsorted(curve.bits, budget, side="right")) - 1 for curve in affordable
        ]
        _, _, best = min(
            (-sign * float(curve.metric[at]), float(curve.bits[at]), curve.method)
            for curve, at in zip(affordable, places, strict=True)
        )
        if not turns or turns[-1][1] != best:
            turns.append((budget, best))
    last = {curve.method: curve.end for curve in methods}
    ends = [bits for bits, _ in turns[1:]] + [max(last.values())]
    return [
        (start, min(end, last[method]), method)
        for (start, method), end in zip(turns, ends, strict=True)
        if start <= last[method]
    ]
