"""Result tables: what the terminal and the report show."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import rich

from fedsim.ground import units
from fedsim.results.labels import VARIANT, reference, several
from fedsim.show.averages import CELL, over_seeds, repeated
from fedsim.show.columns import PER_CLIENT, caption, worth_a_column
from fedsim.show.layout import Column, Kind, Laid, Row, laid, unbroken_width
from fedsim.show.planes import method_text

_Shown = Mapping[Any, Any]
"""A row of the table: its values by the names of the frame's columns."""

Known = tuple[pd.DataFrame, list[tuple[_Shown, str]]]
"""Runs with their differences, and the table's rows, each with its kind."""

Texts = tuple[list[str], list[tuple[list[str], str]]]
"""The headings of a table, and its rows: their texts and their kind."""

_KINDS = {"done": "", "failed": "red", "seeds": "bold"}


@dataclass(frozen=True)
class _Column:
    """A column of the terminal's table: its heading and what it shows of a row."""

    heading: str
    show: Callable[[_Shown], str]


def _stack(heading: str, *columns: _Column) -> _Column:
    """One column that shows several, a line each."""
    return _Column(heading, lambda row: "\n".join(column.show(row) for column in columns))


def _difference(row: _Shown) -> str:
    """The difference from the dense reference, which has a word in its place."""
    if row["temporal"] == 1 and row["method"] == "raw" and row["difference"] == 0:
        return "" if row["seed"] == "± sd" else "dense"
    return units.difference(row["difference"], row["metric_name"], row["seed"] != "± sd")


def _both_ways(row: _Shown) -> float:
    """The bits of dense sending after every iteration, up and down, over those of the run."""
    bits = row["up_wire_bits"] + row["down_wire_bits"]
    return 2 * row["ratio_wire"] * row["up_wire_bits"] / bits if bits else float("nan")


_N = _Column("n", lambda row: f"{row['temporal']}")
_P = _Column("p", lambda row: units.plain(row["gradient"]))
_TOTAL = _Column("p/n", lambda row: units.plain(row["total_sparsity"]))
_METRIC = _Column("{metric}", lambda row: units.score(row["metric"], row["metric_name"]))
_DIFFERENCE = _Column("vs dense\n{unit}", _difference)
_WIRE = _Column("up wire", lambda row: units.bits(row["up_wire_bits"]))
_CONTENT = _Column("content", lambda row: units.bits(row["up_content_bits"]))
_DOWN = _Column("down wire", lambda row: units.bits(row["down_wire_bits"]))
_DOWN_CONTENT = _Column("content", lambda row: units.bits(row["down_content_bits"]))
_RATIO = _Column("ratio up\ncontent", lambda row: units.ratio(row["ratio_content"]))
_RATIO_WIRE = _Column("ratio up\nwire", lambda row: units.ratio(row["ratio_wire"]))
_RATIO_BOTH = _Column("ratio\nboth", lambda row: units.ratio(_both_ways(row)))
_SHARE = _Column("sent", lambda row: units.fraction(row["up_share"]))
_PER_CLIENT = _Column("up wire\nper client", lambda row: units.bits(row[PER_CLIENT]))
_FAILURES = _Column("failures", lambda row: units.plain(row["failures"]))
_FAILED = _Column("not used", lambda row: units.bits(row["failed_up_bits"]))
_SECONDS = _Column("seconds", lambda row: units.seconds(row["seconds"]))
_STATUS = _Column("status", lambda row: row["status"])


