"""Two lots of runs, cell by cell: a paired test over the seeds that both have."""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite, isnan, nan, sqrt
from pathlib import Path
from statistics import stdev
from typing import Any

import pandas as pd

from fedsim.ground.errors import UsageError
from fedsim.results.intervals import mean
from fedsim.results.labels import in_order, reference
from fedsim.results.load import Results, load_results

LEVEL = 0.05
"""A difference is significant if its corrected p-value is not above this."""

_CELL = ["temporal", "gradient"]


def compare(first: str | Path, other: str | Path) -> pd.DataFrame:
    """Compares the finished runs of two folders, cell by cell, over the seeds that both have.

    A cell of the one folder goes with the cell of the same n and p of the other. Folders with one
    cell each are compared for any n and p. Dense references are left out, unless a folder holds
    nothing else. The test is Student's, of the differences seed by seed, two-sided; over several
    cells p-values are corrected by Holm's method.

    Args:
        first: a run, or a sweep of one method with several seeds.
        other: what it is compared with.

    Returns:
        A row per cell: temporal and gradient (of the first), method and other_method as figures
        call them, with the settings in which they differ, seeds (how many both have), failed and
        other_failed (seeds of each that failed and count nowhere), metric_name, metric and
        other_metric (means of the last evaluation), difference (first less other), half (half the
        width of its interval of 95 %, uncorrected), p_value, p_corrected, up_bits and other_up_bits
        (wire, of one client of every round, means), total_bits and other_total_bits (both ways, of
        the whole federation, means), and verdict: "first", "other" (is better) or "" (cannot be
        told).

    Raises:
        UsageError: a folder cannot be read, holds several methods, or several runs of a cell and
            seed; no cell or no two seeds are in both; tasks, metrics or data differ.

    Example:
        >>> compare("results/sbc", "results/dropping")  # doctest: +SKIP
    """
    frames = [results.runs for results in by_folder(first, other)]
    return compare_frames((frames[0], str(first)), (frames[1], str(other)))


def by_folder(*paths: str | Path) -> list[Results]:
    """The results of each folder, whose methods are called as when all are loaded together.

    Raises ``UsageError`` as ``load(*paths)``.
    """
    together = load_results(*paths)  # refuses what no table may hold together
    items = together.runs["label"].items()
    labels = {together.folders[run].resolve(): label for run, label in items}
    lots, label_of = [], dict[str, str]()
    for results in map(load_results, paths):
        runs = results.runs
        places = [results.folders[run].resolve() for run in runs.index]
        pairs = list(zip(runs["label"], map(labels.get, places), strict=True))
        # A run that several hold counts once there, and is called as others of its settings.
        label_of |= {local: label for local, label in pairs if label}
        names = pd.Series([label or label_of.get(x, x) for x, label in pairs], runs.index)
        rounds = results.rounds.assign(label=results.rounds["run"].map(names))
        lots.append(replace(results, runs=runs.assign(label=names), rounds=rounds))
    return lots


def without_reference(runs: pd.DataFrame) -> pd.DataFrame:
    """The rows that are done, without dense references unless there is nothing else."""
    done = runs[runs["status"] == "done"]
    lots = (done[~done["dense"]], done[~reference(done)])
    return next((table for table in lots if len(table)), done)


def compare_frames(*named: tuple[pd.DataFrame, str]) -> pd.DataFrame:
    """Compares the runs of two frames, as ``compare`` does those of two folders.

    ``named``: two pairs of rows of ``load(...).runs``, and what messages call them.

    Raises ``UsageError`` as ``compare``; or the runs are of several tasks.
    """
    lots, failed = [], []
    for runs, name in named:
        lots.append(without_reference(runs))
        methods = in_order(lots[-1]["label"])
        if len(methods) != 1:
            held = f"it holds {', '.join(methods)}" if methods else "no run in it is done"
            raise UsageError(f"{name}: {held}; give folders of one method each")
        failed.append(runs[(runs["status"] == "failed") & (runs["label"] == methods[0])])
    (_, first), (_, other) = named
    tasks = sorted({*lots[0]["task"], *lots[1]["task"]})
    if len(tasks) > 1:
        raise UsageError(f"{first} and {other} are of {len(tasks)} tasks: {', '.join(tasks)}")
    for group, (_, name) in zip(lots, named, strict=True):
        for (n, p, seed), runs in group.groupby([*_CELL, "seed"]):
            if len(runs) > 1:
                raise UsageError(
                    f"{name}: {' and '.join(map(str, runs.index))} are of one cell, n = {n} and "
                    f"p = {p:g}, and of one seed, {seed}; give a folder that holds one of them"
                )
    cells = [sorted({*zip(*(group[name] for name in _CELL), strict=True)}) for group in lots]
    single = all(len(group) == 1 for group in cells)
    pairs = [(cells[0][0], cells[1][0])] if single else [(c, c) for c in cells[0] if c in cells[1]]
    if not pairs:
        raise UsageError(f"{first} and {other} have no cell (n, p) in common")
    rows = [row for pair in pairs if (row := _row(lots, failed, pair))["seeds"] > 1]
    if not rows:
        raise UsageError(
            f"{first} and {other} have no two seeds in common: train both with `fedsim sweep "
            "--seeds N`, the same N, five or more"
        )
    table = pd.DataFrame(rows)
    table["p_corrected"] = holm(table["p_value"].tolist())
    higher = bool(lots[0]["higher_is_better"].iloc[0])
    is_significant = table["p_corrected"] <= LEVEL
    ahead = (table["difference"] > 0) == higher
    table["verdict"] = [
        ("first" if a else "other") if t else "" for t, a in zip(is_significant, ahead, strict=True)
    ]
    return table


