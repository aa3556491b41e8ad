"""What the finals say: the metric at every budget, bits to a part of dense, ranks."""

from collections.abc import Mapping
from itertools import permutations
from math import exp, isfinite, log

import pandas as pd

from experiments.common.tables import table
from fedsim.search import mean, tied
from fedsim.units import bits as bits_told

from .rows import DENSE

PARTS = (0.95, 0.98, 0.99)
"""Parts of the dense metric: all tasks' metrics are accuracies."""


def texts(finals: pd.DataFrame, curves: pd.DataFrame) -> dict[str, str]:
    """The tables of one task in Markdown, by name."""
    return {"budgets": budgets(finals), "targets": targets(finals, curves)}


def scores(finals: pd.DataFrame) -> pd.Series:
    """The metric by method and budget, a list over seeds; NaN of a run that diverged."""
    ordered = finals.sort_values("seed", kind="stable")
    return ordered.groupby(["method", "budget"], sort=False)["metric"].agg(list)


def budgets(finals: pd.DataFrame) -> str:
    """A row per method: mean and interval in per cent at every budget; bold: tied with the best."""
    every, found = sorted(finals["budget"].unique(), reverse=True), scores(finals)
    tops = {budget: leader(found, budget) for budget in every}
    lines = []
    for method in finals["method"].unique():
        line = [method]
        for budget in every:
            values = found.get((method, budget))
            line.append(_cell(values, found.get((tops[budget], budget))) if values else "—")
        lines.append(line)
    return table(["method", *(f"{budget:g} of dense" for budget in every)], lines)


def leader(found: pd.Series, budget: float) -> str:
    """The method of the highest mean at a budget, of those whose runs all ended; or empty."""
    means = {m: mean(values).value for (m, b), values in found.items() if b == budget}
    return max((m for m in means if isfinite(means[m])), key=lambda m: means[m],
               default="")  # fmt: skip


def _cell(values: list[float], top: list[float] | None) -> str:
    ended = [value for value in values if isfinite(value)]
    if len(ended) < len(values):
        return f"{len(values) - len(ended)} of {len(values)} diverged"
    found = mean(values)
    said = f"{100 * found.value:.1f}" + (f" ± {100 * found.half:.1f}" if found.count > 1 else "")
    return f"**{said}**" if top and tied(top, values) else said


def targets(finals: pd.DataFrame, curves: pd.DataFrame) -> str:
    """A row per method: the bits to parts of the dense metric, and where they were reached."""
    rows = [(method, [reached(finals, curves, method, part) for part in PARTS])
            for method in finals["method"].unique()]  # fmt: skip
    rows.sort(key=lambda row: [found[0] for found in reversed(row[1])])
    lines = [[method, *(text for _, text in found)] for method, found in rows]
    return table(["method", *(f"to {100 * part:g} % of dense" for part in PARTS)], lines)


def reached(
    finals: pd.DataFrame, curves: pd.DataFrame, method: str, part: float
) -> tuple[float, str]:
    """The geometric mean of the bits to a part of dense, and the cell that says it.

    The budget is that whose trial reached the same part of the dense trial with the fewest bits;
    the seeds are those of the finals. Infinity where a seed does not reach it.
    """
    trials = curves[(curves["seed"] == 0) & (curves["method"] == method)]
    goal = part * _dense(curves[curves["seed"] == 0])
    there = trials[trials["metric"] >= goal]
    if there.empty:
        return float("inf"), "—"
    budget = there.loc[there["bits"].idxmin(), "budget"]
    fresh = curves[(curves["method"] == method) & (curves["seed"] > 0)]
    goal, seeds = part * _dense_finals(finals), finals["seed"].nunique()
    runs = fresh[fresh["budget"] == budget].groupby("seed")
    bits = [run.loc[run["metric"] >= goal, "bits"].min() for _, run in runs]  # NaN: not reached
    count = sum(isfinite(value) for value in bits)
    return _told(bits) if count == seeds else (float("inf"), f"{count} of {seeds} seeds")


def _told(bits: list[float]) -> tuple[float, str]:
    found = mean([log(value) for value in bits])
    factor = f" ×/÷ {exp(found.half):.1f}" if found.count > 1 else ""
    return exp(found.value), f"{bits_told(exp(found.value))}{factor}"


def _dense(curves: pd.DataFrame) -> float:
    """The last metric of the dense trial of the whole budget."""
    mine = curves[(curves["method"] == DENSE) & (curves["budget"] == 1.0)]
    if mine.empty:  # a task at fewer budgets: its largest
        mine = curves[curves["method"] == DENSE]
        mine = mine[mine["budget"] == mine["budget"].max()]
    return float(mine["metric"].iloc[-1])


def _dense_finals(finals: pd.DataFrame) -> float:
    mine = finals[finals["method"] == DENSE]
    return float(mine.loc[mine["budget"] == mine["budget"].max(), "metric"].mean())


def ranks(finals: Mapping[str, pd.DataFrame]) -> str:
    """A row per method: its mean rank over tasks and budgets (1: the best), and its duels.

    A duel is another method at one task and budget; it is won or lost where the paired differences
    of the seeds tell the two apart.
    """
    frame, told = ranked(finals), duels(finals)
    lines = []
    for method, row in frame.groupby("method")["rank"].agg(list).items():
        found, (won, lost, even) = mean(row), told[str(method)]
        said = f"{found.value:.1f}" + (f" ± {found.half:.1f}" if found.count > 1 else "")
        lines.append((found.value, [str(method), said, str(won), str(even), str(lost)]))
    lines.sort(key=lambda line: line[0])
    return table(["method", "mean rank", "won", "not told apart", "lost"],
                 [line for _, line in lines])  # fmt: skip


def duels(finals: Mapping[str, pd.DataFrame]) -> dict[str, tuple[int, int, int]]:
    """How many duels each method wins, loses, and how many do not tell the two apart."""
    counts: dict[str, list[int]] = {}
    for frame in finals.values():
        found = scores(frame)
        for budget in frame["budget"].unique():
            there = {m: values for (m, b), values in found.items() if b == budget}
            for one, other in permutations(there, 2):
                counts.setdefault(one, [0, 0, 0])[_duel(there[one], there[other])] += 1
    return {method: (won, lost, even) for method, (won, lost, even) in counts.items()}


def _duel(one: list[float], other: list[float]) -> int:
    """0: the first is better; 1: the other is; 2: they cannot be told apart."""
    ended, others = (all(map(isfinite, values)) for values in (one, other))
    if not ended or not others:
        return 2 if ended == others else int(not ended)
    if tied(one, other):
        return 2
    return int(sum(one) < sum(other))


def ranked(finals: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The rank of every method at every task and budget by its mean metric.

    A method of which no message fits, or of which a run diverged, comes last.
    """
    lines = []
    methods = sorted({m for frame in finals.values() for m in frame["method"].unique()})
    for task, frame in finals.items():
        found = scores(frame)
        for budget in sorted(frame["budget"].unique(), reverse=True):
            means = pd.Series({m: _mean(found.get((m, budget))) for m in methods})
            places = means.rank(ascending=False, method="average", na_option="bottom")
            lines += [{"task": task, "budget": budget, "method": m, "rank": places[m]}
                      for m in methods]  # fmt: skip
    return pd.DataFrame(lines)


def _mean(values: list[float] | None) -> float:
    ended = [value for value in values or () if isfinite(value)]
    return float("nan") if not values or len(ended) < len(values) else mean(values).value
