"""Result tables as markdown, LaTeX or CSV text."""

from collections.abc import Sequence
from typing import Any, Literal

import pandas as pd

from fedsim import units
from fedsim.errors import UsageError
from fedsim.markup import latex, markdown
from fedsim.tables import add_difference

_DIGITS = ("metric", "loss", "difference", "seconds")
_SHOWN = (
    "task", "label", "method", "temporal", "gradient", "total_sparsity", "seed", "metric",
    "difference",
    "up_wire_bits", "up_content_bits", "down_wire_bits", "down_content_bits", "ratio_wire",
    "ratio_content", "seconds", "status",
)  # fmt: skip
_STYLES = {"markdown": markdown, "latex": latex}


def table(
    runs: pd.DataFrame,
    style: Literal["markdown", "latex", "csv"] = "markdown",
    columns: Sequence[str] | None = None,
) -> str:
    """`runs` as the text of a table.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        style: "markdown"; "latex" (a tabular that needs the package booktabs); or "csv", whose
            numbers have all their digits.
        columns: which columns, in which order; "difference" is the difference from the dense
            reference (`add_difference`). None: the main ones; for csv all.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        table(results.runs, "latex", ["label", "temporal", "gradient", "metric", "ratio_content"])

    Raises:
        UsageError: an unknown style or column.
    """
    if style not in _STYLES and style != "csv":
        raise UsageError(f"style is {style!r}: it must be one of {', '.join(_STYLES)}, csv.")
    full = add_difference(runs) if "difference" not in runs.columns else runs
    told = [name for name in _SHOWN if name != ("method" if "label" in full.columns else "label")]
    default = runs.columns if style == "csv" else [name for name in told if name in full.columns]
    names = list(default if columns is None else columns)
    unknown = [name for name in names if name not in full.columns]
    if unknown:
        raise UsageError(
            f"columns has {', '.join(unknown)}: it may name {', '.join(full.columns)}."
        )
    if style == "csv":
        return str(full[names].to_csv(index=False))
    cells = [[_text(name, row[name]) for name in names] for _, row in full.iterrows()]
    numeric = [pd.api.types.is_numeric_dtype(full[name]) for name in names]
    return _STYLES[style](names, cells, numeric)


def _text(name: str, value: Any) -> str:
    if value is None or pd.isna(value):
        return ""
    if not isinstance(value, float):
        return str(value)
    if name.endswith("_bits"):
        return f"{value:.0f}"
    return f"{value:.4g}" if name in _DIGITS or name.startswith("ratio") else units.plain(value)
