"""The files of one run: its summary, as rows of a table, and its frames."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from io import BytesIO
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.ground import files
from fedsim.ground.columns import columns_of, names_of
from fedsim.ground.errors import UsageError, reason, writing
from fedsim.ground.records import ClientRecord, LayerRecord, RoundRecord
from fedsim.ground.strangers import read_file, read_toml, table_of
from fedsim.results.neutral import csv_text
from fedsim.results.summaries import SummaryRecord
from fedsim.results.values import fault, fault_of_cell, fault_of_table
from fedsim.settings import versions
from fedsim.settings.config import SETTINGS, flat_settings

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

KEYS = ("task", "method", "temporal", "gradient", "seed")

COLUMNS: dict[str, type] = {spec.name: spec.kind for spec in columns_of(SummaryRecord)}
"""The columns of `summary.csv` in their order, and what each holds."""

OF_BOTH = ("ratio_wire", "up_wire_bits", "down_wire_bits")
"""From which `ratio_both` is made."""

ROUND_COLUMNS = ("round", "iteration", "clients", "metric", "up_wire_bits", "up_content_bits")
LAYER_COLUMNS = names_of(LayerRecord)
CLIENT_KEYS = ("round", "client")
_NUMBERS = {
    spec.name
    for record in (RoundRecord, ClientRecord, LayerRecord)
    for spec in columns_of(record)
    if spec.kind in (int, float)
}

TRAINED = "settings"
"""The key of `summary.json` with the settings that trained the model, defaults filled in."""

METHOD_FACTS = "told"
"""The key with the run's method: the text as typed, and facts about it
(`fedsim.settings.methods.recorded`)."""

NESTED = (TRAINED, METHOD_FACTS, files.FILES)
"""Keys of `summary.json` that are not columns of a table."""

OF_TASK = tuple(name for name, setting in SETTINGS.items() if setting.of_task)
"""Settings that are the task's where a run does not name them."""


LEFT = (
    "environment.json",
    "rounds.parquet",
    "clients.parquet",
    "layers.parquet",
    "model.safetensors",
    "payloads",
    "replies",
)
"""The files of a run whose digests are in `summary.json`. `config.toml` is compared with the
settings of the command, and `final` has digests of its own."""


def write_run(folder: Path, cell: Mapping[str, Any]) -> None:
    """Writes `folder/summary.json`, of a run that is done with digests of the other files of its
    folder.

    One that failed goes on, and writes its tables again before its summary.
    """
    present = [folder / name for name in LEFT if (folder / name).exists()]
    files.write_sealed(folder / "summary.json", cell, present if cell["status"] == "done" else [])


def read_summary(folder: Path) -> dict[str, Any]:
    """The cell in `folder/summary.json`.

    Raises ``UsageError`` where the file cannot be read, is not JSON, lacks what identifies a run,
    or holds a value that its column cannot have (`fedsim.results.values`).
    """
    file = folder / "summary.json"
    try:
        cell = files.read_sealed(file)
        scored = ("metric_name", "higher_is_better") if cell.get("status") == "done" else ()
        needed = *KEYS, "status", METHOD_FACTS, *scored
        missing = [key for key in needed if cell.get(key) is None]
    except (OSError, ValueError, AttributeError) as error:
        raise _damaged(file, str(error)) from error
    if missing:
        raise _damaged(file, f"it lacks {', '.join(missing)}")
    if wrong := fault_of_cell(cell, COLUMNS):
        raise _damaged(file, wrong)
    of_both = [cell[name] for name in OF_BOTH if cell.get(name) is not None]
    if "ratio_both" not in cell and len(of_both) == len(OF_BOTH):  # written by 0.1.0
        cell["ratio_both"] = ratio_both_ways(*of_both)
    return cell


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings in `folder/config.toml`, by flag; empty where that is not there or no TOML.

    Raises ``UsageError`` for a setting in a table where runs have no setting, where the run's name
    or its method is not a text, for a pipe, a device or a link out of its folder, and for endless
    nesting.
    """
    file, values = folder / "config.toml", dict[str, Any]()
    try:
        values = {} if file.is_dir() else read_toml(file)
    except (OSError, ValueError) as error:
        if file.exists() and not isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError):
            raise _damaged(file, reason(error)) from error
    if not values:
        return {}
    settings = flat_settings(versions.meant(values, file), str(file), newer=True)
    if wrong := fault(settings, {"label": str, "method": str}):
        raise _damaged(file, wrong)
    return settings


def ratio_both_ways(ratio: float, up: float, down: float) -> float:
    """`ratio_both`: the bits of dense sending after every iteration, both ways, over a run's.

    ``ratio`` is `ratio_wire`; ``up`` and ``down`` are `up_wire_bits` and `down_wire_bits`.
    """
    return 2 * ratio * up / (up + down) if up + down else nan


def frame(cells: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Cells (the dicts of `summary.json`) as a frame, a row each, `COLUMNS` first.

    Nested values (`NESTED`) are left out. A value that is missing or None is NaN. Counts are int64,
    or pandas' nullable Int64 where one is missing (a cell that failed early).
    """
    import pandas as pd

    table = pd.DataFrame(list(cells))
    extra = [name for name in table.columns if name not in (*COLUMNS, *NESTED)]
    table = table.reindex(columns=[*COLUMNS, *extra])
    columns = {name: table[name] for name in table}  # each put into the table would take as long
    for name, values in columns.items():
        kind = COLUMNS.get(name)
        if kind is int and values.dtype != "int64":
            counts = pd.to_numeric(values).astype("Int64")
            columns[name] = counts if counts.isna().any() else counts.astype("int64")
        elif kind is float and values.dtype != "float64":
            columns[name] = pd.to_numeric(values).astype("float64")
        elif kind is str:
            # Without this a column that is all None would be written with another type.
            columns[name] = values.astype("str").where(values.notna())
    return pd.DataFrame(columns)


