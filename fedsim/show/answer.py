"""The best choice within a budget of bits: the best cell of every method, by its messages."""

from math import log10

import numpy as np
import pandas as pd
from rich.console import Group

from fedsim.ground import units
from fedsim.network.quantities import quantity
from fedsim.results.load import Results
from fedsim.show.budgets import Steps, steps_of
from fedsim.show.columns import framing_told
from fedsim.show.curves import spent_so_far
from fedsim.show.inputs import check_frame, check_repeated, check_task, of_done
from fedsim.show.layout import text_table
from fedsim.show.style import higher_is_better, metric_name

_CELL = ["label", "temporal", "gradient"]
_SHOWN = [*_CELL, "seeds", "most_seeds", "iteration", "metric", "metric_sd", "spent"]
_USED = {"up": ("up_wire_bits", "uplink used"), "total": ("total_wire_bits", "bits used")}
"""The name of the column of bits and its heading, by the bits that a budget counts."""
_Cells = list[tuple[tuple[str, int, float], Steps]]
SEEDS = (
    "A cell counts with its last evaluation within the budget, the mean of its seeds ± their "
    "deviation (how many). 1 of 3: the cell has fewer seeds than others."
)
_ROWS = 8


def best(
    results: Results | pd.DataFrame, up_bits: float | str, budget_of: str = "up"
) -> pd.DataFrame:
    """The best cell (n, p) of every method where a client may spend at most `up_bits`.

    A cell counts with the last evaluation within the budget, not with its best one, which could be
    chosen in hindsight alone: the mean over its seeds, all of which have one. Bits are whole
    messages (wire) of a client that takes part in every round.
    `fedsim.search` judges its trials in the same way.

    Args:
        results: what `fedsim.load(...)` gave, or rows of its frame `rounds`; of one task. Runs that
            are not done are left out.
        up_bits: the budget in bits: `2e6`, or a text such as `"2Mbit"`.
        budget_of: "up": of what a client sends; "total": of what it sends and receives.

    Returns:
        A row per method, the best first: label; temporal and gradient of the cell; seeds, how many,
        and most_seeds, of any cell of the results; iteration, metric and metric_sd (the seeds'
        sample deviation, NaN of one) of those evaluations; up_wire_bits, which a client had sent
        by then, on average over the seeds; of "total" total_wire_bits, both ways. A method that had
        no evaluation within the budget comes last, with NaN.

    Raises:
        UsageError: the budget is not a number of bits above 0; unknown `budget_of`; no results, or
            several tasks.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        fedsim.best(results, up_bits="2Mbit")
    """
    rounds = _rounds(results)
    budget = quantity(up_bits, "up_bits", "bits")
    table = _within(_cells(rounds, budget_of), budget, higher_is_better(rounds))
    return table.rename(columns={"spent": _USED[budget_of][0]})


def ladder(results: Results | pd.DataFrame, budget_of: str = "up") -> pd.DataFrame:
    """The best of all methods for rising budgets: 1, 2 and 5 times powers of ten, or those alone.

    Returns:
        The columns of `best` behind `budget`, in bits; the last is infinite: no limit.

    Raises:
        UsageError: as `best`.
    """
    rounds = _rounds(results)
    cells, higher = _cells(rounds, budget_of), higher_is_better(rounds)
    spent = np.concatenate([cell.budgets for _, cell in cells])
    spent = spent[spent > 0] if (spent > 0).any() else np.ones(1)  # a cell may have sent nothing
    low, high = spent.min(), spent.max()
    powers = range(int(log10(low)) - 1, int(log10(high)) + 2)
    for digits in ((1, 2, 5), (1,)):
        steps = np.array([digit * 10.0**power for power in powers for digit in digits])
        steps = steps[(steps >= low) & (steps < high)]
        if len(steps) < _ROWS:
            break
    limits = [*steps, float("inf")]
    rows = [_within(cells, budget, higher).head(1) for budget in limits]
    table = pd.concat(rows, ignore_index=True).assign(budget=limits)[["budget", *_SHOWN]]
    return table.rename(columns={"spent": _USED[budget_of][0]})


