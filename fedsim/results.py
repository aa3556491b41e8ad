"""What runs and sweeps leave on disk, as pandas frames; and the summary of a sweep's cells."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.errors import UsageError
from fedsim.files import write_parquet, write_text

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


@dataclass(frozen=True)
class Results:
    """The results below one folder.

    Attributes:
        runs: a row a finished run (done or failed), by n upwards, p downwards and seed, indexed by
            the run's folder name; the columns are those of `summary.json` (`COLUMNS`).
            Bits are per client, summed over rounds.
        rounds: a row a communication round, in the order of the runs: task, method, temporal,
            gradient, seed, run (the folder name), then the columns of `rounds.parquet`. Bits are
            sums over the cohort.
        path: the folder that was read.
        unfinished: names of runs that have begun and not ended; they are in neither frame.
    """

    runs: pd.DataFrame
    rounds: pd.DataFrame
    path: Path
    unfinished: tuple[str, ...] = ()


def load(path: Path | str) -> Results:
    """The results in a sweep's folder (`cells/*/`) or in the folder of a single run.

    A failed run is in `.runs`, and in `.rounds` with the rounds that it did.

    Args:
        path: a folder that `fedsim run` or `fedsim sweep` wrote, finished or still growing.

    Raises:
        UsageError: there is no such folder or no finished run in it, or a `summary.json` or
            `rounds.parquet` is missing or damaged; the message names the file.

    Example:
        results = fedsim.load("results/digits")
        results.runs[["temporal", "gradient", "metric", "ratio_content"]]
    """
    path = Path(path)
    folders = run_folders(path)
    finished = [folder for folder in folders if (folder / "summary.json").exists()]
    unfinished = tuple(folder.name for folder in folders if folder not in finished)
    if not finished:
        started = f" ({len(unfinished)} unfinished)" if unfinished else ""
        raise UsageError(
            f"no results in {path}: no finished run{started}.\n"
            "Give a folder that `fedsim run` or `fedsim sweep` wrote: "
            "it holds summary.json or cells/*/summary.json."
        )
    cells = [read_summary(folder) for folder in finished]
    finished, cells = _ordered(finished, cells)
    names = pd.Index([folder.name for folder in finished], name="run")
    tables = [_read_rounds(*pair) for pair in zip(finished, cells, strict=True)]
    rounds = [table for table in tables if len(table)] or tables[:1]
    runs = frame(cells).set_index(names)
    return Results(runs, pd.concat(rounds, ignore_index=True), path, unfinished)


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


def _ordered(folders: list[Path], cells: list[dict[str, Any]]) -> tuple[list[Path], list[Any]]:
    # As on the plane: n upwards, p downwards; by name n10 would come before n2.
    def place(pair: tuple[Path, dict[str, Any]]) -> tuple[Any, ...]:
        folder, cell = pair
        return cell["task"], cell["temporal"], -cell["gradient"], cell["seed"], folder.name

    pairs = sorted(zip(folders, cells, strict=True), key=place)
    return [folder for folder, _ in pairs], [cell for _, cell in pairs]


def _read_rounds(folder: Path, cell: dict[str, Any]) -> pd.DataFrame:
    file = folder / "rounds.parquet"
    if not file.exists() and cell["status"] != "done":
        table = pd.DataFrame(columns=list(ROUND_COLUMNS), dtype="float64")
    else:
        try:
            table = pd.read_parquet(file)
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors too
            raise _damaged(file, str(error)) from error
    missing = [name for name in ROUND_COLUMNS if name not in table.columns]
    if missing:
        raise _damaged(file, f"it lacks the columns {', '.join(missing)}")
    keys = {name: cell[name] for name in KEYS} | {"run": folder.name}
    left = pd.DataFrame({name: [value] * len(table) for name, value in keys.items()})
    return pd.concat([left, table.reset_index(drop=True)], axis=1)


def _damaged(file: Path, why: str) -> UsageError:
    reason = why.splitlines()[0][:200] if why else "it cannot be read"
    return UsageError(
        f"{file} cannot be read: {reason}.\nDelete the folder {file.parent} and run it again."
    )
