"""Scores of runs over their seeds and rounds."""

import math
from collections.abc import Iterable

import pandas as pd
from scipy.special import stdtrit

from fedsim import Results
from fedsim.ground.units import FRACTIONS

COLLAPSED = 10.0
"""Points below the median of a method's seeds at a place, from which on a run has collapsed."""


def wrong(right: pd.Series, scored: pd.Series) -> pd.Series:
    """The share of wrong answers of every run, a half added to right and wrong ones.

    Args:
        right: the share of right answers.
        scored: how many answers.

    Example:
        >>> wrong(pd.Series([0.9, 1.0]), pd.Series([99, 49])).round(3).tolist()
        [0.104, 0.01]
    """
    return ((1 - right) * scored + 0.5) / (scored + 1)


def collapsed(runs: pd.DataFrame, place: list[str]) -> pd.Series:
    """Which runs collapsed: their metric is far below their place's median, or not finite.

    Args:
        runs: a line each.
        place: the columns that say which runs differ by their seed alone.
    """
    metric = 100 * runs["metric"]
    median = metric.groupby([runs[name] for name in place], dropna=False).transform("median")
    return ~(metric >= median - COLLAPSED)


def half_width(values: pd.Series) -> float:
    """Half the 95 % interval of a mean over seeds, NaN of one; Student's quantile has three places.

    Example:
        >>> round(half_width(pd.Series([0.0, 1.0, 2.0])), 3)
        2.484
    """
    quantile = round(float(stdtrit(len(values) - 1, 0.975)), 3)  # as in printed tables
    return float(quantile * values.std(ddof=1) / math.sqrt(len(values)))


def shown(scores: pd.Series, metric: str) -> pd.Series:
    """Fractions in per cent, other scores as they are."""
    return scores * (100 if metric in FRACTIONS else 1)


def row_and_seed(run: object) -> tuple[str, int]:
    """The row and the seed of a run: ``sgd`` and 0 of ``sgd-seed0``."""
    name, _, seed = str(run).rpartition("-seed")
    return name, int(seed)


def rows_of(runs: Iterable[object]) -> list[str]:
    """The rows that runs belong to: ``sgd`` of ``sgd-seed0``."""
    return [row_and_seed(run)[0] for run in runs]


def of_row(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The lines of ``runs`` or ``rounds`` whose run, ``NAME-seedN``, is of the row ``name``."""
    return frame[[row == name for row in rows_of(frame.get("run", frame.index))]]


def learning(results: Results) -> pd.DataFrame:
    """The score over iterations and a client's wire bits: means over seeds, a row a moment.

    The bits are those of the updates' messages, without BatchNorm's statistics.
    """
    metric = results.runs["metric_name"].iloc[0]
    table = results.rounds.assign(name=rows_of(results.rounds["run"]))
    share = (table["up_wire_bits"] - table["up_buffer_bits"]) / table["clients"]
    table["up_bits"] = share.groupby(table["run"]).cumsum()
    table = table[table["metric"].notna()].assign(score=shown(table["metric"], metric))
    mean = table.groupby(["name", "iteration"], sort=False)[["up_bits", "score"]].mean()
    return mean.reset_index()
