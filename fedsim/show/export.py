"""Result tables as markdown, LaTeX or CSV text."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.results.neutral import csv_text
from fedsim.show.columns import delay_told, framing_told
from fedsim.show.inputs import check_frame
from fedsim.show.markup import html, latex, markdown
from fedsim.show.planes import method_text
from fedsim.show.style import label
from fedsim.show.tables import (
    TABLE_ORDER,
    add_told,
    heading,
    ordered,
    over_seeds,
    resolve_columns,
    shown_rows,
    value_text,
)

_STYLES = ("markdown", "latex", "html", "csv")
_PAPER = (
    "metric",
    "up_wire_bits",
    "ratio_both",
    "gradient",
    "temporal",
    "label",
    "task",
    "ratio_wire",
    "difference",
)
"""Columns of a table for a paper, those first that are worth most."""

_MOST = 7
_SEEDS = ", mean ± sample standard deviation (number of seeds)"


def table(
    runs: pd.DataFrame,
    style: Literal["markdown", "latex", "html", "csv"] = "markdown",
    columns: Sequence[str] | None = None,
) -> str:
    """`runs` as a table in markdown, LaTeX, HTML or CSV.

    In all but CSV a cell's seeds are one row: means, and behind metric and loss the sample standard
    deviation and how many seeds are done, `0.9300 ± 0.0361 (3)`; behind the difference, how many
    have a reference if some have none. Name the column "seed" for a row per run. Columns and
    headings are the terminal's; bits have one unit per column, in the heading, and three digits.
    The difference from the dense reference is in percentage points where the metric is a fraction.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        style: "markdown"; "latex" (a tabular that needs the package booktabs); "html"; or
            "csv", which has a row per run, the frame's names of columns, and numbers with all
            their digits.
        columns: which columns, in which order, by their names or as headings call them (`n`, `p`,
            `accuracy`, `up`); "difference" is the difference from the dense reference,
            "ratio_both" the ratio of bits up and down. None: the main ones, task and status where
            they differ; for csv all.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        table(results.runs, "latex", ["label", "temporal", "gradient", "metric", "ratio_content"])

    Raises:
        UsageError: an unknown style or column; `runs` is not such a frame.
    """
    check_frame(runs, "runs", "table()")
    if style not in _STYLES:
        raise UsageError(f"style is {style!r}: it must be one of {', '.join(_STYLES)}.")
    if style == "csv":
        full = add_told(runs)
        return csv_text(full[resolve_columns(runs.columns if columns is None else columns, full)])
    shown, names = shown_rows(runs, columns, "seed" in (columns or ()), labels=True)
    shown = shown[shown["kind"] != "seeds"]
    headings, cells, numeric = _texts(shown, names)
    if style == "html":
        return html(headings, cells, "runs")
    return (markdown if style == "markdown" else latex)(headings, cells, numeric)


def paper_table(runs: pd.DataFrame, columns: Sequence[str] | None = None) -> str:
    """`runs` as a table to paste into a paper: what `report` writes to `summary.tex`.

    A row per cell, seeds averaged as by `table`; runs that failed or were stopped are left out. A
    cell with fewer seeds than others says so, `(1 of 3)`. The best metric of each task's
    compressed cells is bold. The text needs the package booktabs.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        columns: as of `table`. None: at most seven; method, n, p, metric, bits and ratios.

    Raises:
        UsageError: as `table`.

    Example:
        paper_table(results.runs, ["label", "gradient", "metric", "ratio_both"])
    """
    check_frame(runs, "runs", "paper_table()")
    full = ordered(add_told(runs))
    columns = None if columns is None else resolve_columns(columns, full)
    several_tasks, many = full["task"].nunique() > 1, full["seed"].nunique() > 1
    full = full[(full["status"] == "done") & full["metric"].notna()]
    if "seed" not in (columns or ()) and many and len(full):
        full = over_seeds(full)
        full["most_seeds"] = full.groupby("task")["seeds"].transform("max")
    if columns is None:
        names = [name for name in _PAPER if name != "task" or several_tasks][:_MOST]
        columns = sorted(names, key=TABLE_ORDER.index)
    headings, cells, numeric = _texts(full, columns)
    best = np.flatnonzero(_best(full)).tolist()
    bold = [(row, column) for row in best for column, x in enumerate(columns) if x == "metric"]
    tasks, clients, iterations = (
        " or ".join(f"{value}" for value in sorted(runs[name].dropna().unique()))
        for name in ("task", "clients", "iterations")
    )
    bold_told = " Bold: the best compressed cell." if len(best) else ""
    caption = (
        f"{tasks}: the last evaluation after {iterations} local iterations of {clients} clients"
        f"{_SEEDS if 'seeds' in full.columns else ''}. {delay_told(runs)}; p: fraction of "
        "entries sent; bits of a client's payloads over the run; ratio: of 32-bit dense "
        f"sending after every iteration; both: up and down.{framing_told(full)}{bold_told}"
    )
    key = re.sub(r"[^a-z0-9]+", "-", f"{tasks} {method_text(runs)}".lower()).strip("-")
    return latex(headings, cells, numeric, bold, caption, f"tab:{key}")


def _best(full: pd.DataFrame) -> pd.Series:
    """Which rows have the best metric of their task's compressed cells, of two cells or more."""
    sign = np.where(full["higher_is_better"].astype(bool), 1.0, -1.0)
    loss = (-sign * full["metric"]).mask(full["dense"].astype(bool))
    groups = loss.groupby(full["task"])
    return (loss == groups.transform("min")) & (groups.transform("count") > 1)


def _texts(
    shown: pd.DataFrame, names: Sequence[str]
) -> tuple[list[str], list[tuple[str, ...]], list[bool]]:
    """Headings with units; rows of texts, where bits have one unit per column; and which columns
    hold numbers."""
    headings, columns = [], []
    records = shown.to_dict("records")
    for name in names:
        text = heading(name, shown).replace("\n", " ")
        if name == "metric":
            text = label(text)
        elif name == "difference":
            text = text.replace(" points", " (points)")
        values = [value_text(name, row) for row in records]
        if name.endswith(units.OF_BITS):
            divisor, unit = units.scale(shown[name].dropna())
            text = f"{text} ({unit})"
            values = [units.digits(x) for x in shown[name] / divisor]
        elif name.startswith("ratio"):
            values = [x.removeprefix("×") for x in values]
        headings.append(text)
        columns.append(values)
    numeric = [
        name == "seed"
        or pd.api.types.is_numeric_dtype(shown[name])
        and not pd.api.types.is_bool_dtype(shown[name])
        for name in names
    ]
    return headings, list(zip(*columns, strict=True)), numeric
