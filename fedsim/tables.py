"""Result tables: what the terminal and the report show."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import rich

from fedsim import units
from fedsim.averages import CELL, repeated
from fedsim.labels import VARIANT, labels, several
from fedsim.layout import Column, Kind, Laid, Row, laid, room
from fedsim.looks import reference
from fedsim.plane import method_text

_KINDS = {"done": "", "failed": "red", "seeds": "bold"}
CAPTION = (
    "n: local iterations a round; p: fraction of entries sent; p/n: total sparsity.\n"
    "Bits are per client over the whole run, 1 kbit = 1000 bit. Wire: whole "
    "messages; payload: positions, values and side information. Ratio: 32-bit dense sending of "
    "every iteration over upstream bits."
)


@dataclass(frozen=True)
class _Column:
    """A column of the terminal's table: its heading and what it shows of a row."""

    heading: str
    show: Callable[[pd.Series], str]


def _stack(heading: str, *columns: _Column) -> _Column:
    """One column that shows several, a line each."""
    return _Column(heading, lambda row: "\n".join(column.show(row) for column in columns))


_N = _Column("n", lambda row: f"{row['temporal']}")
_P = _Column("p", lambda row: units.plain(row["gradient"]))
_TOTAL = _Column("p/n", lambda row: units.plain(row["total_sparsity"]))
_METRIC = _Column("{metric}", lambda row: units.score(row["metric"], row["metric_name"]))
_DIFFERENCE = _Column("vs dense\n{unit}", lambda row: _difference(row))
_WIRE = _Column("up wire", lambda row: units.bits(row["up_wire_bits"]))
_PAYLOAD = _Column("payload", lambda row: units.bits(row["up_content_bits"]))
_DOWN = _Column("down wire", lambda row: units.bits(row["down_wire_bits"]))
_DOWN_PAYLOAD = _Column("payload", lambda row: units.bits(row["down_content_bits"]))
_RATIO = _Column("ratio\npayload", lambda row: units.ratio(row["ratio_content"]))
_RATIO_WIRE = _Column("ratio\nwire", lambda row: units.ratio(row["ratio_wire"]))
_SECONDS = _Column("seconds", lambda row: units.seconds(row["seconds"]))
_STATUS = _Column("status", lambda row: row["status"])


def _wide(dense: bool) -> list[_Column]:
    """A column a number; ``dense``: whether there is a reference to compare with."""
    difference = [_DIFFERENCE] if dense else []
    return [
        _N, _P, _TOTAL, _METRIC, *difference, _WIRE, _PAYLOAD, _DOWN, _DOWN_PAYLOAD,
        _RATIO_WIRE, _RATIO, _SECONDS, _STATUS,
    ]  # fmt: skip


def _narrow(dense: bool) -> list[_Column]:
    """Where the terminal is narrow: two lines a row."""
    compared = _stack("{metric}\nvs dense\n{unit}", _METRIC, _DIFFERENCE) if dense else _METRIC
    return [
        _N, _P, _TOTAL, compared,
        _stack("up wire\npayload", _WIRE, _PAYLOAD),
        _stack("down wire\npayload", _DOWN, _DOWN_PAYLOAD),
        _stack("ratio\nwire\npayload", _RATIO_WIRE, _RATIO),
        _SECONDS, _STATUS,
    ]  # fmt: skip


