"""Scores at equal bits and at equal simulated time, with intervals over seeds."""

import math

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

from experiments.common.scores import half_width, rows_of
from experiments.common.tables import table
from fedsim import Results
from fedsim.network import parse, price

BUDGETS = ("few bits", "more bits", "little time", "more time")
"""The budgets: bits that a client has sent, and simulated seconds; each of one of two cells."""

EQUAL = 1e-9
"""Half of an interval up to which a controller's runs are the cell's."""

SAID = {"level": "cannot be told"}
"""Verdicts as tables have them, where that is another word than in the CSV files."""


def priced(results: Results, network: str) -> pd.DataFrame:
    """The rounds of all runs with ``seconds`` on the network's clock and a client's ``up_bits``."""
    tables = []
    for run, rounds in results.rounds.groupby("run", sort=False):
        told = results.runs.loc[run]
        clients = pd.read_parquet(results.folders[run] / "clients.parquet")
        timed, _ = price(rounds, clients, parse(network), int(told["clients"]), int(told["seed"]))
        bits = (timed["up_wire_bits"] / timed["clients"]).cumsum()
        tables.append(timed.assign(up_bits=bits, seconds=timed["sim_end_seconds"]))
    return pd.concat(tables)


def curves(rounds: pd.DataFrame) -> pd.DataFrame:
    """A row per run and evaluation: name, seed, iteration, bits, seconds, score."""
    scored = rounds[rounds["metric"].notna()]
    return pd.DataFrame(
        {
            "name": rows_of(scored["run"]),
            "seed": scored["seed"].to_numpy(),
            "iteration": scored["iteration"].to_numpy(),
            "up_bits": scored["up_bits"].to_numpy(),
            "seconds": scored["seconds"].to_numpy(),
            "score": scored["metric"].to_numpy(),
        }
    )


def budgets(lines: pd.DataFrame, small: str, large: str) -> pd.DataFrame:
    """The four budgets: what two fixed cells have spent in the end, the mean over seeds."""
    ends = lines.groupby(["name", "seed"])[["up_bits", "seconds"]].max()
    means = ends.groupby("name").mean()
    values = [means.loc[cell, unit] for unit in ("up_bits", "seconds") for cell in (small, large)]
    units = ["up_bits", "up_bits", "seconds", "seconds"]
    return pd.DataFrame({"budget": BUDGETS, "unit": units, "value": values})


def within(lines: pd.DataFrame, unit: str, most: float) -> pd.Series:
    """The score of every run at a budget, between two evaluations on the line through them.

    NaN where the first evaluation is beyond the budget. A run that ends before it has spent the
    budget has the score of its end.

    Example:
        >>> lines = pd.DataFrame({"name": "a", "seed": 0, "up_bits": [10, 20], "score": [0.0, 1.0]})
        >>> [float(within(lines, "up_bits", most).iloc[0]) for most in (5, 15, 30)]
        [nan, 0.5, 1.0]
    """
    runs = lines.groupby(["name", "seed"], sort=False)
    scores = {key: np.interp(most, run[unit], run["score"], left=np.nan) for key, run in runs}
    return pd.Series(scores).rename_axis(["name", "seed"])


def compared(lines: pd.DataFrame, limits: pd.DataFrame, moving: list[str]) -> pd.DataFrame:
    """A row per budget and method: the mean score, its interval, and the controllers' verdicts.

    ``gap`` is the mean over seeds of a controller's score less that of the best fixed cell of that
    budget, by the mean over the same seeds; ``gap_interval`` is half the width of its 95 % interval
    (Student's t over paired seeds), ``chance`` that test's p. A controller wins or loses where the
    interval lies on one side.
    """
    rows = []
    for _, limit in limits.iterrows():
        scores = within(lines, limit["unit"], limit["value"]).unstack("seed")
        scores = scores.reindex(lines["name"].unique())
        fixed = scores.drop(index=moving)
        best = fixed.mean(axis=1, skipna=False).idxmax()
        for name, mine in scores.iterrows():
            row = {
                "budget": limit["budget"],
                "name": name,
                "score": mine.mean(skipna=False),
                "interval": half_width(mine),
                "best": name == best,
            }
            if name in moving:
                row |= judged(mine - fixed.loc[best])
            rows.append(row)
    return pd.DataFrame(rows)


