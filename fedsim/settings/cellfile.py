"""Named cells that lie on no grid, as TOML: the settings they share, then a table per cell.

    task = "digits"
    iterations = 200

    [training]
    lr = 0.1

    [cells.dense]
    method = "raw"

    [cells.sbc]
    method = "sbc"
    gradient = 0.01
    training.lr = 0.05

Settings are those of ``RunConfig``, with its defaults and its task's; a cell's settings go over the
shared settings. The folder of data sets (``data``) and the ``device`` belong to a machine: a file
may name them, and they are not written.
"""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tomli_w

from fedsim.ground.errors import UsageError, writable
from fedsim.ground.files import write_text
from fedsim.settings import trust_check, versions
from fedsim.settings.config import (
    CELLS_FILE,
    SETTINGS,
    TABLE,
    flat_settings,
    over,
    run_from_flat,
    tables,
    underscored,
)
from fedsim.settings.grids import GRID, SWEEP_ONLY, Cell

_MACHINE = ("data", "device", "gpus_per_client", "gpus_per_run")
_PLACE = re.compile(r"(?:^|[-_])(n|e|p|seed|s)(\d+(?:\.\d*)?(?:e-?\d+)?)(?=[-_]|$)")
_ALWAYS = ("task", "method", "temporal")  # written even if it is the default
_FROM_TASK = ("clients", "iterations", "batch_size", "partition")


def cells_to_toml(cells: Sequence[Cell]) -> str:
    """The cells as TOML: shared settings, then a table per cell with every setting that varies.

    A setting that all leave at its default is not written; a remark names the settings that are
    left to the task. ``cells_from_toml`` gives equal cells, except ``data`` and ``device``. Cells
    whose task or strategy is defined in Python, and was not found as ``FILE.py:NAME``, are left
    out, and a remark names them.

    Raises ``UsageError`` where no cell is left, or two have one name.

    Example:
        >>> from fedsim import RunConfig
        >>> runs = [Cell(f"seed{n}", RunConfig(method="raw", seed=n)) for n in range(2)]
        >>> cells_to_toml(runs).splitlines()[-5:]
        ['[cells.seed0]', 'seed = 0', '', '[cells.seed1]', 'seed = 1']
    """
    check_names(cells)
    named = [cell for cell in cells if _is_named(cell)]
    if not named:
        raise UsageError(
            "no cell can be written as TOML: their tasks or strategies are defined in Python"
        )
    settings = [cell.config.flat() for cell in named]
    names = [name for name in SETTINGS if name not in _MACHINE]
    alike = [n for n in names if all(values[n] == settings[0][n] for values in settings)]
    always = {
        name: settings[0][name]
        for name in alike
        if name in _ALWAYS or settings[0][name] != SETTINGS[name].default
    }
    if {"local_epochs", "local_seconds"} & {*always}:  # in place of n
        del always["temporal"]
    varied = [name for name in names if name not in alike]
    remarks = [
        f"`fedsim sweep --config {CELLS_FILE} --out DIR`",
        "runs these cells; --data says where data sets lie.",
    ]
    for task in dict.fromkeys(cell.config.plan.task for cell in named):
        of_task = [cell.config.flat() for cell in named if cell.config.plan.task == task]
        open_ = [n for n in _FROM_TASK if all(values[n] is None for values in of_task)]
        if any(values["rounds"] for values in of_task):
            open_ = [name for name in open_ if name != "iterations"]
        pairs = ", ".join(f"{name} = {json.dumps(getattr(task, name))}" for name in open_)
        remarks += [f"Left to the task {task.name}: {pairs}."] if pairs else []
    if left := [cell for cell in cells if not _is_named(cell)]:
        plans = [cell.config.plan for cell in left]
        tasks = ", ".join(dict.fromkeys(f"{plan.task.name} with {plan.strategy}" for plan in plans))
        names = [cell.name for cell in left]
        remarks.append(f"Left out, for they are defined in Python ({tasks}): {', '.join(names)}.")
    shared = versions.stamped(tables(always))
    parts = ["".join(f"# {line}\n" for line in remarks), tomli_w.dumps(shared)]
    for cell, values in zip(named, settings, strict=True):
        head = tomli_w.dumps({TABLE: {cell.name: {}}})
        parts.append(head + dotted(tables({name: values[name] for name in varied})))
    return "\n".join(parts)


def dotted(values: Mapping[str, Any]) -> str:
    """TOML lines of settings in one table, those of a group with its name before them."""
    lines = []
    for key, value in values.items():
        is_table = isinstance(value, dict)
        for line in tomli_w.dumps(value if is_table else {key: value}).splitlines(True):
            lines.append(f"{key}.{line}" if is_table else line)
    return "".join(lines)


