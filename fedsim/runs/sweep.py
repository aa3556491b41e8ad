"""A grid of runs over the plane of temporal and gradient sparsity, and its folder.

Finished cells are never run again; a cell that fails is recorded with its traceback
and does not stop the rest.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedsim.federation.clientdata import ClientData
from fedsim.ground.errors import UsageError, expect
from fedsim.ground.extras import check_extra
from fedsim.ground.files import FILES
from fedsim.results import schema
from fedsim.results.folders import kind_of, run_folders
from fedsim.runs import checkpoint, lock
from fedsim.runs.folder import (
    as_there,
    examine,
    goes_on,
    is_masked_as_before,
    prepare,
    same_settings,
    tell,
)
from fedsim.runs.parallel import ProgressCallback, RunSpec, run_here
from fedsim.runs.processes import run_beside
from fedsim.runs.progress import Bars, Reporter, reporter_of
from fedsim.runs.run import check_run, describe_run
from fedsim.settings import cellfile, grids, masks
from fedsim.settings.config import SETTINGS, RunConfig, digest_of_values, tables
from fedsim.settings.config import from_toml as from_run_toml
from fedsim.settings.contents import CONTENT, file_digests, name_of, recorded_content
from fedsim.settings.controllers import parse_controller
from fedsim.settings.foreign import own_files
from fedsim.settings.grids import Cell, SweepConfig
from fedsim.settings.strategies import FLAGS, adds_codes, least_steps
from fedsim.settings.versions import FORMER, MASKING, former
from fedsim.show.report import summarize

CellShare = tuple[int, int]
"""The number of a part, from 1 up, and how many parts there are."""

_NO_SUMMARY = "its folder holds no summary after its run; the same command runs it again"


def run_cells(
    cells: Sequence[Cell],
    out: Path | str,
    *,
    jobs: int | None = 1,
    ray_address: str | None = None,
    progress: Reporter | bool | None = True,
    described: bool = True,
    only: CellShare | None = None,
) -> list[dict[str, Any]]:
    """Runs every unfinished cell in ``out/cells/<name>`` and returns all summaries.

    The cells need not lie on one plane; ``summary.csv`` and ``summary.parquet`` hold them, and
    ``runs.toml`` their settings: `fedsim sweep --config` runs them again
    (``fedsim.settings.cellfile``).

    Args:
        cells: what to run.
        out: as of ``sweep``.
        jobs: as of ``sweep``.
        ray_address: as of ``sweep``.
        progress: as of ``sweep``.
        described: whether ``runs.toml`` is written; a grid has its ``sweep.toml``.
        only: the part of the cells that this process runs, as ``part_of`` has it; the summaries are
            of these. The tables hold all that have ended.

    Raises ``UsageError`` before anything starts if any cell would.
    """
    out, configs = Path(out), [cell.config for cell in cells]
    with own_files(out, configs):
        runs = as_there(configs, out)
        cells = [replace(cell, config=run) for cell, run in zip(cells, runs, strict=True)]

        def begin(chosen_cells: Sequence[Cell]) -> list[RunSpec]:
            waiting = _prepared(chosen_cells, out)
            if described:
                cellfile.write_cells(cells, out)
            return waiting

        # A grid's names say the place alone.
        named = [cellfile.labelled(cell) for cell in cells] if described else cells
        return _carried_out(named, out, jobs, ray_address, progress, only, begin)


def part_of(cells: Sequence[Cell], only: CellShare | None) -> list[Cell]:
    """The cells of one part of a sweep, about as long as the other parts; None: all of them.

    Raises ``UsageError`` for a part that there is not.
    """
    if only is None:
        return list(cells)
    number, parts = only
    if not 1 <= number <= parts:
        raise UsageError(f"--only is {number}/{parts}: its first number goes from 1 to the second")
    if parts > len(cells):
        raise UsageError(f"--only is {number}/{parts}: there are {len(cells)} cells to divide")
    longest_first = sorted(cells, key=lambda cell: -_cost(cell.config))
    return longest_first[number - 1 :: parts]


def _cost(config: RunConfig) -> int:
    return config.plan.rounds * config.plan.requests


_TURN_SECONDS = 600.0
"""How long a part waits while another begins or ends in the same folder."""


def _carried_out(
    cells: Sequence[Cell],
    out: Path,
    jobs: int | None,
    ray_address: str | None,
    progress: Reporter | bool | None,
    only: CellShare | None,
    begin: Callable[[Sequence[Cell]], list[RunSpec]],
    end: Callable[[], object] = lambda: None,
) -> list[dict[str, Any]]:
    """Runs cells between ``begin``, which returns those that wait, and ``end``.

    With ``only``, other processes run other cells in the folder; each cell's folder has a lock too.
    """
    check_sweep(cells, jobs, on_this_machine=ray_address is None)
    check_folder(out, cells)
    chosen_cells = part_of(cells, only)

    def finish() -> list[dict[str, Any]]:
        summaries = _summarized(cells, chosen_cells, out)
        end()
        return summaries

    if only is None:
        with lock.locked(out):
            _run_waiting(begin(chosen_cells), jobs, ray_address, progress)
            return finish()
    with lock.locked(out, _TURN_SECONDS):
        waiting = begin(chosen_cells)
    _run_waiting(waiting, jobs, ray_address, progress)
    with lock.locked(out, _TURN_SECONDS):
        return finish()


def _prepared(cells: Sequence[Cell], out: Path) -> list[RunSpec]:
    """Makes the cells' folders ready; returns the cells that are to run."""
    folders = {cell.name: out / "cells" / cell.name for cell in cells}
    # all of them before any is changed
    examined = {cell.name: examine(cell.config, folders[cell.name]) for cell in cells}
    tell((folders[name], folder_state) for name, folder_state in examined.items())
    done = {c.name: prepare(c.config, folders[c.name], examined[c.name]) for c in cells}
    for cell in cells:
        if done[cell.name] is not None and not cell.config.keep.checkpoint:
            checkpoint.forget_end(folders[cell.name])  # a kill may have come while it was removed
    return [(c.name, c.config, folders[c.name]) for c in cells if done[c.name] is None]


