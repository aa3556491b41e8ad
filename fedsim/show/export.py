"""Result tables as markdown, LaTeX or CSV text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.show.averages import over_seeds
from fedsim.show.columns import worth_a_column
from fedsim.show.inputs import check_frame
from fedsim.show.markup import latex, markdown
from fedsim.show.style import label, metric_name
from fedsim.show.tables import add_difference

_SHOWN = (
    "task", "label", "method", "temporal", "gradient", "total_sparsity", "seed", "metric",
    "difference",
    "up_wire_bits", "up_wire_bits_per_client", "up_content_bits", "down_wire_bits",
    "down_content_bits", "ratio_wire", "ratio_content", "up_share", "failures", "failed_up_bits",
    "seconds", "status",
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
    "up_share": "share of entries sent", "failed_up_bits": "uploads not used",
}  # fmt: skip
_STYLES = {"markdown": markdown, "latex": latex}


@dataclass(frozen=True)
class _Column:
    """What a reader sees of a column: its heading, with the unit, and its values."""

    heading: str
    texts: list[str]
    numeric: bool


def table(
    runs: pd.DataFrame, style: Literal["markdown", "latex", "csv"] = "markdown",
    columns: Sequence[str] | None = None,
) -> str:  # fmt: skip
    """`runs` as the text of a table.

    In markdown and LaTeX a cell's seeds are one row: means, and behind metric, difference and loss
    the sample standard deviation and how many seeds are done, `0.9300 ± 0.0361 (3)`. Name the
    column "seed" for a row per run. A heading has the column's unit and the metric's name, bits
    have one unit per column and three digits. The difference from the dense reference is in
    percentage points where the metric is a fraction.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        style: "markdown"; "latex" (a tabular that needs the package booktabs); or "csv", which
            has a row per run, the frame's names of columns, and numbers with all their digits.
        columns: which columns, in which order; "difference" is the difference from the dense
            reference (`add_difference`). None: the main ones, task and status where they
            differ; for csv all.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        table(results.runs, "latex", ["label", "temporal", "gradient", "metric", "ratio_content"])

    Raises:
        UsageError: an unknown style or column; `runs` is not such a frame.
    """
    check_frame(runs, "runs", "table()")
    if style not in _STYLES and style != "csv":
        raise UsageError(f"style is {style!r}: it must be one of {', '.join(_STYLES)}, csv.")
    full = add_difference(runs) if "difference" not in runs.columns else runs
    if style == "csv":
        names = _named(columns, full, runs.columns)
        return str(full[names].to_csv(index=False))
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


def _named(columns: Sequence[str] | None, full: pd.DataFrame, default: Iterable[str]) -> list[str]:
    """The columns to show; refuses those that `full` lacks."""
    names = list(default if columns is None else columns)
    if unknown := [name for name in names if name not in full.columns]:
        known = ", ".join(full.columns)
        raise UsageError(f"columns has {', '.join(unknown)}: it may name {known}.")
    return names


def _column(name: str, full: pd.DataFrame) -> _Column:
    values = full[name]
    heading = _HEADINGS.get(name, name.replace("_", " "))
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if name == "metric":
        return _Column(label(metric_name(full)), _scores(full, name), True)
    if name == "difference":
        points = any(metric in units.FRACTIONS for metric in full["metric_name"])
        heading = f"vs dense{' (points)' if points else ''}"
        return _Column(heading, _scores(full, name), True)
    if name == "loss":
        return _Column(heading, _scores(full, name), True)
    if name.endswith(("_bits", "_bits_per_client")):
        divisor, unit = units.scale(values.dropna())
        heading = f"{_HEADINGS.get(name, heading.removesuffix(' bits'))} ({unit})"
        return _Column(heading, [units.digits(value) for value in values / divisor], True)
    if name.startswith("ratio") or name in ("seconds", "up_share"):
        return _Column(heading, [units.digits(value) for value in values], True)
    texts = ["" if value is None or pd.isna(value) else
             units.plain(value) if isinstance(value, float) else str(value)
             for value in values]  # fmt: skip
    return _Column(heading, texts, numeric)


def _scores(full: pd.DataFrame, name: str) -> list[str]:
    """The column of a score, a difference or a loss, each as its own metric is written.

    Of averaged seeds with deviation and number: `0.9300 ± 0.0361 (3)`.
    """
    metrics = [str(of) for of in full["metric_name"]]
    texts = [_score(name, value, of) for value, of in zip(full[name], metrics, strict=True)]
    if "seeds" not in full.columns:
        return texts
    spreads = [
        _score(name, value, of, signed=False)
        for value, of in zip(full[f"{name}_sd"], metrics, strict=True)
    ]
    return [
        f"{text} ± {spread} ({count})" if spread else f"{text} ({count})" if text else ""
        for text, spread, count in zip(texts, spreads, full["seeds"], strict=True)
    ]


def _score(name: str, value: float, metric: str, signed: bool = True) -> str:
    if name == "difference":
        return units.difference(value, metric, signed)
    return units.digits(value) if name == "loss" else units.score(value, metric)
