"""Result tables as markdown, LaTeX or CSV text."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.results.labels import delay_symbol
from fedsim.results.neutral import csv_text
from fedsim.show.averages import over_seeds
from fedsim.show.columns import delay_told, framing_told, worth_a_column
from fedsim.show.inputs import check_frame
from fedsim.show.markup import float_of, html, latex, markdown
from fedsim.show.planes import method_text
from fedsim.show.style import label, metric_name
from fedsim.show.tables import add_told, check_columns, ordered

_SHOWN = (
    "task", "label", "method", "temporal", "gradient", "total_sparsity", "seed", "metric",
    "difference",
    "up_wire_bits", "up_wire_bits_per_client", "up_content_bits", "down_wire_bits",
    "down_content_bits", "ratio_wire", "ratio_content", "ratio_both", "up_share",
    "failures", "failed_up_bits", "seconds", "status",
)  # fmt: skip
_WHERE_THEY_DIFFER = ("task", "seed", "status", "difference")
_HEADINGS = {
    "label": "method", "temporal": "n", "gradient": "p", "total_sparsity": "p/n",
    "up_wire_bits": "up wire", "up_content_bits": "up content", "down_wire_bits": "down wire",
    "down_content_bits": "down content", "ratio_wire": "ratio (wire)",
    "ratio_content": "ratio (content, as papers count)", "seconds": "time (s)",
    "up_wire_bits_per_client": "up wire per client of the federation",
    "up_content_bits_per_client": "up content per client of the federation",
    "down_wire_bits_per_client": "down wire per client of the federation",
    "ratio_both": "ratio (both ways)", "up_share": "share of entries sent",
    "failed_up_bits": "uploads not used", "iterations": "iterations done",
}  # fmt: skip
_STYLES: dict[str, Callable[[Sequence[str], list[tuple[str, ...]], list[bool]], str]] = {
    "markdown": markdown, "latex": latex, "html": lambda names, cells, _: html(names, cells, "runs")
}  # fmt: skip
_PAPER = (
    "metric", "up_wire_bits", "ratio_both", "gradient", "temporal", "label", "task", "ratio_wire",
    "difference",
)  # fmt: skip
"""Columns of a table for a paper, those first that are worth most."""

_MOST = 7
_SEEDS = ", mean ± sample standard deviation (number of seeds)"


@dataclass(frozen=True)
class _Column:
    """What a reader sees of a column: its heading, with the unit, and its values."""

    heading: str
    texts: list[str]
    numeric: bool


def table(
    runs: pd.DataFrame, style: Literal["markdown", "latex", "html", "csv"] = "markdown",
    columns: Sequence[str] | None = None,
) -> str:  # fmt: skip
    """`runs` as a table in markdown, LaTeX, HTML or CSV.

    In all but CSV a cell's seeds are one row: means, and behind metric, difference and loss
    the sample standard deviation and how many seeds are done, `0.9300 ± 0.0361 (3)`; behind the
    difference, how many have a reference. Name the column "seed" for a row per run. A heading has
    the column's unit and the metric's name, bits have one unit per column and three digits. The
    difference from the dense reference is in percentage points where the metric is a fraction.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        style: "markdown"; "latex" (a tabular that needs the package booktabs); "html"; or
            "csv", which has a row per run, the frame's names of columns, and numbers with all
            their digits.
        columns: which columns, in which order; "difference" is the difference from the dense
            reference, "ratio_both" the ratio of bits up and down. None: the main ones, task and
            status where they differ; for csv all.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        table(results.runs, "latex", ["label", "temporal", "gradient", "metric", "ratio_content"])

    Raises:
        UsageError: an unknown style or column; `runs` is not such a frame.
    """
    check_frame(runs, "runs", "table()")
    if style not in _STYLES and style != "csv":
        raise UsageError(f"style is {style!r}: it must be one of {', '.join(_STYLES)}, csv.")
    full = add_told(runs).assign(**runs[[n for n in ("difference",) if n in runs.columns]])
    if style == "csv":
        names = _named(columns, full, runs.columns)
        return csv_text(full[names])
    if "seed" not in (columns or ()) and full["seed"].nunique() > 1:
        full = over_seeds(full)
    hidden = {"method" if "label" in full.columns else "label"}
    hidden |= {name for name, shown in worth_a_column(full).items() if not shown}
    hidden |= {"seed"} if "seeds" in full.columns else set()
    for name in _WHERE_THEY_DIFFER:  # not those that say the same of every row
        values = full[name].unique() if name in full.columns else []
        same = full[name].isna().all() if name == "difference" else len(values) == 1
        if same and (name != "status" or values[0] == "done"):  # that all failed is worth a column
            hidden.add(name)
    main = [name for name in _SHOWN if name in full.columns and name not in hidden]
    shown = [_column(name, full) for name in _named(columns, full, main)]
    cells = list(zip(*(column.texts for column in shown), strict=True))
    headings = [column.heading for column in shown]
    return _STYLES[style](headings, cells, [column.numeric for column in shown])


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
    if columns is not None:
        check_columns(columns, full.columns)
    several_tasks, many = full["task"].nunique() > 1, full["seed"].nunique() > 1
    full = full[(full["status"] == "done") & full["metric"].notna()]
    if "seed" not in (columns or ()) and many and len(full):
        full = over_seeds(full)
        full["most_seeds"] = full.groupby("task")["seeds"].transform("max")
    names = [name for name in _PAPER if name != "task" or several_tasks][:_MOST]
    shown = [_column(name, full) for name in columns or sorted(names, key=_SHOWN.index)]
    bold = [column.heading == label(metric_name(full)) for column in shown]
    best = _best(full)
    cells = [
        [(text, is_metric and is_best) for text, is_metric in zip(row, bold, strict=True)]
        for row, is_best in zip(
            zip(*(shown_column.texts for shown_column in shown), strict=True), best, strict=True
        )
    ]
    tasks, clients, iterations = (
        " or ".join(f"{value}" for value in sorted(runs[name].dropna().unique()))
        for name in ("task", "clients", "iterations")
    )
    bold_told = " Bold: the best compressed cell." if any(best) else ""
    caption = (
        f"{tasks}: the last evaluation after {iterations} local iterations of {clients} clients"
        f"{_SEEDS if 'seeds' in full.columns else ''}. {delay_told(runs)}; p: fraction of "
        "entries sent; bits of a client's payloads over the run; ratio: of 32-bit dense "
        f"sending after every iteration.{framing_told(full)}{bold_told}"
    )
    key = re.sub(r"[^a-z0-9]+", "-", f"{tasks} {method_text(runs)}".lower()).strip("-")
    return float_of(
        latex([column.heading for column in shown], cells, [column.numeric for column in shown]),
        caption, f"tab:{key}",
    )  # fmt: skip


def _best(full: pd.DataFrame) -> list[bool]:
    """Which rows have the best metric of their task's compressed cells, of two cells or more."""
    sign = np.where(full["higher_is_better"].astype(bool), 1.0, -1.0)
    loss = (-sign * full["metric"]).mask(full["dense"].astype(bool))
    groups = loss.groupby(full["task"])
    return list((loss == groups.transform("min")) & (groups.transform("count") > 1))


