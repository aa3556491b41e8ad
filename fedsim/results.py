"""What runs and sweeps leave on disk, as pandas frames; and the summary of a sweep's cells."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.errors import UsageError
from fedsim.files import write_parquet, write_text
from fedsim.labels import VARIANT, labels
from fedsim.merging import (
    comparable,
    repeats,
    settings_of,
    unique_names,
    variants,
    without_repeated,
)

KEYS = ("task", "method", "temporal", "gradient", "seed")

INTEGERS = ("temporal", "seed", "clients", "iterations", "rounds", "parameters")

FLOATS = (
    "gradient", "metric", "loss",
    "up_wire_bits", "up_content_bits",
    "up_header_bits", "up_position_bits", "up_value_bits", "up_side_bits", "up_buffer_bits",
    "down_wire_bits", "down_content_bits", "down_buffer_bits",
    "ratio_wire", "ratio_content", "total_sparsity", "up_sent", "seconds",
)  # fmt: skip

COLUMNS = (
    "task", "method", "temporal", "gradient", "seed",
    "clients", "iterations", "rounds", "parameters",
    "metric_name", "higher_is_better", "metric", "loss",
    "up_wire_bits", "up_content_bits",
    "up_header_bits", "up_position_bits", "up_value_bits", "up_side_bits", "up_buffer_bits",
    "down_wire_bits", "down_content_bits", "down_buffer_bits",
    "ratio_wire", "ratio_content", "total_sparsity", "up_sent", "seconds",
    "data_source", "engine", "status", "error",
)  # fmt: skip

ROUND_COLUMNS = ("round", "iteration", "clients", "metric", "up_wire_bits", "up_content_bits")
LAYER_COLUMNS = ("round", "tensor", "entries", "sent")


@dataclass(frozen=True)
class Results:
    """The results below one folder or several.

    Attributes:
        runs: a row a finished run (done or failed), by n upwards, p downwards and seed, indexed by
            the run's folder name; the columns are those of `summary.json` (`COLUMNS`), then
            `label`, what figures call the method (`fedsim.labels.labels`). Where runs differ in
            settings, a column `variant` before it says in which: `lr = 0.05`.
            Bits are per client, summed over rounds.
        rounds: a row a communication round, in the order of the runs: task, method, temporal,
            gradient, seed, run (its index in `runs`), the columns of `rounds.parquet`, then label,
            metric_name and higher_is_better of the run. Bits are sums over the cohort.
        layers: a row a tensor of the model and round that was evaluated: the keys as in `rounds`,
            then round, tensor, entries, sent (the mean over the cohort), label. Empty where no run
            has recorded it.
        path: the folder that was read, the first of several.
        unfinished: names of runs that have begun and not ended; they are in no frame.
        folders: where each run of `runs` lies.
    """

    runs: pd.DataFrame
    rounds: pd.DataFrame
    path: Path
    unfinished: tuple[str, ...] = ()
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    folders: Mapping[str, Path] = field(default_factory=dict)


def load(*paths: Path | str) -> Results:
    """The results in a sweep's folder (`cells/*/`), in that of a single run, or in several of them.

    A failed run is in `.runs`, and in `.rounds` with the rounds that it did. Of several folders,
    runs are called `folder/run`; a run that several hold with the same settings (the dense
    reference of each) counts once. Settings in which the runs of a task differ (learning rate,
    strategy, clients) are part of their labels, where they are not at their defaults; so they are
    in one folder that has a cell twice.

    Args:
        paths: folders that `fedsim run` or `fedsim sweep` wrote, finished or still growing.

    Raises:
        UsageError: there is no such folder or no finished run in it; a `summary.json` or
            `rounds.parquet` is missing or damaged (the message names the file); or folders have
            one task with other metrics, models, data or test samples.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        results.runs[["label", "temporal", "gradient", "metric", "ratio_content"]]
    """
    if not paths:
        raise UsageError("load() has no folder: give one that `fedsim run` or `fedsim sweep` wrote")
    found: dict[str, Path] = {}
    unfinished: list[str] = []
    for prefix, path in unique_names([Path(path) for path in paths]).items():
        before = f"{prefix}/" if len(paths) > 1 else ""
        finished, begun = _finished(path)
        found |= {before + folder.name: folder for folder in finished}
        unfinished += [before + name for name in begun]
    cells = {name: read_summary(folder) for name, folder in found.items()}
    told: dict[str, str] = {}
    if len(paths) > 1 or repeats(cells):
        settings = settings_of(found)
        comparable(cells, settings, found)
        told = variants(cells, settings)
        if len(paths) > 1:  # in one folder every run has the name that it was given
            cells = without_repeated(cells, found, settings, told)
    cells = _ordered(cells)
    runs = frame(list(cells.values())).set_index(pd.Index(cells, name="run"))
    if any(told.values()):
        runs[VARIANT] = [told[name] for name in cells]
    runs["label"] = labels(runs)
    folders = {name: found[name] for name in cells}
    rounds = _joined([_rounds(name, folders[name], cells[name]) for name in cells], runs)
    for name in ("metric_name", "higher_is_better"):
        rounds[name] = rounds["run"].map(runs[name])
    layers = _joined([_layers(name, folders[name], cells[name]) for name in cells], runs)
    return Results(runs, rounds, Path(paths[0]), tuple(unfinished), layers, folders)


def _finished(path: Path) -> tuple[list[Path], list[str]]:
    """The finished runs of a folder of results, and the names of those that are not."""
    folders = run_folders(path)
    finished = [folder for folder in folders if (folder / "summary.json").exists()]
    unfinished = [folder.name for folder in folders if folder not in finished]
    if not finished:
        started = f" ({len(unfinished)} unfinished)" if unfinished else ""
        raise UsageError(
            f"no results in {path}: no finished run{started}.\n"
            "Give a folder that `fedsim run` or `fedsim sweep` wrote: "
            "it holds summary.json or cells/*/summary.json."
        )
    return finished, unfinished


def run_folders(path: Path) -> list[Path]:
    """The run folders at or below `path`, by name: `path/cells/*`, or `path` itself.

    Empty where `path` is no folder of results. Raises UsageError where it is no folder.
    """
    if not path.is_dir():
        raise UsageError(f"no results in {path}: there is no such folder.")
    cells = path / "cells"
    if cells.is_dir():
        found = (item for item in cells.iterdir() if item.is_dir())
        return sorted(item for item in found if not item.name.startswith("."))
    marks = ("summary.json", "config.toml")
    return [path.resolve()] if any((path / mark).exists() for mark in marks) else []


def read_summary(folder: Path) -> dict[str, Any]:
    """The cell in `folder/summary.json`.

    Raises:
        UsageError: the file cannot be read, is not JSON, or lacks what identifies a run.
    """
    file = folder / "summary.json"
    try:
        cell = json.loads(file.read_text(encoding="utf-8"))
        missing = [key for key in (*KEYS, "status") if cell.get(key) is None]
        frame([cell])  # a text where a number belongs
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _damaged(file, str(error)) from error
    if missing:
        raise _damaged(file, f"it lacks {', '.join(missing)}")
    return dict(cell)


def frame(cells: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Cells (the dicts of `summary.json`) as a frame, a row each, `COLUMNS` first.

    A value that is missing or None is NaN. Counts are int64, or pandas' nullable Int64 where one
    is missing (a cell that failed early).

    Raises:
        ValueError, TypeError: a number is not one.
    """
    table = pd.DataFrame(list(cells))
    extra = [name for name in table.columns if name not in COLUMNS]
    table = table.reindex(columns=[*COLUMNS, *extra])
    for name in INTEGERS:
        counts = pd.to_numeric(table[name]).astype("Int64")
        table[name] = counts if counts.isna().any() else counts.astype("int64")
    for name in FLOATS:
        table[name] = pd.to_numeric(table[name]).astype("float64")
    for name in ("task", "method", "metric_name", "data_source", "engine", "status", "error"):
        # Without this a column that is all None would be written with another type.
        table[name] = table[name].astype("str").where(table[name].notna())
    return table


