"""Result tables: what the terminal and the report show."""

import math
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import Any

import numpy as np
import pandas as pd
import rich
from rich.console import Group

from fedsim.ground import units
from fedsim.ground.records import CLIENT_SCORES, PRIVACY
from fedsim.results.aliases import COLUMN_HEADINGS, named_columns
from fedsim.results.labels import (
    VARIANT,
    delay_symbol,
    in_order,
    of_dense,
    reference,
    settings_in_labels,
    several,
    without_settings,
)
from fedsim.results.schema import COLUMNS, OF_BOTH, ratio_both_ways
from fedsim.results.summaries import TABLES
from fedsim.settings.fields import SETTINGS
from fedsim.show.columns import PER_CLIENT, failures_told, table_caption, worth_a_column
from fedsim.show.layout import Column, Kind, longest, terminal_table
from fedsim.show.planes import method_text

Texts = tuple[list[str], list[tuple[list[str], str]], list[str]]
"""The headings of a table, and its rows: their texts and their kind."""

CELL_COLUMNS = ("task", "method", "label", "temporal", "gradient")
"""What runs have in common that differ in their seeds alone."""

SPREAD = ("metric", "difference", "loss")
"""The columns whose standard deviation is shown: results of learning, not bits."""

_KINDS = {"done": "", "failed": "red", "seeds": "bold"}
_KEYS = ("task", "label", "seed", "run", "temporal", "gradient")
TABLE_ORDER = (
    *_KEYS, "up_share", "total_sparsity", "metric_name", "metric", "difference", *PRIVACY,
    "up_wire_bits", PER_CLIENT, "up_content_bits", "down_wire_bits", "down_content_bits",
    "ratio_wire", "ratio_content", "ratio_both", "failures", "failed_up_bits", "seconds", "status",
)  # fmt: skip
_FIRST_LEFT_OUT = (
    "down_content_bits",
    "ratio_content",
    "up_content_bits",
    "total_sparsity",
    "seconds",
    "down_wire_bits",
    "up_share",
)
TABLE_COLUMNS = ("label", *COLUMNS, *CLIENT_SCORES, *PRIVACY, "difference")
"""What every table can show."""

_MEANINGS = (
    {name: setting.help for name, setting in SETTINGS.items()}
    | {spec.name: spec.sentence for spec in TABLES["summary.csv"]}
    | {"difference": "the metric minus that of the dense reference"}
)
_SETTINGS = {name: setting for name, setting in SETTINGS.items() if name not in COLUMNS}
_TEXTS = [name for name, setting in SETTINGS.items() if "str" in setting.kind.split(" | ")]

_NAME = 24  # characters of a method for which other columns are left out