def from_start(
    lines: pd.DataFrame, limits: pd.DataFrame, moving: list[str], start: str
) -> pd.DataFrame:
    """A row per budget and controller: what it gains on the cell that it starts from.

    Args:
        lines: as ``curves`` gives them.
        limits: as ``budgets`` gives them.
        moving: the controllers' names.
        start: the cell's name.
    """
    rows = []
    for _, limit in limits.iterrows():
        scores = within(lines, limit["unit"], limit["value"]).unstack("seed")
        for name in moving:
            gaps = scores.loc[name] - scores.loc[start]
            rows.append({"budget": limit["budget"], "name": name, **judged(gaps)})
    return pd.DataFrame(rows)


def judged(gaps: pd.Series) -> dict[str, float | str]:
    """The mean of gaps over seeds, half its interval, the paired test's p, and the verdict.

    The p is NaN where a gap is, or where all are equal.

    Example:
        >>> told = judged(pd.Series([0.1, 0.3]))
        >>> told["verdict"], round(told["chance"], 3)
        ('level', 0.295)
    """
    gap, half = float(gaps.mean(skipna=False)), half_width(gaps)
    differ = gaps.notna().all() and half > EQUAL
    chance = float(ttest_1samp(gaps, 0).pvalue) if differ else math.nan
    return {"gap": gap, "gap_interval": half, "chance": chance, "verdict": verdict(gap, half)}


def verdict(gap: float, interval: float) -> str:
    """``wins``, ``loses``, or ``level`` where 0 lies in the interval or there is none.

    ``late``: the first evaluation of a seed, of the controller's or of the cell's, is beyond the
    budget.

    Example:
        >>> verdict(0.02, 0.01), verdict(-0.02, 0.03), verdict(math.nan, math.nan)
        ('wins', 'level', 'late')
    """
    if math.isnan(gap):
        return "late"
    if not abs(gap) > interval:
        return "level"
    return "wins" if gap > 0 else "loses"


def markdown(frame: pd.DataFrame, limits: pd.DataFrame) -> str:
    """A table of scores, a line per method and a column per budget, and one of the gaps."""
    names = list(dict.fromkeys(frame["name"]))
    places = {(row["budget"], row["name"]): row for _, row in frame.iterrows()}
    heads = [f"{row['budget']} ({_amount(row)})" for _, row in limits.iterrows()]
    moving = [n for n in names if isinstance(places[BUDGETS[0], n].get("verdict"), str)]
    fixed = [n for n in names if n not in moving]
    first = [[n, *(_score(places[b, n]) for b in BUDGETS)] for n in (*fixed, *moving)]
    against = gap_table("the best fixed cell", frame[frame["name"].isin(moving)], limits)
    return f"{table(['accuracy (%)', *heads], first)}\n{against}"


def gap_table(cell: str, gaps: pd.DataFrame, limits: pd.DataFrame) -> str:
    """A table of gaps to ``cell``, a line per controller and a column per budget."""
    heads = [f"{row['budget']} ({_amount(row)})" for _, row in limits.iterrows()]
    lines = [
        [str(name), *(_gap(row) for _, row in mine.iterrows())]
        for name, mine in gaps.groupby("name", sort=False)
    ]
    return table([f"less {cell}", *heads], lines)


def _amount(limit: pd.Series) -> str:
    if limit["unit"] == "seconds":
        return f"{limit['value']:.1f} s"
    return f"{limit['value'] / 1e3:.0f} kbit"


def _score(row: pd.Series) -> str:
    if pd.isna(row["score"]):
        return "no score yet"
    text = f"{100 * row['score']:.1f}{_interval(row['interval'])}"
    return f"**{text}**" if row["best"] else text


def _gap(row: pd.Series) -> str:
    if pd.isna(row["gap"]):
        return "no score yet"
    return f"{signed(100 * row['gap'])}{_interval(row['gap_interval'])}, {said(row['verdict'])}"


def said(verdict: str) -> str:
    """A verdict in the words of the tables.

    Example:
        >>> said("level"), said("loses")
        ('cannot be told', 'loses')
    """
    return SAID.get(verdict, verdict)


def signed(points: float) -> str:
    """Points with their sign; what rounds to nothing has no minus.

    Example:
        >>> signed(-0.01), signed(1.25)
        ('+0.0', '+1.2')
    """
    return f"{round(points, 1) + 0.0:+.1f}"


def _interval(half: float) -> str:
    """Nothing where there is one seed."""
    return "" if pd.isna(half) else f" ± {100 * half:.1f}"