def _named(columns: Sequence[str] | None, full: pd.DataFrame, default: Iterable[str]) -> list[str]:
    """The columns to show; refuses those that `full` lacks."""
    names = list(default if columns is None else columns)
    check_columns(names, full.columns)
    return names


def _column(name: str, full: pd.DataFrame) -> _Column:
    values = full[name]
    heading = _HEADINGS.get(name, name.replace("_", " "))
    heading = delay_symbol(full) if name == "temporal" else heading
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if name == "metric":
        return _Column(label(metric_name(full)), _scores(full, name), True)
    if name == "difference":
        points = any(metric in units.FRACTIONS for metric in full["metric_name"])
        heading = f"vs dense{' (points)' if points else ''}"
        return _Column(heading, _scores(full, name), True)
    if name == "loss":
        return _Column(heading, _scores(full, name), True)
    if name.endswith(units.OF_BITS):
        divisor, unit = units.scale(values.dropna())
        heading = f"{_HEADINGS.get(name, heading.removesuffix(' bits'))} ({unit})"
        return _Column(heading, [units.digits(value) for value in values / divisor], True)
    if name.startswith("ratio") or name in ("seconds", "up_share"):
        values = values.replace(np.inf, np.nan)  # a ratio of 0 bits
        return _Column(heading, [units.digits(value) for value in values], True)
    texts = ["" if value is None or pd.isna(value) else
             units.plain(value) if isinstance(value, float) else str(value)
             for value in values]  # fmt: skip
    return _Column(heading, texts, numeric)


def _scores(full: pd.DataFrame, name: str) -> list[str]:
    """The column of a score, a difference or a loss, each as its own metric is written.

    Averaged seeds have a deviation and a number: `0.9300 ± 0.0361 (3)`; with `most_seeds` of
    another cell, also `(1 of 3)`.
    """
    text_of = units.averaged_difference if name == "difference" else units.averaged
    averaged = "seeds" in full.columns
    counted = "difference_seeds" if name == "difference" else "seeds"
    spreads = full[f"{name}_sd"] if averaged else [None] * len(full)
    texts = []
    for row, spread in zip(full.to_dict("records"), spreads, strict=True):
        text = text_of(row[name], spread, "loss" if name == "loss" else row["metric_name"])
        if averaged and text:
            seeds, most_seeds = row[counted], row.get("most_seeds", 0)
            text += f" ({seeds} of {most_seeds})" if seeds < most_seeds else f" ({seeds})"
        texts.append(text)
    return texts
