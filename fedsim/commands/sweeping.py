"""``fedsim sweep``: a grid of runs over temporal and gradient sparsity."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsim import flags as shared
from fedsim import grids, sweeps
from fedsim.commands.document import print_document
from fedsim.config import read_toml
from fedsim.methods import takes_fraction
from fedsim.progress import Bars
from fedsim.tables import summary_table


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "sweep",
        help="run a grid of temporal and gradient sparsities and report on it",
        description="Trains every cell of the grid --temporal x --gradient x --seeds, counts every "
        "bit, and writes tables, figures and report.html. The same command goes on where it was "
        "stopped.",
    )
    parser.add_argument(
        "--temporal", metavar="N,...", help="local iterations a round (default: 10)"
    )
    parser.add_argument(
        "--gradient", metavar="P,...",
        help="fractions of entries sent, in (0, 1] (default: 0.01 where the method takes one)",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, metavar="INT", help="how many seeds, from 0 up")
    parser.add_argument(
        "--no-baseline", action="store_true", help="leave out the dense reference cell (1, 1)"
    )
    parser.add_argument("--config", metavar="FILE", help="settings and grid from a TOML file")
    parser.add_argument("--out", metavar="DIR", help="results (default: fedsim-results/NAME)")
    parser.add_argument(
        "--jobs", type=int, metavar="INT",
        help="cells at the same time, as Ray tasks (default: one a core for 4 cells or more, "
        "else 1: here, without Ray)",
    )  # fmt: skip
    parser.add_argument("--ray-address", metavar="ADDRESS", help="run the cells on a Ray cluster")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    shared.add_settings(parser, skip=("temporal", "gradient", "seed"), defaults={"method": "sbc"})
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Runs the sweep; 1 if a cell failed."""
    config = from_flags(flags)
    cells = config.cells()
    out = shared.folder(flags, default_name(config))
    jobs = flags.jobs
    if jobs is None:
        many = len(cells) >= 4 and config.base.engine == "local"
        jobs = min(os.cpu_count() or 1, len(cells)) if many else 1
    rounds = {cell.name: cell.config.plan.rounds for cell in cells}
    metric = cells[0].config.plan.task.metric_name
    with Bars(rounds, metric, quiet=flags.json) as bars:
        summaries = sweeps.sweep(
            config, out, jobs=jobs, ray_address=flags.ray_address, progress=bars
        )
    if flags.json:
        print_document({"out": str(out), "cells": summaries})
    else:
        show(summaries, out)
    return int(any(s["status"] != "done" for s in summaries))


def from_flags(flags: argparse.Namespace) -> grids.SweepConfig:
    """The sweep that the flags, over a TOML file if there is one, ask for."""
    values: dict[str, Any] = {"method": "sbc"}
    if flags.config:
        values |= read_toml(Path(flags.config))
    values |= {k: v for k, v in shared.given(flags).items() if k not in grids.GRID}
    if flags.temporal is not None:
        values["temporal"] = shared.numbers(flags.temporal, "--temporal", int)
    if flags.gradient is not None:
        values["gradient"] = shared.numbers(flags.gradient, "--gradient", float)
    if "gradient" not in values and takes_fraction(values["method"]):
        values["gradient"] = [0.01]
    if flags.seeds is not None:
        values["seeds"] = flags.seeds
    if flags.no_baseline:
        values["baseline"] = False
    return grids.from_values(values, flags.config or "sweep")


def default_name(config: grids.SweepConfig) -> str:
    """A folder name for the settings that all cells share, so that a grid can grow in it."""
    method = "".join(c if c.isalnum() else "-" for c in config.base.method).strip("-")
    digest = sweeps.shared_digest(config)
    return f"{config.base.plan.task.name}-{method[:40]}-{digest}"


def show(summaries: list[dict[str, Any]], out: Path) -> None:
    """The table, what failed, and where everything is."""
    console = Console()
    console.print(summary_table(summaries, console.width))
    for summary in summaries:
        if summary["status"] != "done":
            where = f"n={summary['temporal']} p={summary['gradient']:g} seed={summary['seed']}"
            print(f"failed: {where}: {summary['error']}", file=sys.stderr)
    console.print(f"Results: {out}", highlight=False, soft_wrap=True)
    console.print(f"Report:  {out / 'report.html'}", highlight=False, soft_wrap=True)