def cells_from_toml(path: Path, *, trust_code: bool = False) -> list[Cell]:
    """The cells of a TOML file; ``UsageError`` names the file, the cell and the key.

    ``trust_code``: as ``fedsim.settings.config.from_toml`` has it.
    """
    values = versions.read_versioned(path)
    if TABLE not in values:
        raise UsageError(f"{path}: it has no cells; it takes a table per cell, as [cells.baseline]")
    return from_values(values, str(path), trust=None if trust_code else ())


def from_values(
    values: Mapping[str, Any],
    origin: str,
    flags: Mapping[str, Any] = MappingProxyType({}),
    trust: Collection[str] | None = None,
) -> list[Cell]:
    """The cells of what the TOML file ``origin`` holds.

    ``flags``: settings that go over every cell's; ``trust``: the code that may be executed
    (``fedsim.settings.trust_check``), None: all.

    Raises ``UsageError`` for a grid's lists in a file with cells, an unknown setting, a name that
    cannot be a folder's, and settings that a run would refuse.
    """
    named = values[TABLE]
    common = underscored({name: value for name, value in values.items() if name != TABLE}, origin)
    for name in (*GRID, *SWEEP_ONLY):
        if name in ("seeds", *SWEEP_ONLY) and name in common or isinstance(common.get(name), list):
            raise UsageError(
                f"{origin}: {name} is {common[name]!r} and the file has cells: write either "
                "a grid (lists of temporal, gradient and seeds) or cells"
            )
    if not isinstance(named, dict) or not named:
        raise UsageError(f"{origin}: cells is {named!r}; it takes a table per cell: [cells.sbc]")
    shared = flat_settings(common, origin)
    cells = []
    for name, table in named.items():
        where = f"{origin}: cell {name!r}"
        if not isinstance(table, dict):
            raise UsageError(f"{where} is {table!r}; it takes a table of settings")
        flat = flat_settings(table, where)
        settings = over({**shared, **flat}, flags)
        if trust is not None:
            trust_check.check_trust(settings, where, trust)
        try:
            cells.append(Cell(name, run_from_flat(settings)))
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
    return cells


def labelled(cell: Cell) -> Cell:
    """The cell with its name as its label, where it has none: less its delay, fraction and seed.

    These have columns of their own, and cells that differ in them alone have one label: ``sbc`` of
    ``sbc-n10-p0.01-s2``. A number that is not the cell's stays.
    """
    config = cell.config
    if config.label is not None:
        return cell
    fraction, seed = config.plan.method.gradient, config.seed
    epochs = config.local_epochs or math.nan
    values = {"n": config.temporal, "e": epochs, "p": fraction, "s": seed, "seed": seed}

    def unlike(part: re.Match[str]) -> str:
        number, true = float(part[2]), float(values[part[1]])
        return "" if abs(number - true) <= 0.01 * true else part[0]  # a name rounds: p0.333

    label = _PLACE.sub(unlike, cell.name).strip("-_.")
    return replace(cell, config=replace(config, label=label or None))


def write_cells(cells: Sequence[Cell], out: Path) -> Path | None:
    """Writes ``runs.toml`` into the folder ``out``, made if need be.

    Cells of an earlier file that were run there stay in it: a folder may grow. Returns the
    file's path, or None, and nothing is written, where every task is defined in Python.
    """
    path = out / CELLS_FILE
    # ``own_files`` has looked
    before = cells_from_toml(path, trust_code=True) if path.exists() else []
    now = {cell.name for cell in cells}
    earlier = [c for c in before if c.name not in now and (out / "cells" / c.name).is_dir()]
    if not any(map(_is_named, [*earlier, *cells])):
        return None
    write_settings(path, cells_to_toml([*earlier, *cells]))
    return path


def write_settings(path: Path, text: str) -> None:
    """Writes a file of settings; ``UsageError`` where its folder cannot be written."""
    with writable("--out", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)


def check_names(cells: Sequence[Cell]) -> None:
    """Raises ``UsageError`` where two cells have one name: they would share a folder."""
    names = [cell.name for cell in cells]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise UsageError(f"cells: {twice!r} is the name of two; give each another name")


def cells_digest(cells: Sequence[Cell], files: bool) -> str:
    """Eight hex digits of the cells' names and settings, and of what ``files`` hold if wanted."""
    lines = "\n".join(f"{cell.name} {cell.config.digest_of(files)}" for cell in cells)
    return blake2b(lines.encode(), digest_size=4).hexdigest()


def _is_named(cell: Cell) -> bool:
    parts = cell.config.task, cell.config.strategy
    return all(isinstance(part, str) or part.place for part in parts)