def add_difference(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with a column `difference`: the metric minus that of the dense reference.

    The reference is the run of `raw` that is done with n = 1 of the same task, seed and settings.
    Where none has the same settings, it is the one that there is; NaN where there is none, or
    several. In the metric's own unit: 0.01 of accuracy is one percentage point.
    """
    varied = runs if VARIANT in runs.columns else runs.assign(**{VARIANT: ""})
    dense = varied[reference(varied) & (varied["status"] == "done")]
    known = dense.groupby(["task", "seed", VARIANT])["metric"].mean().to_dict()
    every = dense.groupby(["task", "seed"])[VARIANT].unique()
    only = {key: variants[0] for key, variants in every.items() if len(variants) == 1}
    base = [
        known.get((task, seed, own), known.get((task, seed, only.get((task, seed))), float("nan")))
        for task, seed, own in zip(varied["task"], varied["seed"], varied[VARIANT], strict=True)
    ]
    return runs.assign(difference=runs["metric"] - pd.Series(base, index=runs.index, dtype=float))


def summary_table(rows: pd.DataFrame, width: int | None = None) -> Laid:
    """Runs for the terminal: a row per run, failed ones too.

    Bits are those of a client of every round, summed over rounds; "wire" is the whole message,
    "content", which papers count, its positions, values and side information. Where there
    are several seeds, each cell's seeds are followed by their mean and sample standard deviation.

    Args:
        rows: the frame of `fedsim.load(...).runs`, or some of its rows.
        width: columns of the terminal; None asks rich. Where one line per row does not fit, metric
            and difference, upstream bits, and ratios take two lines per row, and the ratio of
            content is left out: that fits 80 columns. In less, columns go into further tables
            below. No number is ever cut.

    Example:
        rich.print(summary_table(fedsim.load("results/sbc").runs))
    """
    width = rich.get_console().width if width is None else width
    known = _with_statistics(rows)
    columns, lines = _terminal(*_texts(known, narrow=False))
    if unbroken_width(columns, lines) > width:
        columns, lines = _terminal(*_texts(known, narrow=True))
    headings = [column.heading for column in columns]
    keys = [heading.split("\n")[0] for heading in headings].index("p") + 1
    points = any("points" in heading for heading in headings)
    text = caption(rows) + (" Points: percentage points." if points else "")
    title = f"{', '.join(rows['task'].unique())}: {method_text(rows)}"
    return laid(columns, lines, width, keys=keys, title=title, caption=text)


def summary_texts(rows: pd.DataFrame) -> Texts:
    """The headings of the summary table; and its rows: texts, and "done", "failed" or "seeds".

    A row of kind "seeds" is the mean or the standard deviation of the seeds above it. Runs of one
    label, n, p and seed are not seeds of each other: nothing is averaged, and each has its name.

    Args:
        rows: the frame of `fedsim.load(...).runs`, in any order.
    """
    return _texts(_with_statistics(rows), narrow=False)


def _with_statistics(runs: pd.DataFrame) -> Known:
    """Runs with what the table tells beside their columns, and the table's rows: the cells, and
    after a cell's seeds mean and deviation."""
    rows = add_difference(runs).assign(run=runs.index.astype(str))
    by = ["label"] if several(rows) else []
    ordered = rows.sort_values(
        ["task", *by, "temporal", "gradient", "seed"], kind="stable",
        ascending=[True, *(True for _ in by), True, False, True],
    )  # fmt: skip
    numbers = ordered.select_dtypes("number").columns.drop(
        ["temporal", "gradient", "total_sparsity", "seed"]
    )
    cells = defaultdict[tuple[Any, ...], list[dict[str, Any]]](list)
    for row in ordered.to_dict("records"):
        cells[tuple(row[name] for name in CELL)].append(row)
    done = ordered[ordered["status"] == "done"]
    many = done.groupby([*CELL])["seed"].transform("size") > 1
    alike = repeated(ordered).groupby([ordered[name] for name in CELL]).transform("any")
    averages = over_seeds(done[many & ~alike[done.index]]) if many.any() else done[:0]
    means = {tuple(row[name] for name in CELL): row for row in averages.to_dict("records")}
    shown: list[tuple[_Shown, str]] = []
    for cell, own in cells.items():
        shown += [(row, "done" if row["status"] == "done" else "failed") for row in own]
        if cell in means:
            mean = means[cell] | {"seed": "mean", "status": "", "run": ""}
            spread = {name: mean[f"{name}_sd"] for name in ("metric", "difference")}
            spread = mean | dict.fromkeys(numbers, float("nan")) | spread | {"seed": "± sd"}
            shown += [(mean, "seeds"), (spread, "seeds")]
    return rows, shown


def _texts(known: Known, narrow: bool) -> Texts:
    """The table's headings and rows; ``narrow``: columns are stacked, two lines per row."""
    rows, lines = known
    names = list(rows["metric_name"].dropna().unique())
    unit = "points" if any(name in units.FRACTIONS for name in names) else ""
    filled = {"metric": " / ".join(names) or "metric", "unit": unit}
    dense = bool(rows["difference"].notna().any())
    worth = worth_a_column(rows)
    keys = [  # worth their width only where their values differ
        (_Column("task", lambda row: row["task"]), rows["task"].nunique() > 1),
        (_Column("method", lambda row: row["label"]), several(rows)),
        (_Column("seed", lambda row: f"{row['seed']}"), rows["seed"].nunique() > 1),
        (_Column("run", lambda row: row["run"]), repeated(rows).any()),
    ]
    columns = [column for column, differs in keys if differs]
    if not narrow:
        columns += [
            _N, _P, *([_SHARE] if worth["up_share"] else []), _TOTAL, _METRIC,
            *([_DIFFERENCE] if dense else []), _WIRE, *([_PER_CLIENT] if worth[PER_CLIENT] else []),
            _CONTENT, _DOWN, _DOWN_CONTENT, _RATIO_WIRE, _RATIO, _RATIO_BOTH,
            *([_FAILURES, _FAILED] if worth["failures"] else []), _SECONDS, _STATUS,
        ]  # fmt: skip
    else:
        up = _stack("up wire\ncontent", _WIRE, _CONTENT)
        if worth[PER_CLIENT]:
            up = _stack("up wire\ncontent\nper client", _WIRE, _CONTENT, _PER_CLIENT)
        failed = [_stack("failures\nnot used", _FAILURES, _FAILED)] if worth["failures"] else []
        columns += [
            _N, _stack("p\nsent", _P, _SHARE) if worth["up_share"] else _P, _TOTAL,
            _stack("{metric}\nvs dense\n{unit}", _METRIC, _DIFFERENCE) if dense else _METRIC, up,
            _stack("down wire\ncontent", _DOWN, _DOWN_CONTENT),
            _stack("ratio\nup wire\nboth", _RATIO_WIRE, _RATIO_BOTH), *failed, _SECONDS, _STATUS,
        ]  # fmt: skip
    headings = [column.heading.format(**filled).strip() for column in columns]
    return headings, [([column.show(row) for column in columns], kind) for row, kind in lines]


def _terminal(
    headings: list[str], lines: list[tuple[list[str], str]]
) -> tuple[list[Column], list[Row]]:
    """The table's columns and rows for the terminal."""
    kinds: dict[str, Kind] = {"task": "name", "method": "name", "run": "name", "status": "words"}
    columns = [Column(heading, kinds.get(heading, "number")) for heading in headings]
    return columns, [(texts, _KINDS[kind]) for texts, kind in lines]
