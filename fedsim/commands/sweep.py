"""``fedsim sweep``: a grid of runs over temporal and gradient sparsity."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compressors.grammar import printable
from fedsim.commands import flags as shared
from fedsim.commands.output import add_dry_run, add_open, open_page, print_document, print_estimates
from fedsim.ground.errors import UsageError
from fedsim.settings.config import TABLE, over
from fedsim.settings.declarations import flag
from fedsim.settings.fields import GRADIENT
from fedsim.settings.versions import read_versioned

if TYPE_CHECKING:
    import pandas as pd

    from fedsim.settings import grids
    from fedsim.settings.config import RunConfig

_LISTS = ("temporal", "local_epochs", "gradient")
"""Settings of a run that take several values here."""


def add_sweep(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "sweep",
        main=shared.MAIN,
        help="run a grid of temporal and gradient sparsities and report on it",
        description="Trains every cell of the grid --temporal (or --local-epochs) x --gradient x "
        "--seeds, and of every --vary, counts every bit, and writes tables, figures and "
        "report.html. The same command resumes a stopped sweep.",
    )
    parser.add_argument(
        "--temporal", metavar="N,...", help="local iterations per round (default: 10)"
    )
    parser.add_argument(
        "--local-epochs",
        metavar="E,...",
        help="epochs per round of each client's samples, in place of --temporal; takes --rounds",
    )
    parser.add_argument(
        "--gradient",
        metavar="P,...",
        help="fractions of entries sent, in (0, 1] (default: 0.01 where the method takes one)",
    )
    parser.add_argument(
        "--seeds", metavar="INT|S,...", help="how many seeds, from 0 up; several: these seeds"
    )
    parser.add_argument(
        "--vary",
        metavar="SETTING=V,...",
        action="append",
        default=[],
        help="several values of any other setting, such as lr=0.01,0.1; may be repeated",
    )
    parser.add_argument(
        "--no-baseline", action="store_true", help="leave out the dense reference cell (1, 1)"
    )
    shared.add_config(parser, "settings and grid, or a list of cells,")
    parser.add_argument("--out", metavar="DIR", help="results (default: fedsim-results/NAME)")
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="INT",
        help="cells at the same time (default: for 4 cells or more one per core, as far as free "
        "memory lasts, else 1)",
    )
    parser.add_argument(
        "--only",
        type=_part,
        metavar="I/K",
        help="run part I of K parts of the cells; other processes run the others in the same --out",
    )
    parser.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="run the cells on a Ray cluster; its machines need not see --out",
    )
    shared.add_table(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_open(parser)
    add_dry_run(parser)
    shared.add_settings(parser, skip=(*_LISTS, "seed"))
    parser.set_defaults(command=_command, extra="sim")


def _command(flags: argparse.Namespace) -> int:
    """Runs the sweep; 1 if a cell failed."""
    config = grid_from_flags(flags)  # a wrong value is refused before torch is imported
    from fedsim.runs import sweep
    from fedsim.runs.progress import Bars, short_rounds
    from fedsim.settings import grids
    from fedsim.settings.masks import much_forgotten

    cells = config.cells() if isinstance(config, grids.SweepConfig) else config
    columns = shared.columns(flags, {cell.config.plan.task.metric_name for cell in cells})
    out = shared.folder(flags, *folder_name(config, cells, flags.config))
    if isinstance(config, grids.SweepConfig):
        config, cells = sweep.in_folder(config, out)
    cells = sweep.part_of(cells, flags.only)
    many = len(cells) >= 4 and all(cell.config.machine.engine == "local" for cell in cells)
    jobs = 1 if flags.jobs is None and not many else flags.jobs
    if flags.dry_run:
        return print_estimates({cell.name: cell.config for cell in cells}, jobs, flags.json)
    rounds = {cell.name: cell.config.plan.rounds for cell in cells}
    metric, missing = cells[0].config.plan.task.metric_name, ""
    configs = [cell.config for cell in cells]
    notes = [short_rounds(configs), much_forgotten(configs, [run.plan for run in configs])]
    with Bars(rounds, metric, quiet=flags.json, notes=notes) as bars:
        how: dict[str, Any] = {
            "jobs": jobs,
            "ray_address": flags.ray_address,
            "progress": bars,
            "only": flags.only,
        }
        if isinstance(config, grids.SweepConfig):
            summaries = sweep.sweep(config, out, **how)
        else:
            summaries = sweep.run_cells(config, out, **how)
            try:
                sweep.summarize(out)
            except UsageError as error:  # two cells at one place on the plane, or several tasks
                # a page of fewer cells, which could be shown, is there no more
                (out / "report.html").unlink(missing_ok=True)
                missing = str(error)
    before = [s for cell, s in zip(cells, summaries, strict=True) if cell.name not in bars.trained]
    if finished := sum(summary["status"] == "done" for summary in before):
        bars.say(f"{finished} of {len(cells)} cells were finished before, in {out}.")
    if flags.json:
        print_document({"out": str(out), "cells": summaries})
    else:
        runs = sweep_rows(out, [cell.name for cell in cells], summaries)
        named = {cell.name: one for cell, one in zip(cells, summaries, strict=True)}
        print_sweep(named, runs, out, missing, columns, flags.per_seed)
    if flags.open:
        open_page(out / "report.html")
    return int(any(s["status"] != "done" for s in summaries))


def _part(text: str) -> tuple[int, int]:
    number, slash, parts = text.partition("/")
    if not (slash and number.isdecimal() and parts.isdecimal()):
        raise argparse.ArgumentTypeError(f"it is {text!r} and takes I/K, such as 3/16")
    return int(number), int(parts)


def grid_from_flags(flags: argparse.Namespace) -> grids.SweepConfig | list[grids.Cell]:
    """A grid, or the cells of a TOML file; flags go over the settings of the file."""
    flag_values = shared.typed_settings(flags, skip=_LISTS)
    from fedsim.settings import cellfile, grids, trust_check, variations
    from fedsim.settings.methods import takes_fraction

    written = read_versioned(Path(flags.config)) if flags.config else {}
    if TABLE in written:
        for name in (*grids.GRID, "vary"):  # flags of a grid, together with a file that lists cells
            if (value := getattr(flags, name)) not in (None, []):
                raise UsageError(
                    f"{flag(name)} is {value}: {flags.config} lists cells, it is not a grid"
                )
        if flags.no_baseline:
            raise UsageError(f"--no-baseline: {flags.config} lists cells, it is not a grid")
        return cellfile.from_values(written, flags.config, flag_values, shared.trusted(flags))
    typed = variations.parse_vary(flags.vary)
    file_values = grids.flat_grid(written, flags.config)
    values = {name: value for name, value in file_values.items() if name not in typed}
    vary = {**file_values.get("vary", {}), **typed}
    # Each varied strategy has its own settings, not the default strategy's.
    merged = (
        values | flag_values
        if {"strategy", *flag_values} & vary.keys()
        else over(values, flag_values)
    )
    values = merged | ({"vary": vary} if vary else {})
    works = ("temporal", "local_epochs", "local_seconds")
    if any(getattr(flags, name) is not None for name in works):  # over those of the file
        values = {n: x for n, x in values.items() if n not in works or n in flag_values}
    for name in ("temporal", "local_epochs"):
        if (text := getattr(flags, name)) is not None:
            values[name] = shared.parse_numbers(text, name, int)
    if flags.gradient is not None:
        values["gradient"] = shared.parse_numbers(flags.gradient, "gradient", shared.number)
    methods = variations.check_values(vary, "--vary").get("method", (values.get("method", "sbc"),))
    if "gradient" not in values and any(map(takes_fraction, methods)):
        values["gradient"] = [GRADIENT]
    if flags.seeds is not None:
        seeds = shared.parse_numbers(flags.seeds, "seeds", int)
        values["seeds"] = seeds if "," in flags.seeds else seeds[0]
    if flags.no_baseline:
        values["baseline"] = False
    places = (place for choices in typed.values() for place in choices if isinstance(place, str))
    trust_check.check_trust(values, flags.config or "--vary", [*shared.trusted(flags), *places])
    return grids.sweep_from_flat(values, flags.config or "sweep")


def folder_name(
    config: grids.SweepConfig | list[grids.Cell], cells: list[grids.Cell], file: str | None
) -> tuple[str, RunConfig, Callable[[bool], str]]:
    """A folder name for the settings that all cells of a grid share, so that it can grow there.

    Listed cells have a folder named for their file, with a digest of all their settings.

    Returns the name, one of the runs, and what gives the digest that follows the name.
    """
    from fedsim.runs import sweep
    from fedsim.settings import cellfile, grids

    if not isinstance(config, grids.SweepConfig):
        name = Path(file or cellfile.CELLS_FILE).stem
        return name, cells[0].config, partial(cellfile.cells_digest, config)
    title = "methods" if "method" in config.vary else config.base.method
    method = "".join(c if c.isalnum() else "-" for c in title).strip("-")
    name = f"{config.base.plan.task.name}-{method[:40]}"
    return name, cells[0].config, partial(sweep.shared_digest, config)


def sweep_rows(out: Path, names: list[str], summaries: list[dict[str, Any]]) -> pd.DataFrame:
    """The rows of these cells, with the same columns of settings as on the page.

    Cells that cannot share a page have their names as labels, and are not averaged.
    """
    import pandas as pd

    from fedsim.results.load import load_results
    from fedsim.results.schema import frame

    try:
        runs = load_results(out).runs
    except UsageError:
        runs = frame(summaries).set_index(pd.Index(names))
        return runs.assign(label=names, dense=False, ends_dense=False)
    return runs[runs.index.isin(names)]


def print_sweep(
    summaries: dict[str, dict[str, Any]],
    runs: pd.DataFrame,
    out: Path,
    missing: str,
    columns: list[str] | None,
    per_seed: bool,
) -> None:
    """The table, what failed, and where everything is.

    ``summaries``: by the cell's name; ``missing``: why there is no page.
    """
    from rich.console import Console

    from fedsim.show.headline import print_summary

    print_summary(Console(), runs, columns, per_seed)
    for name, summary in summaries.items():
        if summary["status"] != "done":
            print(printable(f"failed: {name}: {summary['error']}"), file=sys.stderr)
    print(printable(f"Results: {out}"))
    page = f"none: {missing}" if missing else out / "report.html"
    print(printable(f"Report:  {page}"))