def _rounds(results: Results | pd.DataFrame) -> pd.DataFrame:
    rounds = results.done_rounds if isinstance(results, Results) else results
    check_frame(rounds, "rounds", "best()")
    rounds = of_done(rounds)
    check_task(rounds)
    return rounds


def _cells(rounds: pd.DataFrame, budget_of: str) -> _Cells:
    table = rounds.sort_values(["run", "round"])
    table["spent"] = spent_so_far(table, "wire", budget_of)
    table = table[table["metric"].notna()]
    check_repeated(table, [*_CELL, "seed", "round"])
    groups = table.groupby(_CELL)
    keys = [key for key, _ in groups]
    steps = steps_of(table.assign(_cell=groups.ngroup()), "spent")
    return list(zip(keys, steps, strict=True))


def _within(cells: _Cells, budget: float, higher: bool) -> pd.DataFrame:
    """The best cell of every method within a budget, the best method first."""
    most_seeds = max((cell.seeds for _, cell in cells), default=0)
    rows = [
        (
            *key,
            cell.seeds,
            most_seeds,
            round(cell.iteration[place]),
            cell.metric[place],
            cell.spread[place],
            cell.spent[place],
        )
        for key, cell in cells
        if (place := int(cell.at(budget))) >= 0
    ]
    affordable = pd.DataFrame(rows, columns=_SHOWN)
    affordable = affordable.sort_values(["metric", "spent"], ascending=[not higher, True])
    reached = affordable.drop_duplicates("label")
    missing = sorted({key[0] for key, _ in cells} - {*reached["label"]})
    parts = [reached, pd.DataFrame({"label": missing})] if missing else [reached]
    table = pd.concat(parts, ignore_index=True)[_SHOWN]
    integers = ("temporal", "seeds", "most_seeds", "iteration")
    return table.astype(dict.fromkeys(integers, "Int64" if missing else "int64"))


def texts(table: pd.DataFrame, name: str, symbol: str = "n") -> tuple[list[str], list[list[str]]]:
    """The headings and rows of what `best` or `ladder` found, as people read them.

    Args:
        table: what they gave.
        name: what the metric is called.
        symbol: what the delay is called (``delay_symbol``).
    """
    column, used = next(pair for pair in _USED.values() if pair[0] in table)
    headings = ["method", symbol, "p", name, "iteration", used]
    rows = []
    for _, row in table.iterrows():
        if pd.isna(row["metric"]):
            rows.append([row["label"], "", "", "none", "", ""])
            continue
        score = units.averaged(row["metric"], row["metric_sd"], name)
        if row["seeds"] < row["most_seeds"]:
            score += f" ({row['seeds']} of {row['most_seeds']})"
        elif row["seeds"] > 1:
            score += f" ({row['seeds']})"
        used = units.bits(row[column])
        where = [str(row["temporal"]), units.plain(row["gradient"])]
        rows.append([row["label"], *where, score, str(row["iteration"]), used])
    if "budget" not in table.columns:
        return headings, rows
    limits = ["no limit" if np.isinf(b) else units.bits(b) for b in table["budget"]]
    return ["budget", *headings], [[limit, *row] for limit, row in zip(limits, rows, strict=True)]


def best_table(
    results: Results, up_bits: float, width: int, budget_of: str = "up", framing: bool = True
) -> Group:
    """The result of `best`, for a terminal of `width` columns.

    ``framing``: whether the caption has the lengths with Flower's framing; not below another table
    whose caption has them.

    Example:
        rich.print(best_table(fedsim.load("results/sbc"), 2e6, 80))
    """
    headings, rows = texts(best(results, up_bits, budget_of), metric_name(results.runs))
    ways = "both ways" if budget_of == "total" else "upstream"
    return text_table(
        [dict(zip(headings, row, strict=True)) for row in rows],
        width,
        names=["method"],
        keys=3,  # every part has method, n and p
        title=f"Best within {units.bits(up_bits)} per client {ways}",
        caption=f"{SEEDS} Bits of payloads. none: no evaluation within the budget."
        f"{framing_told(results.runs) if framing else ''}",
    )
