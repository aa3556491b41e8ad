"""What the finals say: the metric at every budget, bits to a part of dense, ranks."""

from collections.abc import Mapping
from itertools import permutations
from math import exp, isfinite, log

import pandas as pd

from experiments.common.tables import table
from fedsim.ground.units import bits as bits_told
from fedsim.search import mean, tied

from .rows import DENSE, kind

PARTS = (0.95, 0.98, 0.99)
"""Parts of the dense metric: all tasks' metrics are accuracies."""

_DIGITS = 5  # of means that are equal: the CSV files have six


def texts(finals: pd.DataFrame, curves: pd.DataFrame) -> dict[str, str]:
    """The tables of one task in Markdown, by name."""
    return {"kinds": kinds(finals), "budgets": budgets(finals), "targets": targets(finals, curves)}


def kinds(finals: pd.DataFrame) -> str:
    """A row per kind of method: at every budget its best, and that one's mean in per cent."""
    every, metrics = sorted(finals["budget"].unique(), reverse=True), scores(finals)
    names = list(dict.fromkeys(kind(method) for method in finals["method"].unique()))
    lines = []
    for name in names:
        own = metrics[[kind(method) == name for method, _ in metrics.index]]
        tops = {budget: leader(own, budget) for budget in every}
        lines.append([name, *(
            f"{top} {100 * mean(own[top, budget]).value:.1f}" if top else "—"
            for budget, top in tops.items()
        )])  # fmt: skip
    return table(["kind", *(f"{budget:g} of dense" for budget in every)], lines)


def scores(finals: pd.DataFrame) -> pd.Series:
    """The metric by method and budget, a list over seeds; NaN of a run that diverged."""
    ordered = finals.sort_values("seed", kind="stable")
    return ordered.groupby(["method", "budget"], sort=False)["metric"].agg(list)


def budgets(finals: pd.DataFrame) -> str:
    """A row per method: mean and interval in per cent at every budget; bold: tied with the best."""
    every, metrics = sorted(finals["budget"].unique(), reverse=True), scores(finals)
    tops = {budget: leader(metrics, budget) for budget in every}
    lines = []
    for method in finals["method"].unique():
        line = [method]
        for budget in every:
            values = metrics.get((method, budget))
            line.append(_cell(values, metrics.get((tops[budget], budget))) if values else "—")
        lines.append(line)
    return table(["method", *(f"{budget:g} of dense" for budget in every)], lines)


def leader(metrics: pd.Series, budget: float) -> str:
    """The method of the highest mean at a budget, of those whose runs all ended; or empty."""
    means = {m: mean(values).value for (m, b), values in metrics.items() if b == budget}
    return max((m for m in means if isfinite(means[m])), key=lambda m: means[m],
               default="")  # fmt: skip


def _cell(values: list[float], top: list[float] | None) -> str:
    ended = [value for value in values if isfinite(value)]
    if len(ended) < len(values):
        return f"{len(values) - len(ended)} of {len(values)} diverged"
    average = mean(values)
    half = f" ± {100 * average.half:.1f}" if average.count > 1 else ""
    said = f"{100 * average.value:.1f}{half}"
    return f"**{said}**" if top and tied(top, values) else said


def targets(finals: pd.DataFrame, curves: pd.DataFrame) -> str:
    """A row per method: the bits to parts of the dense metric, and where they were reached."""
    rows = [(method, [reached(finals, curves, method, part) for part in PARTS])
            for method in finals["method"].unique()]  # fmt: skip
    rows.sort(key=lambda row: [cells[0] for cells in reversed(row[1])])
    lines = [[method, *(text for _, text in cells)] for method, cells in rows]
    return table(["method", *(f"to {100 * part:g} % of dense" for part in PARTS)], lines)


