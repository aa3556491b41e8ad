"""The best setting with its interval, and what cannot be told from it."""

from math import comb, isfinite, isnan, sqrt
from statistics import median, stdev

import pandas as pd
from rich.console import Console

from fedsim.ground import units
from fedsim.results.compare import LEVEL, holm, p_value, without_reference
from fedsim.results.intervals import half_of, mean, repetitions, wilson
from fedsim.results.labels import delay_symbol, several
from fedsim.show.layout import print_whole, wrapped
from fedsim.show.tables import CELL_COLUMNS, summary_table

BINOMIAL = frozenset({"accuracy", "top1", "top5", "hit_rate"})
"""Metrics that are the share of test samples which are right."""

SAMPLES = "scored_samples"
"""The column of the test samples that a run's metric is of."""

_FEW = 5  # seeds that a claim should rest on at least


def headline(runs: pd.DataFrame) -> str:
    """The best cell with its interval of 95 %, and the cells that cannot be told from it.

    Of several seeds the interval is Student's, and a cell is separated from the best by a paired
    t-test over the seeds that both have. Of one seed the interval is Wilson's, of the test samples,
    where the metric is a share of them, and a cell is separated by the normal test of two such
    shares. That is least: it holds none of training's own chance. Both are at 5 %, corrected by
    Holm over all pairs of cells, because the same scores choose the best. Of equal cells the one of
    fewest bits is first.

    Returns:
        One to three sentences. Empty without a finite metric, of several tasks, and where a cell
        and seed has several runs.
    """
    compressed = without_reference(runs)
    cells = _cells(compressed)
    if not cells or compressed["task"].nunique() > 1:
        return ""
    name, higher = cells[0].metric_name, cells[0].higher
    ranked = sorted(cells, key=lambda one: (-one.middle if higher else one.middle, one.bits))
    best, others = ranked[0], ranked[1:]
    named, symbol = several(compressed), delay_symbol(compressed)
    first = f"Best of {len(cells)}: " if others else ""
    parts = [f"{first}{best.called(symbol, named)}, {name} {best.shown()}."]
    if not others:
        return parts[0]
    untold = _untold(best, others)
    if untold:
        one = f"It and {untold[0].called(symbol, named)} cannot be told apart"
        more = f"It and {len(untold)} others cannot be told apart"
        parts.append(f"{one if len(untold) == 1 else more}{_seeds_told(best, untold, len(cells))}.")
    else:
        few = f" by {best.count} seeds; a claim takes {_FEW}" if best.count < _FEW else ""
        parts.append(
            f"It is told from {'the other' if len(others) == 1 else 'all others'}"
            f"{_seeds_told(best, others, len(cells)) if best.count < 2 else few}."
        )
    return " ".join(parts)


def print_summary(
    console: Console, runs: pd.DataFrame, columns: list[str] | None, per_seed: bool
) -> None:
    """Prints the table of runs, then the headline."""
    print_whole(console, summary_table(runs, console.width, columns, per_seed))
    if text := headline(runs):
        print(wrapped(text, console.width))


class CellSeeds:
    """The seeds of one cell."""

    def __init__(self, runs: pd.DataFrame) -> None:
        row = runs.iloc[0]
        self.label, self.delay = str(row["label"]), int(row["temporal"])
        self.fraction, self.metric_name = float(row["gradient"]), str(row["metric_name"])
        self.higher = bool(row["higher_is_better"])
        self.scores = dict(zip(runs["seed"].tolist(), runs["metric"].tolist(), strict=True))
        self.count = len(self.scores)
        self.middle = sum(self.scores.values()) / self.count
        self.bits, self.samples = float(runs["up_wire_bits"].mean()), samples_of(runs)

    def called(self, symbol: str, named: bool) -> str:
        """`sbc, n = 10, p = 0.01`; the method only where there are several."""
        where = f"{symbol} = {self.delay}, p = {units.plain(self.fraction)}"
        return f"{self.label}, {where}" if named else where

    def shown(self) -> str:
        """The metric with its interval, and what that is of."""
        score = units.score(self.middle, self.metric_name)
        if self.count > 1:
            half = mean([*self.scores.values()]).half
            score = units.averaged(self.middle, half, self.metric_name)
            return f"{score} (95 % interval, {self.count} seeds)"
        if self.samples is None:
            return f"{score} (one seed)"
        low, high = (units.score(x, self.metric_name) for x in wilson(self.middle, self.samples))
        return f"{score} ({low} to {high}: 95 %, {self.samples} test samples, one seed)"

    def differences(self, other: "CellSeeds") -> list[float]:
        """Those of the seeds that both have."""
        return [x - other.scores[seed] for seed, x in self.scores.items() if seed in other.scores]