def add_difference(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with a column `difference`: the metric minus that of the dense reference.

    The reference is the run of `raw` that is done with n = 1 of the same task, seed and settings,
    those aside that no reference has (`of_dense`). Where none has the same settings, it is the one
    that there is; NaN where there is none, or several. In the metric's own unit: 0.01 of accuracy
    is one percentage point.
    """
    varied = runs if VARIANT in runs.columns else runs.assign(**{VARIANT: ""})
    dense = varied[reference(varied) & (varied["status"] == "done")]
    metrics = dense.groupby(["task", "seed", VARIANT])["metric"].mean().to_dict()
    shared = dense.assign(**{VARIANT: dense[VARIANT].map(of_dense)})
    metrics = shared.groupby(["task", "seed", VARIANT])["metric"].mean().to_dict() | metrics
    variants_of = dense.groupby(["task", "seed"])[VARIANT].unique()
    only = {key: variants[0] for key, variants in variants_of.items() if len(variants) == 1}
    base = []
    for task, seed, variant in zip(varied["task"], varied["seed"], varied[VARIANT], strict=True):
        named = (variant, of_dense(variant), only.get((task, seed)))
        base.append(
            next((metrics[task, seed, v] for v in named if (task, seed, v) in metrics), nan)
        )
    return runs.assign(difference=runs["metric"] - pd.Series(base, index=runs.index, dtype=float))


def add_told(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with two columns of tables: `difference`, which is in no file, and `ratio_both`,
    which frames of other programs may lack."""
    both = [ratio_both_ways(*one) for one in runs[[*OF_BOTH]].itertuples(index=False)]
    runs = runs if "difference" in runs.columns else add_difference(runs)
    return runs.assign(ratio_both=both)


def repeated(runs: pd.DataFrame, extra: Sequence[str] = ()) -> pd.Series:
    """Rows that only the names of their runs tell apart: of one cell and one seed.

    ``extra``: further columns that tell cells apart, where labels do not.
    """
    return runs.duplicated([*CELL_COLUMNS, "seed", *extra], keep=False)


def over_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with a row per cell: numbers are means over the seeds that are done.

    Further columns: `seeds`, how many are done, and `metric_sd`, `difference_sd`, `loss_sd`, their
    sample standard deviations (ddof = 1; NaN of a single seed); `metric_seeds` and
    `difference_seeds`, of how many these are, as a score may be NaN. `status` counts the seeds
    where some failed. Runs of one cell and seed are not averaged: each keeps its row.
    """
    fixed = ["temporal", "gradient", "seed"]
    numbers = [name for name in runs.select_dtypes("number") if name not in fixed]
    single = np.where(repeated(runs), np.arange(len(runs)), -1)
    place = runs.assign(_run=single).groupby([*CELL_COLUMNS, "_run"], sort=False, dropna=False)
    rows = runs.assign(_cell=place.ngroup(), _done=runs["status"] == "done")
    done, cells = rows[rows["_done"]].groupby("_cell"), rows.groupby("_cell")
    shown = rows[rows["_done"] | ~cells["_done"].transform("any")]  # of one without, all rows
    means = shown.groupby("_cell")[numbers].mean()
    table = shown.drop_duplicates("_cell").sort_values("_cell")
    further = {f"{name}_sd": done[name].std(ddof=1) for name in SPREAD if name in runs.columns}
    further["seeds"] = cells["_done"].sum()
    further["metric_seeds"] = done["metric"].count().reindex(means.index, fill_value=0)
    if "difference" in runs.columns:  # a seed without a reference has none
        further["difference_seeds"] = done["difference"].count().reindex(means.index, fill_value=0)
    further["status"] = cells["status"].agg(_counted)
    values = pd.DataFrame(further, index=means.index).join(means).set_index(table.index)
    return table.assign(**values).drop(columns=["_cell", "_done"])


def _counted(statuses: pd.Series) -> str:
    """The status of all rows, or how many have each: `2 done, 1 failed`."""
    counts = statuses.value_counts().sort_index()
    if len(counts) == 1:
        return str(counts.index[0])
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def resolve_columns(names: Sequence[str], frame: pd.DataFrame) -> list[str]:
    """The columns of a frame of runs that names are of (`fedsim.results.aliases.column_of`)."""
    return named_columns(names, frame.columns, frame["metric_name"].dropna())


def summary_table(
    rows: pd.DataFrame,
    width: int | None = None,
    columns: Sequence[str] | None = None,
    per_seed: bool = False,
) -> Group:
    """Runs for the terminal: a row per cell, failed ones too; seeds are averaged.

    Bits are those of a client of every round, summed over rounds, of payloads; "content",
    which papers count, are their positions, values and side information. Of several seeds, the
    metric is their mean with the sample standard deviation and, in brackets, how many are done.

    Args:
        rows: the frame of `fedsim.load(...).runs`, or some of its rows.
        width: columns of the terminal; None asks rich. Where one line per row does not fit,
            content, p/n, seconds, the downlink and the share that was sent are left out, in this
            order, and the caption names them. In still less, columns go into further tables below.
            No number is ever cut.
        columns: which columns of the frame, in which order; also `difference`
            (`add_difference`). None: the main ones, except those with one value in all rows.
        per_seed: a row per run, and after a cell's seeds their mean.

    Raises:
        UsageError: `columns` has an unknown name.

    Example:
        rich.print(summary_table(fedsim.load("results/sbc").runs))
    """
    width = rich.get_console().width if width is None else width
    shown, names = shown_rows(ordered(rows), columns, per_seed)
    records, left = shown.to_dict("records"), list[str]()
    table = {
        name: (_column(name, shown), [value_text(name, row) for row in records]) for name in names
    }
    for name in _FIRST_LEFT_OUT if columns is None else ():
        if _width(table.values()) <= width:
            break
        if name in table:
            left.append(table.pop(name)[0].heading.replace("\n", " "))
    texts = zip(*(column for _, column in table.values()), strict=True)
    text = table_caption(rows, table)
    if "metric" in table and rows["seed"].nunique() > 1:
        text += " Mean ± sample standard deviation (seeds)."
    text += " Points: percentage points." if _points(shown) and "difference" in table else ""
    text += f" Not shown here: {', '.join(left)} (--columns)." if left else ""
    identified = (*_KEYS, *settings_in_labels(rows))
    return terminal_table(
        [column for column, _ in table.values()],
        list(zip(texts, shown["kind"].map(_KINDS), strict=True)),
        width,
        keys=1 if columns is not None else max(1, sum(name in identified for name in table)),
        title=f"{', '.join(rows['task'].unique())}: {method_text(shown)}",
        caption="\n".join([text.lstrip(), *failures_told(rows)]),
    )


def summary_texts(
    rows: pd.DataFrame, columns: Sequence[str] | None = None, per_seed: bool = False
) -> Texts:
    """The headings of the summary table; its rows: texts, and "done", "failed" or "seeds"; and what
    each column holds, empty where its heading explains it.

    A row of kind "seeds" is the mean of the seeds above it. Runs of one label, n, p and seed are
    not seeds of each other: nothing is averaged, and each has its name.
    """
    shown, names = shown_rows(ordered(rows), columns, per_seed)
    records = shown.to_dict("records")
    texts = ([value_text(name, row) for name in names] for row in records)
    lines = list(zip(texts, shown["kind"], strict=True))
    return [heading(n, shown) for n in names], lines, [_MEANINGS.get(n, "") for n in names]


def ordered(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` by task, method where there are several, n upwards, p downwards and seed."""
    by = ["_label"] if several(runs) else []
    places = {label: place for place, label in enumerate(in_order(runs["label"]))}
    return (
        runs.assign(_label=runs["label"].map(places))
        .sort_values(
            ["task", *by, "temporal", "gradient", "seed"],
            kind="stable",
            ascending=[True, *(True for _ in by), True, False, True],
        )
        .drop(columns="_label")
    )


def shown_rows(
    runs: pd.DataFrame, columns: Sequence[str] | None, per_seed: bool, labels: bool = False
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of a table of runs, and the names of its columns.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows; their order stays.
        columns: the names; None: the main ones, except those with one value in all rows.
        per_seed: a row per run, and after a cell's seeds their mean; else a row per cell.
        labels: whether the methods have a column where there is one method, too.

    Returns:
        Rows as `over_seeds` gives them, with `difference`, `ratio_both`, `run` and `kind`: "done",
        "failed", or "seeds", which is a mean of rows. Where settings have columns of their own,
        labels are without them.
    """
    rows = add_told(runs).assign(run=runs.index.astype(str))
    many = rows["seed"].nunique() > 1
    cells = over_seeds(rows) if many else rows
    shown = rows if per_seed else cells
    done = (shown["status"] == "done") | (shown.get("seeds", 0) > 0)
    shown = shown.assign(kind=np.where(done, "done", "failed"))
    if per_seed and many:
        means = cells[cells["seeds"] > 1].assign(kind="seeds", seed="mean", status="", run="")
        shown = pd.concat([shown.astype({"seed": object}), means])
        place = shown.groupby([*CELL_COLUMNS], sort=False, dropna=False).ngroup()
        shown = shown.iloc[place.argsort(kind="stable")]
    differing = settings_in_labels(runs)
    if differing and (columns is None or {*differing} <= {*columns}):
        shown = shown.assign(label=without_settings(shown)).drop(columns=VARIANT)
    else:
        differing = []
    if columns is not None:
        return shown, resolve_columns(columns, shown.drop(columns="kind"))
    worth = worth_a_column(shown) | {  # a column's width only where its values differ
        "task": shown["task"].nunique() > 1,
        "label": labels or several(shown),
        "seed": per_seed and many,
        "run": bool(repeated(shown, differing).any()),
        "metric_name": shown["metric_name"].nunique() > 1,
        "difference": bool(shown["difference"].notna().any()),
        **{name: name in shown and bool(shown[name].notna().any()) for name in PRIVACY},
        "status": not shown["status"].isin(["done", ""]).all(),
    }
    place = TABLE_ORDER.index("label") + 1
    names = (*TABLE_ORDER[:place], *differing, *TABLE_ORDER[place:])
    return shown, [name for name in names if worth.get(name, True)]


def _column(name: str, shown: pd.DataFrame) -> Column:
    kinds: dict[str, Kind] = dict.fromkeys(("task", "label", "method", "run", *_TEXTS), "name")
    number = name == "seed" or pd.api.types.is_numeric_dtype(shown[name])
    return Column(heading(name, shown), kinds.get(name, "number" if number else "words"))


def heading(name: str, shown: pd.DataFrame) -> str:
    """What a table calls a column, in two lines where the terminal needs them."""
    if name == "metric":
        names = shown["metric_name"].dropna().unique()
        return str(names[0]) if len(names) == 1 else "last"
    if name == "difference":
        return "vs dense\npoints" if _points(shown) else "vs dense"
    if name == "temporal":
        return delay_symbol(shown)
    return COLUMN_HEADINGS.get(name, name.replace("_", " "))


def _points(full: pd.DataFrame) -> bool:
    """Whether differences from the dense reference are in percentage points."""
    fractions = full["metric_name"].dropna().isin(units.FRACTIONS)
    return bool(fractions.any() and full["difference"].notna().any())


def value_text(name: str, row: Mapping[Any, Any]) -> str:
    """What the column `name` shows of a row, whose values have the names of the frame's columns.

    The score of a cell with fewer seeds than its `most_seeds`, or than are done, has both numbers:
    `0.93 ± 0.04 (1 of 3)`.
    """
    value, metric = row[name], row["metric_name"]
    if name in _SETTINGS and pd.isna(value):
        return "default" if _SETTINGS[name].of_task else "none"
    if name == "difference":
        if row["temporal"] == 1 and row["method"] == "raw" and value == 0:
            return "dense"
        text = units.averaged_difference(value, row.get("difference_sd"), metric)
        pairs, seeds = row.get("difference_seeds", 0), row.get("seeds", 0)
        return f"{text} ({pairs:.0f})" if text and pairs < seeds else text
    if name in CLIENT_SCORES:
        return units.averaged(value, None, metric)
    if name in ("metric", "loss"):
        text = units.averaged(value, row.get(f"{name}_sd"), metric if name == "metric" else name)
        seeds, most_seeds = row.get("seeds", nan), row.get("most_seeds", 0)
        if not text or pd.isna(seeds):
            return text
        if name == "metric" and row.get("metric_seeds", seeds) < seeds:
            most_seeds, seeds = max(int(seeds), most_seeds), row["metric_seeds"]
        of_most = f" of {most_seeds}" if seeds < most_seeds else ""
        return f"{text} ({seeds:.0f}{of_most})"
    if name.endswith(units.OF_BITS):
        return units.bits(value)
    if name.startswith("ratio"):
        return units.ratio(value)
    if name in ("seconds", "up_share", "total_sparsity"):
        return units.seconds(value) if name == "seconds" else units.fraction(value)
    if name in PRIVACY:
        return units.digits(value) if math.isfinite(value) else ""
    return units.plain(value) if isinstance(value, float) else "" if value is None else str(value)


def _width(table: Iterable[tuple[Column, list[str]]]) -> int:
    """The characters that a table takes in which only long names break."""
    widths = ((column.kind, longest([column.heading, *texts])) for column, texts in table)
    return sum((min(wide, _NAME) if kind == "name" else wide) + 1 for kind, wide in widths) - 1