def _run_waiting(
    waiting: list[RunSpec],
    jobs: int | None,
    ray_address: str | None,
    progress: Reporter | bool | None,
) -> None:
    if not waiting:
        return
    rounds = {name: config.plan.rounds for name, config, _ in waiting}
    if isinstance(progress, Bars):
        progress.expect(rounds)
    with reporter_of(progress, rounds, waiting[0][1].plan.task.metric_name) as bars:
        if jobs == 1 and ray_address is None:
            run_here(waiting, _to_the_end(bars))
            return
        # The longest first: at the end no core waits for one that has just begun.
        waiting.sort(key=lambda work: -_cost(work[1]))
        on_gpu = any(config.machine.device != "cpu" for _, config, _ in waiting)
        run_beside(waiting, jobs, ray_address, _to_the_end(bars), on_gpu=on_gpu)


def _summarized(
    cells: Sequence[Cell], chosen_cells: Sequence[Cell], out: Path
) -> list[dict[str, Any]]:
    """Writes the tables of all cells that have ended; returns the summaries of those chosen."""
    summaries = {cell.name: _summary(cell, out) for cell in chosen_cells}
    others = {
        cell.name: _summary(cell, out)
        for cell in cells
        if cell.name not in summaries and _file(cell, out).exists()
    }
    written = summaries | others
    schema.write_summary(out, [written[cell.name] for cell in cells if cell.name in written])
    return [*summaries.values()]


def _file(cell: Cell, out: Path) -> Path:
    return out / "cells" / cell.name / "summary.json"


def _summary(cell: Cell, out: Path) -> dict[str, Any]:
    if (file := _file(cell, out)).exists():
        summary = schema.read_summary(file.parent)
    else:  # not written down: a shared disk may only be late
        summary = describe_run(cell.config, None) | {"status": "failed", "error": _NO_SUMMARY}
    nested = (schema.METHOD_FACTS, FILES)
    plain = {name: value for name, value in summary.items() if name not in nested}
    return dict.fromkeys(schema.COLUMNS) | plain  # a failed run has no metric, no bits


def _to_the_end(bars: Reporter | None) -> ProgressCallback | None:
    """``bars`` without its return value, which would end a run: a sweep's runs all go on."""

    def tell(name: str, row: dict[str, Any]) -> None:
        assert bars is not None
        bars(name, row)

    return None if bars is None else tell


