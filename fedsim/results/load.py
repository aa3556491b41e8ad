"""What runs and sweeps leave on disk, as pandas frames."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from fedsim.errors import UsageError
from fedsim.results.labels import NAME, TYPED, VARIANT, labels
from fedsim.results.merge import (
    comparable,
    repeats,
    settings_of,
    unique_names,
    variants,
    without_repeated,
)
from fedsim.results.naming import typed
from fedsim.results.older import completed
from fedsim.results.schema import frame, layers_of, read_summary, rounds_of


@dataclass(frozen=True)
class Results:
    """The results below one folder or several.

    Attributes:
        runs: a row a finished run (done or failed), by n upwards, p downwards and seed, indexed by
            the run's folder name; the columns are those of `summary.csv`
            (`fedsim.results.schema.COLUMNS`), then `label`, what figures call the method:
            as its user does (`fedsim.results.labels.labels`). Where runs differ in settings, a
            column `variant` before it says in which: `lr = 0.05`.
            Bits are those of a client that takes part in every round, summed over rounds. In
            columns that end in `_per_client` they are the whole federation's over the number of
            its clients: fewer, where a cohort is smaller than the federation.
        rounds: a row a communication round, in the order of the runs: task, method, temporal,
            gradient, seed, run (its index in `runs`), the columns of `rounds.parquet`, then label,
            metric_name, higher_is_better, downlink and, where there is one, variant of the run.
            Bits are sums over the cohort.
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

    def __repr__(self) -> str:
        """What was read, in a line: the frames have too many columns to be printed."""
        tasks, methods = (_few(self.runs[name]) for name in ("task", "label"))
        begun = f", {len(self.unfinished)} unfinished" if self.unfinished else ""
        return (
            f"Results({str(self.path)!r}: {tasks}, {methods}; runs {len(self.runs)} rows{begun}, "
            f"rounds {len(self.rounds)}, layers {len(self.layers)})"
        )


def load(*paths: Path | str) -> Results:
    """The results in a sweep's folder (`cells/*/`), in that of a single run, or in several of them.

    A failed run is in `.runs`, and in `.rounds` with the rounds that it did. Of several folders,
    runs are called `folder/run`; a run that several hold with the same settings (the dense
    reference of each) counts once. Settings in which the runs of a task differ (learning rate,
    strategy, clients) are part of their labels, where they are not at their defaults.

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
    settings = settings_of(found)
    if len(paths) > 1 or repeats(cells):
        comparable(cells, settings, found)
    told = variants(cells, settings)
    if len(paths) > 1:  # in one folder every run has the name that it was given
        cells = without_repeated(cells, found, settings, told)
    cells = _ordered(cells)
    of_rounds = {name: rounds_of(name, found[name], cell) for name, cell in cells.items()}
    cells = {name: completed(cell, of_rounds[name]) for name, cell in cells.items()}
    runs = frame(list(cells.values())).set_index(pd.Index(cells, name="run"))
    if any(told.values()):
        runs[VARIANT] = [told[name] for name in cells]
    folders = {name: found[name] for name in cells}
    said = typed(folders, cells)
    methods, names = ([said[name][k] for name in cells] for k in range(2))
    runs["label"] = labels(runs.assign(**{TYPED: methods, NAME: names}))
    rounds = _joined(list(of_rounds.values()), runs)
    for name in ("metric_name", "higher_is_better", "downlink"):
        rounds[name] = rounds["run"].map(runs[name])
    layers = _joined([layers_of(name, folders[name], cells[name]) for name in cells], runs)
    return Results(runs, rounds, Path(paths[0]), tuple(unfinished), layers, folders)


def _finished(path: Path) -> tuple[list[Path], list[str]]:
    """The finished runs of a folder of results, and the names of those that are not."""
    folders = run_folders(path)
    finished = [folder for folder in folders if (folder / "summary.json").exists()]
    unfinished = [folder.name for folder in folders if folder not in finished]
    if not finished:
        started = f" ({len(unfinished)} unfinished)" if unfinished else ""
        raise UsageError(f"no results in {path}: no finished run{started}.\n{_instead(path)}")
    return finished, unfinished


def run_folders(path: Path) -> list[Path]:
    """The run folders at or below `path`, by name: `path/cells/*`, or `path` itself.

    Empty where `path` is no folder of results. Raises UsageError where it is no folder.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"no results in {path}: it is a file; give its folder, {path.parent}.")
    if not path.is_dir():
        raise UsageError(f"no results in {path}: there is no such folder.")
    if kind_of(path) == "sweep":
        found = (item for item in (path / "cells").iterdir() if item.is_dir())
        return sorted(item for item in found if not item.name.startswith("."))
    return [path.resolve()] if kind_of(path) == "run" else []


def kind_of(path: Path) -> Literal["run", "sweep"] | None:
    """Whether a folder is a run's or a sweep's; None: neither's, or there is none."""
    if (path / "cells").is_dir():
        return "sweep"
    marks = ("summary.json", "config.toml")
    return "run" if any((path / mark).exists() for mark in marks) else None


def _instead(path: Path) -> str:
    """What to give where `path` holds no results: folders in it that do, or what such are."""
    inside = sorted(item for item in path.iterdir() if item.is_dir() and kind_of(item))
    if kind_of(path) or not inside:
        return (
            "Give a folder that `fedsim run` or `fedsim sweep` wrote: "
            "it holds summary.json or cells/*/summary.json."
        )
    more = f" and {len(inside) - 5} more" if len(inside) > 5 else ""
    return f"Give one of the folders in it, or several: {', '.join(map(str, inside[:5]))}{more}."


def _ordered(cells: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    # As on the plane: n upwards, p downwards; by name n10 would come before n2.
    def place(item: tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
        name, cell = item
        return cell["task"], cell["temporal"], -cell["gradient"], cell["seed"], name

    return dict(sorted(cells.items(), key=place))


def _joined(tables: list[pd.DataFrame], runs: pd.DataFrame) -> pd.DataFrame:
    # pandas would take the types of empty tables into account.
    joined = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
    told = [name for name in ("label", VARIANT) if name in runs.columns]
    return joined.assign(**{name: joined["run"].map(runs[name]) for name in told})


def _few(column: pd.Series) -> str:
    """The first three values of a column, and how many more there are."""
    found = [str(value) for value in column.unique()]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