def write_summary(directory: Path, cells: list[dict[str, Any]]) -> None:
    """Writes `summary.csv` and `summary.parquet`, a row a cell, each whole or not at all.

    Args:
        directory: the folder of the sweep.
        cells: the dicts of `summary.json`; the rows keep their order.
    """
    table = frame(cells)
    write_text(Path(directory) / "summary.csv", table.to_csv(index=False))
    write_parquet(Path(directory) / "summary.parquet", table)


def _ordered(cells: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    # As on the plane: n upwards, p downwards; by name n10 would come before n2.
    def place(item: tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
        name, cell = item
        return cell["task"], cell["temporal"], -cell["gradient"], cell["seed"], name

    return dict(sorted(cells.items(), key=place))


def _joined(tables: list[pd.DataFrame], runs: pd.DataFrame) -> pd.DataFrame:
    # pandas would take the types of empty tables into account.
    joined = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
    return joined.assign(label=joined["run"].map(runs["label"]))


def _rounds(name: str, folder: Path, cell: dict[str, Any]) -> pd.DataFrame:
    optional = cell["status"] != "done"
    return _keyed(name, cell, _read(folder / "rounds.parquet", ROUND_COLUMNS, optional))


def _layers(name: str, folder: Path, cell: dict[str, Any]) -> pd.DataFrame:
    return _keyed(name, cell, _read(folder / "layers.parquet", LAYER_COLUMNS, optional=True))


def _read(file: Path, columns: Sequence[str], optional: bool) -> pd.DataFrame:
    if optional and not file.exists():
        return pd.DataFrame(columns=list(columns), dtype="float64")
    try:
        table = pd.read_parquet(file)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors too
        raise _damaged(file, str(error)) from error
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise _damaged(file, f"it lacks the columns {', '.join(missing)}")
    return table


def _keyed(name: str, cell: dict[str, Any], table: pd.DataFrame) -> pd.DataFrame:
    keys = {key: cell[key] for key in KEYS} | {"run": name}
    left = pd.DataFrame({key: [value] * len(table) for key, value in keys.items()})
    return pd.concat([left, table.reset_index(drop=True)], axis=1)


def _damaged(file: Path, why: str) -> UsageError:
    reason = why.splitlines()[0][:200] if why else "it cannot be read"
    return UsageError(
        f"{file} cannot be read: {reason}.\nDelete the folder {file.parent} and run it again."
    )