def check_sweep(cells: Sequence[Cell], jobs: int | None, on_this_machine: bool = True) -> None:
    """Refuses what can be refused before anything is written: jobs, missing data, bad splits.

    ``on_this_machine``: whether the cells run on this machine, whose devices then matter.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs is {jobs}: give a number above 0")
    cellfile.check_names(cells)
    for cell in cells:
        if (engine := cell.config.machine.engine) != "local":
            check_extra("ray", f"--engine {engine}")
        if engine != "local" and (jobs != 1 or not on_this_machine):
            raise UsageError(
                f"--engine is {engine!r} and --jobs is {jobs}: this engine starts Ray itself; run "
                "its cells with --jobs 1 and without --ray-address"
            )
        if on_this_machine:
            check_run(cell.config)
        ClientData.of(cell.config)


def check_folder(out: Path, cells: Sequence[Cell] = ()) -> None:
    """Refuses a folder that is a run's, or whose finished cells could not be shown at the end.

    Cells of earlier sweeps count too: the tables and figures are of them all. Files of the user's
    must hold for all what they hold now.
    """
    if kind_of(out) == "run":
        raise UsageError(
            f"--out is {out}: it holds a run, which would not be seen beside a sweep's cells; "
            "choose another folder"
        )
    plans = [(cell, cell.config.plan) for cell in cells]
    contents = [(c.name, plan.task.name, c.config.content, plan.strategy) for c, plan in plans]
    again = {cell.name for cell in cells}
    for folder in run_folders(out) if out.is_dir() else []:
        if (folder / "summary.json").exists():
            done = schema.read_finished(folder)
            if done["status"] == "done" or folder.name not in again:
                strategy = str(schema.read_settings(folder).get("strategy", ""))
                contents.append((folder.name, done["task"], recorded_content(folder), strategy))
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for name, task, content, strategy in contents:
        for what, digest in file_digests(content, strategy).items():
            other, before = first.setdefault((task, what), (name, digest))
            if before != digest:
                raise UsageError(
                    f"--out is {out}: no table can hold both {name} and {other}: {what}: {digest} "
                    f"in the one and {before} in the other; choose another folder, or give the "
                    "files as they were"
                )


def sweep(
    config: SweepConfig,
    out: Path | str,
    *,
    jobs: int | None = 1,
    ray_address: str | None = None,
    progress: Reporter | bool | None = True,
    only: CellShare | None = None,
) -> list[dict[str, Any]]:
    """Runs a grid in the folder ``out``, with tables, figures and page; returns all summaries.

    A folder may grow: cells of other temporal or gradient sparsities, seeds and values of the
    varied settings may be added later, as long as all other settings are the same.

    Args:
        config: the grid.
        out: a folder, made if need be.
        jobs: cells at the same time, in processes forked from this one (on a GPU, or a cluster, as
            Ray tasks of one core); 1 runs them in this process, None takes one job per core, as far
            as free memory lasts.
        ray_address: a Ray cluster to run on; the files of machines that do not see ``out`` come
            home through Ray.
        progress: called with a cell's name and the row of every round it finishes (of jobs
            every evaluation, else five a second); True: shown on stderr where that is a terminal,
            and in a notebook; False or None: not shown.
        only: the part of the cells that this process runs, as ``part_of`` has it: other processes
            run the others in the same folder. Tables and page show all that have ended.

    Raises ``UsageError`` before anything starts, for anything that a cell would refuse. A cell that
    fails later has ``failed`` as its ``status``, and the rest go on.
    """
    expect(config, SweepConfig, "sweep()")
    out = Path(out)
    config, cells = in_folder(config, out)
    with own_files(out, [cell.config for cell in cells]):

        def begin(chosen_cells: Sequence[Cell]) -> list[RunSpec]:
            claim(out, config)
            return _prepared(chosen_cells, out)

        how = jobs, ray_address, progress, only
        return _carried_out(cells, out, *how, begin, lambda: summarize(out))


def in_folder(config: SweepConfig, out: Path) -> tuple[SweepConfig, list[Cell]]:
    """A grid as the folder ``out`` goes on with it, and its cells with their names there.

    A folder of 0.1.0 goes on with that version's masking, with a warning where it differs.
    """
    cells, before = config.cells(), _masked_as_before(config)
    with own_files(out, [cell.config for cell in cells]):
        if before != config and is_masked_as_before(out):
            now, config, cells = cells, before, before.cells()
            if [c.config.plan.masks for c in now] != [c.config.plan.masks for c in cells]:
                logging.getLogger("fedsim").warning("%s", goes_on(out))
        return config, named_as_there(cells, out)


def _masked_as_before(config: SweepConfig) -> SweepConfig:
    """The grid with the masking of 0.1.0 in the place of ``auto``, but where it varies both."""
    if FORMER in config.vary.get(MASKING, ()):
        return config
    vary = {**config.vary}
    if MASKING in vary:
        vary[MASKING] = tuple(map(former, vary[MASKING]))
    return replace(config, base=masks.as_before(config.base), vary=vary)


def named_as_there(cells: Sequence[Cell], out: Path) -> list[Cell]:
    """The cells of a grid, each under the name that its run has in the folder already.

    A fraction is written with six digits, and with all where two of a grid agree to six, so that
    names change as the grid grows. The names of varied settings are in the order in which they
    were given. A rate that equals the task's own may be given or left out.
    """
    stored: dict[Hashable, tuple[str, RunConfig]] = {}
    for folder in run_folders(out) if out.is_dir() else []:
        if (folder / "config.toml").exists():
            with suppress(UsageError):  # it is another sweep's, or `examine` reports the error
                run = from_run_toml(folder / "config.toml", trust_code=True)
                stored[grids.numbers_of(run)] = folder.name, run
    taken, named = {name for name, _ in stored.values()}, list[Cell]()
    for cell in cells:
        name, run = stored.get(grids.numbers_of(cell.config), ("", cell.config))
        p = cell.config.plan.method.gradient
        if name and (cell.name not in taken or float(f"{p:g}") != p):
            rates = {setting: getattr(run.training, setting) for setting in grids.OF_OPTIMIZER}
            cell = Cell(name, cell.config.but(**rates))
        elif cell.name in taken and float(f"{p:g}") != p:
            cell = grids.in_full(cell)
        named.append(cell)
    return named


def claim(out: Path, config: SweepConfig) -> None:
    """Writes ``sweep.toml``; refuses a folder whose sweep has other settings."""
    path = out / "sweep.toml"
    if path.exists():
        before = grids.sweep_from_toml(path, trust_code=True)  # ``own_files`` has looked
        if before.vary.keys() != config.vary.keys():
            then, now = (", ".join(one.vary) or "nothing" for one in (before, config))
            raise UsageError(
                f"--out is {out}: it holds a sweep that varies {then}, and this one varies {now}; "
                "choose another folder"
            )
        # Varied settings are those of each cell, and so are the ones that follow from them.
        settings = before.base.flat()
        alike = {n: settings[n] for n in ("strategy" if n in FLAGS else n for n in config.vary)}
        base = config.base.but(**alike)
        same_settings(_off_grid(before.base), _off_grid(base), out)
        then, now = before.base.method, base.method
        if then != now:
            raise UsageError(
                f"--out is {out}: it holds results of other settings (method {then!r} there, "
                f"{now!r} here); choose another folder"
            )
    cellfile.write_settings(path, grids.sweep_to_toml(config))


def _off_grid(base: RunConfig) -> RunConfig:
    """The settings that all cells share; the method is compared by itself.

    It is raw here, but where the strategy's codes or a controller that moves p leave no raw. The
    same goes for the fragments of a strategy with a delay, and for n = 1.
    """
    moves = () if base.controller is None else parse_controller(base.controller).moves
    least = least_steps(base.strategy)
    codes = adds_codes(base.strategy) or least > 1
    method = base.method if codes or "p" in moves else "raw"
    shortest = {"temporal": least} if base.local_epochs is None else {"local_epochs": 1}
    if base.local_seconds is not None:  # which is a setting as others are
        shortest = {}
    return base.but(method=method, **shortest, gradient=None, seed=0)


def shared_digest(config: SweepConfig, files: bool = True) -> str:
    """Eight hex digits of what all cells of a sweep share, and of what ``files`` hold if wanted."""
    if not config.vary:
        return _off_grid(config.base).digest_of(files)
    left = {"temporal", "gradient", "seed", *config.vary}
    shared = {
        name: value
        for name, value in config.base.flat().items()
        if (SETTINGS[name].result or name == "rounds")  # which stand for iterations
        and name not in left
        and value != SETTINGS[name].default
    }
    plan = config.base.plan
    places = {
        "task": plan.task.name,
        "strategy": name_of(plan.strategy),
        "sampler": name_of(plan.sampler),
    }
    shared |= {name: places[name] for name in places.keys() & shared.keys()}
    of = {
        "task": "task",
        "data": "task",
        "strategy": "strategy",
        "sampler": "sampler",
        "rows": "method",
    }
    content = {k: digest for k, digest in config.base.content.items() if of[k] not in config.vary}
    values = tables(shared) | {"vary": sorted(config.vary)}
    return digest_of_values(values | ({CONTENT: content} if content and files else {}))