def add_difference(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with a column `difference`: the metric minus that of the dense reference.

    The reference is the run of `raw` that is done with n = 1 of the same task, seed and settings.
    Where none has the same settings, it is the one that there is; NaN where there is none, or
    several. In the metric's own unit: 0.01 of accuracy is one percentage point.
    """
    told = runs if VARIANT in runs.columns else runs.assign(**{VARIANT: ""})
    dense = told[reference(told) & (told["status"] == "done")]
    known = dense.groupby(["task", "seed", VARIANT])["metric"].mean().to_dict()
    every = dense.groupby(["task", "seed"])[VARIANT].unique()
    only = {key: found[0] for key, found in every.items() if len(found) == 1}
    base = [
        known.get((task, seed, own), known.get((task, seed, only.get((task, seed))), float("nan")))
        for task, seed, own in zip(told["task"], told["seed"], told[VARIANT], strict=True)
    ]
    return runs.assign(difference=runs["metric"] - pd.Series(base, index=runs.index, dtype=float))


def summary_table(rows: pd.DataFrame, width: int | None = None) -> Laid:
    """Runs for the terminal: a row a run, failed ones too.

    Bits are per client, summed over rounds; "payload" is positions, values and side information,
    "wire" the whole message. Where there are several seeds, each cell's seeds are followed by
    their mean and sample standard deviation.

    Args:
        rows: the frame of `fedsim.load(...).runs`, or some of its rows.
        width: columns of the terminal; None asks rich. Where a line a row does not fit, metric
            and difference, upstream bits, and ratios take two lines a row: that fits 80 columns.
            In less, columns go into further tables below. No number is ever cut.

    Example:
        rich.print(summary_table(fedsim.load("results/sbc").runs))
    """
    width = rich.get_console().width if width is None else width
    columns, lines, caption = _terminal(rows, narrow=False)
    if room(columns, lines) > width:
        columns, lines, caption = _terminal(rows, narrow=True)
    keys = [column.heading for column in columns].index("p") + 1
    return laid(columns, lines, width, keys=keys, title=_title(rows), caption=caption)


def summary_texts(
    rows: pd.DataFrame, narrow: bool = False
) -> tuple[list[str], list[tuple[list[str], str]]]:
    """The headings of the summary table; and its rows: texts, and "done", "failed" or "seeds".

    A row of kind "seeds" is the mean or the standard deviation of the seeds above it. Runs of one
    label, n, p and seed are no seeds: nothing is averaged, and each has its name.

    Args:
        rows: the frame of `fedsim.load(...).runs`, in any order.
        narrow: whether columns are stacked, two lines a row.
    """
    rows = add_difference(rows).assign(label=labels(rows), run=rows.index.astype(str))
    names = list(rows["metric_name"].dropna().unique())
    unit = "points" if any(name in units.FRACTIONS for name in names) else ""
    words = {"metric": " / ".join(names) or "metric", "unit": unit}
    dense = bool(rows["difference"].notna().any())
    columns = [*_identity(rows), *(_narrow(dense) if narrow else _wide(dense))]
    headings = [column.heading.format(**words).strip() for column in columns]
    return headings, [([column.show(row) for column in columns], kind) for row, kind in _rows(rows)]


def _terminal(rows: pd.DataFrame, narrow: bool) -> tuple[list[Column], list[Row], str]:
    """The table's columns and rows for the terminal, and its caption."""
    headings, lines = summary_texts(rows, narrow)
    points = any("points" in heading for heading in headings)
    kinds: dict[str, Kind] = {"task": "name", "method": "name", "run": "name", "status": "words"}
    columns = [Column(heading, kinds.get(heading, "number")) for heading in headings]
    styled: list[Row] = [(texts, _KINDS[kind]) for texts, kind in lines]
    return columns, styled, CAPTION + (" Points: percentage points." if points else "")


def _identity(rows: pd.DataFrame) -> list[_Column]:
    """The columns that are worth their width only where their values differ."""
    columns = [_Column("task", lambda row: row["task"])] if rows["task"].nunique() > 1 else []
    if several(rows):
        columns.append(_Column("method", lambda row: row["label"]))
    if rows["seed"].nunique() > 1:
        columns.append(_Column("seed", lambda row: f"{row['seed']}"))
    if repeated(rows).any():
        columns.append(_Column("run", lambda row: row["run"]))
    return columns


def _title(rows: pd.DataFrame) -> str:
    return f"{', '.join(rows['task'].unique())}: {method_text(rows)}"


def _difference(row: pd.Series) -> str:
    if row["temporal"] == 1 and row["method"] == "raw" and row["difference"] == 0:
        return "" if row["seed"] == "± sd" else "dense"
    return units.difference(row["difference"], row["metric_name"], row["seed"] != "± sd")


def _rows(rows: pd.DataFrame) -> list[tuple[pd.Series, str]]:
    """Rows to show, each with its kind: the cells, and after a cell's seeds mean and deviation."""
    shown, by = [], ["label"] if several(rows) else []
    rows = rows.sort_values(
        ["task", *by, "temporal", "gradient", "seed"], kind="stable",
        ascending=[True, *(True for _ in by), True, False, True],
    )  # fmt: skip
    for _, cell in rows.groupby([*CELL], sort=False):
        for _, row in cell.iterrows():
            shown.append((row, "done" if row["status"] == "done" else "failed"))
        done = cell[cell["status"] == "done"]
        if len(done) > 1 and not repeated(cell).any():
            shown += [(row, "seeds") for row in _statistics(done)]
    return shown


def _statistics(done: pd.DataFrame) -> list[pd.Series]:
    numbers = done.select_dtypes("number").columns.drop(
        ["temporal", "gradient", "total_sparsity", "seed"]
    )
    mean = done.iloc[0].copy()
    mean[numbers] = done[numbers].astype("float64").mean()
    mean["seed"], mean["status"], mean["run"] = "mean", "", ""
    spread = mean.copy()
    spread[numbers] = float("nan")
    for name in ("metric", "difference"):
        spread[name] = done[name].std(ddof=1)
    spread["seed"] = "± sd"
    return [mean, spread]