def samples_of(runs: pd.DataFrame) -> int | None:
    """The fewest test samples of runs, where their metric is a share of them; else None.

    A user's own task may have another metric by such a name, in percent or below 0.
    """
    if SAMPLES not in runs.columns or not {*runs["metric_name"].dropna()} <= BINOMIAL:
        return None
    if not runs["metric"].dropna().between(0, 1).all():
        return None
    counts = runs[SAMPLES].dropna()
    return int(counts.min()) if len(counts) and counts.min() > 0 else None


def _cells(runs: pd.DataFrame) -> list[CellSeeds]:
    """The cells whose seeds all have a finite metric; none where a seed has two runs."""
    if runs.duplicated([*CELL_COLUMNS, "seed"]).any():
        return []
    groups = [group for _, group in runs.groupby([*CELL_COLUMNS], sort=False)]
    return [CellSeeds(group) for group in groups if group["metric"].map(isfinite).all()]


def _untold(best: CellSeeds, others: list[CellSeeds]) -> list[CellSeeds]:
    """The cells that do not differ significantly from the best, or cannot be compared."""
    values = [_chance(best, other) for other in others]
    corrected = holm(values, tests=comb(len(others) + 1, 2))  # the scores chose the best
    return [other for other, p in zip(others, corrected, strict=True) if isnan(p) or p > LEVEL]


def _chance(best: CellSeeds, other: CellSeeds) -> float:
    """The p-value of the difference of two cells; NaN where nothing is known of chance."""
    differences = best.differences(other)
    if len(differences) > 1:
        return p_value(differences)
    if best.samples is None or other.samples is None:
        return float("nan")
    spread = sqrt(sum(x.middle * (1 - x.middle) / (x.samples or 1) for x in (best, other)))
    if not spread:
        return float("nan")
    from scipy.special import ndtr

    return float(2 * ndtr(-abs(best.middle - other.middle) / spread))


def _seeds_told(best: CellSeeds, others: list[CellSeeds], count: int) -> str:
    """How many seeds would tell a difference of 1 point, or 1 % of the best, of so many cells."""
    differences_of = [
        differences for other in others if len(differences := best.differences(other)) > 1
    ]
    if not differences_of:
        return f": one seed says nothing of training's own chance, use --seeds {_FEW}"
    point = best.metric_name in units.FRACTIONS
    half_width = 0.01 if point else 0.01 * abs(best.middle)
    deviation = median(stdev(differences) for differences in differences_of)
    needed = repetitions(half_width, deviation, comb(count, 2))
    if needed is None:
        return ""
    what = "1 point" if point else f"{units.digits(half_width)} (1 %)"
    return f"; about {max(needed, _FEW)} seeds would tell a difference of {what}"


def interval_width(
    deviations: list[float], counts: list[int], typical: float, samples: int | None
) -> float:
    """The width of a typical cell's interval of 95 %: what is narrower may be chance.

    Cells of several seeds share their median deviation, with all of their degrees of freedom.
    Where no cell has several, it is Wilson's.

    Args:
        deviations: of each cell's seeds; NaN of one.
        counts: seeds of each.
        typical: a metric of a typical cell.
        samples: test samples of a share; None: not known, or not a share.

    Returns:
        In the metric's unit; 0 where nothing is known of chance.

    Example:
        >>> round(interval_width([0.02, 0.02], [3, 3], 0.9, None), 4)
        0.0641
        >>> round(interval_width([float("nan")], [1], 0.95, 600), 4)
        0.0352
    """
    pairs = [
        (deviation, n)
        for deviation, n in zip(deviations, counts, strict=True)
        if deviation == deviation and n > 1
    ]
    if pairs:
        freedom = sum(n - 1 for _, n in pairs)
        seeds = int(median(n for _, n in pairs))
        return 2 * half_of(median(deviation for deviation, _ in pairs), seeds, freedom)
    if samples is None or not 0 <= typical <= 1:
        return 0.0
    low, high = wilson(typical, samples)
    return high - low