def write_summary(directory: Path, cells: list[dict[str, Any]]) -> None:
    """Writes `summary.csv` and `summary.parquet` of a sweep, a row per cell in their order."""
    table = frame(cells)
    with writing(directory):
        files.write_text(Path(directory) / "summary.csv", csv_text(table))
        files.write_parquet(Path(directory) / "summary.parquet", table)


def read_finished(folder: Path) -> dict[str, Any]:
    """The cell in `folder/summary.json`, of a run whose other tables can be read too.

    Raises ``UsageError`` where one is damaged, or a run that is done has no `rounds.parquet`.
    """
    cell = read_summary(folder)
    optional = cell["status"] != "done"
    _read(folder / "rounds.parquet", ROUND_COLUMNS, cell, optional, rows=False)
    _read(folder / "layers.parquet", LAYER_COLUMNS, cell, True, rows=False)
    return cell


def check_left(folder: Path, cell: Mapping[str, Any]) -> None:
    """Raises ``UsageError`` where a file that a run, ``cell``, has left is missing or damaged."""
    try:
        files.check_beside(folder / "summary.json", cell)
    except files.DamagedFile as error:
        raise _damaged(error.file, error.problem) from error


def rounds_of(folder: Path, cell: Mapping[str, Any]) -> pd.DataFrame:
    """`rounds.parquet`; empty where a run failed before its first round."""
    done = cell["status"] == "done"
    table = _read(folder / "rounds.parquet", ROUND_COLUMNS, cell, not done)
    if done and not len(table):
        raise _damaged(folder / "rounds.parquet", "it has no rows")
    return table


def layers_of(folder: Path, cell: Mapping[str, Any]) -> pd.DataFrame:
    """`layers.parquet`; empty where there is none."""
    return _read(folder / "layers.parquet", LAYER_COLUMNS, cell, optional=True)


def clients_of(folder: Path) -> pd.DataFrame:
    """`clients.parquet` of a run, looked at by the digest in its summary.

    Raises ``UsageError`` where it is missing or damaged.
    """
    cell = read_summary(folder) if (folder / "summary.json").exists() else {}
    return _read(folder / "clients.parquet", CLIENT_KEYS, cell, optional=False)


def _read(
    file: Path, columns: Sequence[str], cell: Mapping[str, Any], optional: bool, rows: bool = True
) -> pd.DataFrame:
    """A table of a run, or its columns alone; an optional one that is not there is empty."""
    import pandas as pd
    from pyarrow.parquet import read_schema

    written = cell.get(files.FILES, {}).get(file.name)
    if optional and written is None and not os.path.lexists(file):
        return pd.DataFrame(columns=list(columns), dtype="float64")
    try:
        content = read_file(file)
        if written not in (None, files.digest_of(content)):
            raise ValueError(files.CHANGED)
        if rows:  # in half the time of pd.read_parquet, which imports pyarrow's data sets
            table = table_of(content)
        else:  # from the end of the file: a tenth of the time that its rows take
            table = pd.DataFrame(columns=read_schema(BytesIO(content)).names)
    except FileNotFoundError as error:
        raise _damaged(file, "it is missing") from error
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors too
        raise _damaged(file, str(error)) from error
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise _damaged(file, f"it lacks the columns {', '.join(missing)}")
    if wrong := fault_of_table(table, _NUMBERS):
        raise _damaged(file, wrong)
    return table


def _damaged(file: Path, problem: str) -> UsageError:
    reason = problem.splitlines()[0][:200] if problem else "it cannot be read"
    return UsageError(
        f"{file} cannot be read: {reason}.\nDelete the folder {file.parent} and run it again, or "
        "move it elsewhere to go on with the others."
    )
