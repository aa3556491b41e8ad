"""Many methods over the tasks and seeds that all have: each by its best cell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.network.quantities import quantity
from fedsim.network.rates import ROUNDED
from fedsim.results.compare import by_folder, without_reference
from fedsim.results.load import Results
from fedsim.results.ranks import Comparison, Test, compare_values
from fedsim.show.curves import both_ways, spent_so_far

_CELL = ["task", "label", "temporal", "gradient"]


@dataclass(frozen=True)
class Blocks:
    """The scores of methods in each block.

    Attributes:
        values: a row per block (index: task and seed) that all methods have, a column per method.
        cells: a row per task, method and budget: task, label, budget (in bits; infinite: none),
            temporal, gradient (the best cell), cells (of how many), metric and bits (means over
            its seeds).
        metric_name: what the metric is called.
        higher: whether a higher one is better.
        left_out: blocks that some method has and another has not.
        failed: runs that failed.
        budget_of: "up" or "total": which bits are counted.
    """

    values: pd.DataFrame
    cells: pd.DataFrame
    metric_name: str
    higher: bool
    left_out: int
    failed: int
    budget_of: str = "up"


def compare_methods(
    *paths: Path | str,
    reference: str | None = None,
    margin: float | None = None,
    test: Test = "t",
    budgets: Sequence[float | str] = (),
    budget_of: str = "up",
) -> Comparison:
    """Compares the methods of folders over the tasks and seeds (blocks) that all have.

    Each method counts with its best cell (n, p) of a task: the best mean over its seeds, of the
    last evaluation, or of the last within a budget. The same seeds choose the cell and judge it,
    which favours methods with many cells. With several budgets a block has the mean, because the
    parts of one run are not repetitions. Dense references are left out, unless a folder holds
    nothing else. Failed runs do not count.

    Args:
        paths: runs or sweeps, one or several; each may hold several methods and seeds.
        reference: the method that differences are to; None: that of the best mean.
        margin: in the metric's unit; None: 0.01 of a fraction such as accuracy.
        test: of pairs of methods: "t" (paired, Student's) or "wilcoxon" (signed ranks); p-values
            of all pairs are corrected by Holm's method.
        budgets: in bits (`2e6`, `"2Mbit"`); none: the last evaluation of every run.
        budget_of: "up": of what a client sends; "total": of what it sends and receives.

    Returns:
        The comparison: tables `methods`, `pairs` and `values`, Friedman's test, Nemenyi's critical
        difference, and the sentence `answer`.

    Raises:
        UsageError: as `fedsim.load`; fewer than two methods or common blocks; several runs of a
            cell and seed; several metrics; no evaluation of a method within a budget; an unknown
            reference, test or way; `margin` is not above 0.

    Example:
        found = fedsim.compare_methods("results/sbc", "results/dropping", "results/stc")
        print(found.answer)
    """
    blocks = blocks_of(by_folder(*paths), budgets, budget_of)
    return compared_blocks(blocks, reference, margin, test)


def compared_blocks(
    blocks: Blocks, reference: str | None = None, margin: float | None = None, test: Test = "t"
) -> Comparison:
    """``compare_values`` of blocks."""
    return compare_values(
        blocks.values, blocks.metric_name, blocks.higher, reference, margin, test, blocks.left_out
    )


def blocks_of(
    results: Sequence[Results], budgets: Sequence[float | str] = (), budget_of: str = "up"
) -> Blocks:
    """The blocks of several results."""
    limits = [quantity(budget, "--budget", "bits") for budget in budgets] or [float("inf")]
    both_ways(budget_of)  # refuses another word
    compressed = [replace(result, runs=without_reference(result.runs)) for result in results]
    runs = pd.concat([result.runs for result in compressed])
    metrics = sorted({*runs["metric_name"]})
    if len(metrics) > 1:
        raise UsageError(
            f"the runs have {len(metrics)} metrics ({', '.join(metrics)}): "
            "differences need one; give the folders of one"
        )
    places = [
        str(result.folders.get(str(run), run)) for result in compressed for run in result.runs.index
    ]
    _check_repeated(
        runs.set_axis(places).drop_duplicates([*_CELL, "seed", "metric", "up_wire_bits"])
    )
    scores = pd.concat(
        [_scores(result, limit, budget_of) for result in compressed for limit in limits]
    )
    scores = scores.drop_duplicates([*_CELL, "seed", "budget"])  # a run that several folders hold
    _check_reached(runs, scores, limits)
    best = _best_cells(scores, bool(runs["higher_is_better"].all()))
    chosen = scores.merge(best[[*_CELL, "budget"]])
    lists = chosen.pivot_table(
        index=["task", "seed"], columns="label", values="metric", aggfunc=list, sort=True
    )
    complete = lists.map(lambda x: len(x) == len(limits) if isinstance(x, list) else False)
    values = lists[complete.all(axis=1)].map(lambda x: sum(x) / len(x))
    failed = sum(
        int(((result.runs["status"] == "failed") & result.runs["label"].isin(runs["label"])).sum())
        for result in results
    )
    return Blocks(
        values.astype(float),
        best,
        "".join(metrics),
        bool(runs["higher_is_better"].all()),
        len(lists) - len(values),
        failed,
        budget_of,
    )


def _check_repeated(runs: pd.DataFrame) -> None:
    repeated = runs[runs.duplicated([*_CELL, "seed"], keep=False)]
    if len(repeated):
        _, label, n, p, seed = repeated.iloc[0][[*_CELL, "seed"]]
        raise UsageError(
            f"{' and '.join(map(str, repeated.index[:2]))} are of one method, {label}, of one "
            f"cell, n = {n} and p = {p:g}, and of one seed, {seed}; give a folder with one of them"
        )


def _check_reached(runs: pd.DataFrame, scores: pd.DataFrame, limits: Sequence[float]) -> None:
    for limit in limits:
        have = {*scores.loc[scores["budget"] == limit, "label"]}
        if missing := sorted({*runs["label"]} - have):
            within = "" if limit == float("inf") else f" within {units.bits(limit)}"
            raise UsageError(
                f"{', '.join(missing)}: no evaluation{within}; give a larger --budget "
                "or leave the method out"
            )


def _scores(results: Results, limit: float, budget_of: str) -> pd.DataFrame:
    """The score of each run within a budget, and the bits of a client by then."""
    runs, keys = results.runs, [*_CELL, "seed"]
    if limit == float("inf"):
        bits = runs["up_wire_bits"]
        bits = bits + runs["down_wire_bits"] if both_ways(budget_of) else bits
        table = runs[[*keys, "metric"]].assign(bits=bits, budget=limit)
        return table[table["metric"].notna()]
    rounds = results.rounds[results.rounds["run"].isin(runs.index)]
    rounds = rounds.sort_values(["run", "round"])
    rounds = rounds.assign(bits=spent_so_far(rounds, "wire", budget_of), budget=limit)
    within = rounds[(rounds["bits"] <= limit * ROUNDED) & rounds["metric"].notna()]
    return within.drop_duplicates("run", keep="last")[[*keys, "metric", "bits", "budget"]]


def _best_cells(scores: pd.DataFrame, higher: bool) -> pd.DataFrame:
    """The best cell of every task, method and budget, among those with the most seeds."""
    cells = scores.groupby([*_CELL, "budget"], as_index=False).agg(
        metric=("metric", "mean"), bits=("bits", "mean"), seeds=("seed", "nunique")
    )
    groups = cells.groupby(["task", "label", "budget"])
    cells = cells.assign(cells=groups["seeds"].transform("size"))
    cells = cells[cells["seeds"] == groups["seeds"].transform("max")]
    cells = cells.sort_values(["metric", "bits"], ascending=[not higher, True], kind="stable")
    best = cells.drop_duplicates(["task", "label", "budget"])
    columns = ["task", "label", "budget", "temporal", "gradient", "cells", "metric", "bits"]
    return best.sort_values(["task", "label", "budget"])[columns].reset_index(drop=True)