def _row(
    lots: Sequence[pd.DataFrame], failed: Sequence[pd.DataFrame], pair: Sequence[tuple[int, float]]
) -> dict[str, Any]:
    """The comparison of two cells over their common seeds; with fewer than two, their number."""
    first, other, first_failed, other_failed = (
        table[(table[_CELL] == list(cell)).all(axis=1)].set_index("seed").sort_index()
        for table, cell in zip((*lots, *failed), (*pair, *pair), strict=True)
    )
    # A seed that failed and was done again has not failed.
    lost = [len({*f.index} - {*d.index}) for f, d in ((first_failed, first), (other_failed, other))]
    seeds = first.index.intersection(other.index)
    first, other = first.loc[seeds], other.loc[seeds]
    if len(seeds) < 2:
        return {"seeds": len(seeds)}
    differences = (first["metric"] - other["metric"]).tolist()
    interval = mean(differences)
    return {
        "temporal": int(first["temporal"].iloc[0]),
        "gradient": float(first["gradient"].iloc[0]),
        "method": first["label"].iloc[0],
        "other_method": other["label"].iloc[0],
        "seeds": len(seeds),
        "failed": lost[0],
        "other_failed": lost[1],
        "metric_name": first["metric_name"].iloc[0],
        "metric": first["metric"].mean(),
        "other_metric": other["metric"].mean(),
        # The sign of what is not finite counts.
        "difference": interval.value if isfinite(interval.value) else sum(differences) / len(seeds),
        "half": interval.half,
        "p_value": p_value(differences),
        "p_corrected": nan,
        "up_bits": first["up_wire_bits"].mean(),
        "other_up_bits": other["up_wire_bits"].mean(),
        "total_bits": first["total_bits"].mean(),
        "other_total_bits": other["total_bits"].mean(),
    }


def p_value(differences: list[float]) -> float:
    """Student's, of the mean against 0, two-sided; NaN of one value, or where one is not finite.

    Where all differences are equal up to rounding, it is 1 for a difference of 0 and NaN for any
    other.

    Example:
        >>> round(p_value([0.01, 0.02, 0.03]), 4), p_value([0.0, 0.0]), p_value([0.1, 0.1])
        (0.0742, 1.0, nan)
    """
    from scipy.special import stdtr  # scipy.stats takes a second to import

    count = len(differences)
    if count < 2 or not all(map(isfinite, differences)):
        return nan
    middle, spread = sum(differences) / count, stdev(differences)
    if spread <= 1e-9 * abs(middle):
        return 1.0 if middle == 0 else nan
    return float(2 * stdtr(count - 1, -abs(middle) / spread * sqrt(count)))


def holm(values: list[float], tests: int = 0) -> list[float]:
    """P-values for so many tests at once, by Holm (1979), in the order given.

    ``tests``: how many tests there are, if those of ``values`` were chosen from more by the data.
    The others count as if none of them had a smaller p-value, which corrects at least as much as
    Holm over all of them.

    Example:
        >>> [round(p, 9) for p in holm([0.04, 0.01, 0.03])]
        [0.06, 0.03, 0.06]
        >>> [round(p, 9) for p in holm([0.04, 0.01, 0.03], tests=6)]
        [0.16, 0.06, 0.15]
    """
    corrected, least = [nan] * len(values), 0.0
    ordered = sorted((p, at) for at, p in enumerate(values) if not isnan(p))
    for rank, (value, at) in enumerate(ordered):
        least = max(least, min(1.0, value * (max(tests, len(ordered)) - rank)))
        corrected[at] = least
    return corrected