def reached(
    finals: pd.DataFrame, curves: pd.DataFrame, method: str, part: float
) -> tuple[float, str]:
    """The fewest bits to a part of dense, over the budgets, and the cell that says them.

    At each budget the bits are the geometric mean of the seeds, all of which must reach it. Where
    they do at none, the bits are infinite, and the cell says how many seeds did at the best.
    """
    dense = finals[finals["method"] == DENSE]
    dense = dense.loc[dense["budget"] == dense["budget"].max(), "metric"]
    goal, seeds = part * float(dense.mean()), finals["seed"].nunique()
    cells, most = [], 0
    for _, runs in curves[curves["method"] == method].groupby("budget"):
        there = runs[runs["metric"] >= goal].groupby("seed")["bits"].min()
        most = max(most, len(there))
        if len(there) == seeds:
            average = mean([log(value) for value in there])
            factor = f" ×/÷ {exp(average.half):.1f}" if average.count > 1 else ""
            bits = exp(average.value)
            cells.append((bits, f"{bits_told(bits)}{factor}"))
    return min(cells, default=(float("inf"), f"{most} of {seeds} seeds" if most else "—"))


def ranks(finals: Mapping[str, pd.DataFrame]) -> str:
    """A row per method: its mean rank over tasks and budgets (1: the best), and its duels.

    A duel is another method at one task and budget; it is won or lost where the paired differences
    of the seeds tell the two apart.
    """
    told = duels(finals).groupby("one")[["won", "lost", "even"]].sum()
    lines = []
    for method, row in places(finals).items():
        average = mean(row)
        said = f"{average.value:.1f}" + (f" ± {average.half:.1f}" if average.count > 1 else "")
        lines.append([method, said, *(str(told.loc[method, n]) for n in ("won", "even", "lost"))])
    return table(["method", "mean rank", "won", "not told apart", "lost"], lines)


def places(finals: Mapping[str, pd.DataFrame]) -> dict[str, list[float]]:
    """The ranks of each method over tasks and budgets, the method of the best mean first."""
    ranks_of = ranked(finals).groupby("method")["rank"].agg(list)
    order = sorted(ranks_of.index, key=lambda method: mean(ranks_of[method]).value)
    return {str(method): ranks_of[method] for method in order}


def duels(finals: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A line per two methods, ``one`` and ``other``: at how many tasks and budgets ``one`` won,
    lost, and could not be told apart (``even``)."""
    counts: dict[tuple[str, str], list[int]] = {}
    for frame in finals.values():
        metrics = scores(frame)
        for budget in frame["budget"].unique():
            there = {m: values for (m, b), values in metrics.items() if b == budget}
            for first, other in permutations(there, 2):
                counts.setdefault((first, other), [0, 0, 0])[_duel(there[first], there[other])] += 1
    lines = [[*pair, *count] for pair, count in counts.items()]
    return pd.DataFrame(lines, columns=["one", "other", "won", "lost", "even"])


def _duel(first: list[float], other: list[float]) -> int:
    """0: the first is better; 1: the other is; 2: they cannot be told apart."""
    ended, others = (all(map(isfinite, values)) for values in (first, other))
    if not ended or not others:
        return 2 if ended == others else int(not ended)
    if tied(first, other):
        return 2
    return int(sum(first) < sum(other))


def ranked(finals: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The rank of every method at every task and budget by its mean metric.

    A method of which no message fits, or of which a run diverged, comes last.
    """
    lines = []
    methods = sorted({m for frame in finals.values() for m in frame["method"].unique()})
    for task, frame in finals.items():
        metrics = scores(frame)
        for budget in sorted(frame["budget"].unique(), reverse=True):
            there = {m: metrics.get((m, budget)) or [float("nan")] for m in methods}
            ended = {m: all(map(isfinite, values)) for m, values in there.items()}
            means = pd.Series({
                m: mean(values).value if ended[m] else float("nan") for m, values in there.items()
            }).round(_DIGITS)  # fmt: skip
            places = means.rank(ascending=False, method="average", na_option="bottom")
            lines += [{"task": task, "budget": budget, "method": m, "rank": places[m]}
                      for m in methods]  # fmt: skip
    return pd.DataFrame(lines)
