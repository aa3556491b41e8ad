"""Results of runs and sweeps on disk, as pandas frames."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from fedsim.ground.errors import UsageError
from fedsim.results import merge, schema
from fedsim.results.folders import kind_of, run_folders
from fedsim.results.labels import (
    EPOCHS,
    FACTS,
    LOCAL_SECONDS,
    VARIANT,
    MethodText,
    several,
    with_labels,
)
from fedsim.results.neutral import neutral
from fedsim.results.values import REACHED

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Results:
    """The results of one or several folders; each file is read once.

    Attributes:
        runs: a row per run that has ended, by n upwards, p downwards and seed, indexed
            by the run's folder name; the columns of `summary.csv`, then `label`, the name of the
            run, else its method as typed; `dense`, whether it is raw sending; `ends_dense`, whether
            its method is raw sending at p = 1. Where runs differ in settings, each such setting is
            a column before them, defaults filled in, and a column `variant` has the settings in
            which a run differs: `lr = 0.05`.
            Bits are those of a client that takes part in every round, summed over rounds. In
            columns that end in `_per_client` they are the whole federation's over the number of
            its clients: fewer, where a cohort is smaller than the federation.
        rounds: a row per communication round, in the order of the runs: task, method, temporal,
            gradient, seed, run (its index in `runs`), the columns of `rounds.parquet`, then label,
            dense, ends_dense, metric_name, higher_is_better, downlink, status and, where there is
            one, variant of the run, and local_epochs or local_seconds of runs that train in these.
            Bits are sums over the cohort.
        layers: a row per tensor of the model and round that was evaluated: the keys as in `rounds`,
            then round, tensor, entries, sent (the mean over the cohort), label, dense, ends_dense.
            Empty where no run has recorded it.
        path: the folder that was read, or the first of several.
        unfinished: names of runs that have begun and not ended; they are in no frame.
        folders: where each run of `runs` lies.
        configs: the settings in each run's `config.toml`; empty where that cannot be read.
        trained: what trained each run's model, defaults filled in.
    """

    runs: pd.DataFrame
    rounds: pd.DataFrame
    path: Path
    unfinished: tuple[str, ...] = ()
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    folders: Mapping[str, Path] = field(default_factory=dict)
    configs: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    trained: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def done(self) -> pd.DataFrame:
        """The rows of `runs` that are done."""
        return self.runs[self.runs["status"] == "done"]

    @cached_property
    def done_rounds(self) -> pd.DataFrame:
        """The rows of `rounds` of runs that are done."""
        return self.rounds[self.rounds["run"].isin(self.done.index)]

    @cached_property
    def several(self) -> bool:
        """Whether the runs are of more than one method, or of settings that differ."""
        return several(self.runs)

    def __repr__(self) -> str:
        """A line on the results: the frames have too many columns to be printed."""
        tasks, methods = (
            ", ".join(values[:3]) + (f" and {len(values) - 3} more" if len(values) > 3 else "")
            for values in ([*map(str, self.runs[name].unique())] for name in ("task", "label"))
        )
        where = repr(str(self.path)) if self.folders else "in memory"
        begun = f", {len(self.unfinished)} unfinished" if self.unfinished else ""
        return (
            f"Results({where}: {tasks}, {methods}; runs {len(self.runs)} rows{begun}, "
            f"rounds {len(self.rounds)}, layers {len(self.layers)})"
        )


def load_results(*paths: Path | str) -> Results:
    """The results in a sweep's folder (`cells/*/`), in that of a single run, or in several of them.

    A failed run is in `.runs`, and in `.rounds` with the rounds that it did. A run that a search
    stopped at its target is done. Of several folders, runs are called `folder/run`; a run that
    is there several times with the same settings (the dense reference of each) counts once.
    Settings in which the runs of a task differ (learning rate, strategy, clients) are part of their
    labels, where they are not at their defaults.

    Args:
        paths: folders that `fedsim run` or `fedsim sweep` wrote, finished or still growing.

    Raises:
        UsageError: there is no such folder or no finished run in it; a `summary.json` or
            `rounds.parquet` is missing or damaged (the message names the file); or runs of one
            task have other metrics, models, data, files of the user's own or, in several folders,
            test samples.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        results.runs[["label", "temporal", "gradient", "metric", "ratio_content"]]
    """
    if not paths:
        raise UsageError("load() has no folder: give one that `fedsim run` or `fedsim sweep` wrote")
    for path in paths:
        if not isinstance(path, str | PathLike):
            raise UsageError(
                f"load() takes each folder by itself, as in load('a', 'b') or "
                f"load(*folders), and was given {path!r}"
            )
    folders, unfinished = _folders([Path(path) for path in paths])
    configs = {name: neutral(schema.read_settings(folder)) for name, folder in folders.items()}
    cells = {name: neutral(schema.read_summary(folder)) for name, folder in folders.items()}
    for cell in cells.values():  # at its target a run is where it was to come
        if cell.get("error") == REACHED and cell.get("metric") is not None:
            cell["status"] = "done"
    # In one folder, names distinguish runs if users gave them, or if settings are unknown.
    labels = {n: config.get("label") or "" if config else n for n, config in configs.items()}
    configs = merge.with_typed_masking(configs, cells)
    settings = merge.settings_of(configs)
    varied, differences = merge.variants(cells, settings), merge.differences_of(cells, settings)
    repeated = len(paths) > 1 or merge.repeats(cells)
    merge.check_comparable(cells, settings, folders, configs, scored=repeated)
    if repeated:
        names = labels if len(paths) == 1 else _NONE
        cells = merge.without_repeated(cells, folders, settings, varied, names)
    # As on the plane: n upwards, p downwards; by name n10 would come before n2.
    cells = dict(sorted(cells.items(), key=lambda item: (
        item[1]["task"], item[1]["temporal"], -item[1]["gradient"], item[1]["seed"], item[0]
    )))  # fmt: skip
    return replace(
        join_runs(
            cells,
            {name: configs[name] for name in cells},
            {name: schema.rounds_of(folders[name], cell) for name, cell in cells.items()},
            {
                name: _of_tensors(schema.layers_of(folders[name], cell))
                for name, cell in cells.items()
            },
            varied,
            differences,
        ),
        path=Path(paths[0]),
        unfinished=tuple(unfinished),
        folders={name: folders[name] for name in cells},
    )


def join_runs(
    cells: Mapping[str, dict[str, Any]],
    configs: Mapping[str, dict[str, Any]],
    rounds: Mapping[str, pd.DataFrame],
    layers: Mapping[str, pd.DataFrame],
    varied: Mapping[str, str] = _NONE,
    differences: Mapping[str, Mapping[str, Any]] = _NONE,
) -> Results:
    """The results of runs that are in no folder, in their order.

    ``cells``: what each run's `summary.json` has, by the run's name; ``varied``: in which settings
    each differs from others, in words; ``differences``: by setting.
    """
    runs = schema.frame(list(cells.values())).set_index(pd.Index(cells, name="run"))
    if any(varied.values()):
        runs = runs.assign(**merge.differing_columns(cells, differences))
        runs[VARIANT] = [varied[name] for name in cells]
    runs = with_labels(
        runs,
        [
            MethodText(facts["form"], facts.get("whole", ""), configs[name].get("label") or "")
            for name, facts in ((name, cell[schema.METHOD_FACTS]) for name, cell in cells.items())
        ],
    )
    facts = ("metric_name", "higher_is_better", "downlink", "status", EPOCHS, LOCAL_SECONDS)
    below = _joined(layers, runs, (EPOCHS, LOCAL_SECONDS))
    return Results(
        runs,
        _joined(rounds, runs, facts),
        Path(),
        layers=below,
        configs=configs,
        trained={name: cell.get(schema.TRAINED) or {} for name, cell in cells.items()},
    )


def _folders(paths: list[Path]) -> tuple[dict[str, Path], list[str]]:
    """The folder of each finished run by the run's name, and the names of unfinished ones.

    If a folder has no results, the error names folders in it that do, or explains what these are.
    """
    finished: dict[str, Path] = {}
    unfinished: list[str] = []
    for prefix, path in merge.unique_names(paths).items():
        before = f"{prefix}/" if len(paths) > 1 else ""
        folders = run_folders(path)
        done = [folder for folder in folders if (folder / "summary.json").exists()]
        finished |= {neutral(before + folder.name): folder for folder in done}
        unfinished += [neutral(before + folder.name) for folder in folders if folder not in done]
        if done:
            continue
        below = sorted(item for item in path.iterdir() if item.is_dir() and kind_of(item))
        instead = (
            "Give a folder that `fedsim run` or `fedsim sweep` wrote: "
            "it holds summary.json or cells/*/summary.json."
        )
        if not kind_of(path) and below:
            more = f" and {len(below) - 5} more" if len(below) > 5 else ""
            named = ", ".join(map(str, below[:5]))
            instead = f"Give one of the folders in it, or several: {named}{more}."
        started = f" ({len(folders)} unfinished)" if folders else ""
        raise UsageError(f"no results in {path}: no finished run{started}.\n{instead}")
    return finished, unfinished


def _of_tensors(table: pd.DataFrame) -> pd.DataFrame:
    """A table of tensors, whose names a page shows."""
    return table.assign(tensor=table["tensor"].map(neutral)) if len(table) else table


def _joined(
    tables: Mapping[str, pd.DataFrame], runs: pd.DataFrame, more: tuple[str, ...] = ()
) -> pd.DataFrame:
    """The tables of all runs below each other, between the keys of their runs and its facts."""
    # pandas would take the types of empty tables into account.
    filled = {name: table for name, table in tables.items() if len(table)}
    combined = pd.concat(filled or tables, names=["run"]).reset_index("run").reset_index(drop=True)
    run = combined.pop("run")
    facts = [name for name in (*FACTS, VARIANT, *more) if name in runs.columns]
    of_runs = (
        runs[[*schema.KEYS, *facts]].take(runs.index.get_indexer(run)).set_index(combined.index)
    )
    return pd.concat([of_runs[[*schema.KEYS]], run, combined, of_runs[facts]], axis=1)
