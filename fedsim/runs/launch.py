"""Cells run with bars on stderr, as experiments run them."""

import sys
from collections.abc import Sequence
from pathlib import Path

from compressors.grammar import printable
from fedsim.results.load import Results
from fedsim.runs.progress import Bars
from fedsim.runs.sweep import run_cells
from fedsim.settings import cellfile
from fedsim.settings.grids import Cell
from fedsim.show.results_view import load


def run_shown(cells: Sequence[Cell], out: Path, jobs: int = 1) -> Results | None:
    """Runs the cells that ``out`` does not hold yet; the results, or None if a run failed.

    Bars go to stderr, and so does the error of every run that failed. ``runs.toml`` in the
    summary's folder has the cells' settings (``fedsim.settings.cellfile``).

    Args:
        cells: what to run, all of tasks with the same metric.
        out: the folder of the results.
        jobs: cells at the same time; 0: the cells are listed on stdout and not run, and only
            ``runs.toml`` is written.

    Raises ``UsageError`` before anything starts, as ``fedsim.runs.sweep.run_cells``.

    Example:
        results = run_shown([Cell("dense", RunConfig(method="raw"))], Path("results"))
    """
    if not jobs:
        for cell in cells:
            plan = cell.config.plan
            length = f"n = {plan.temporal}, {plan.iterations} iterations"
            if plan.local_epochs:
                length = f"E = {plan.local_epochs}, {plan.rounds} rounds"
            elif plan.local_seconds:
                length = f"{plan.local_seconds:g} s, {plan.rounds} rounds"
            print(
                f"{cell.name}: {plan.task.name}, {plan.method.text}, {length}, "
                f"{plan.clients} clients, batch {plan.batch_size}, seed {cell.config.seed}"
            )
        path = cellfile.write_cells(cells, out)
        print(f"Settings: {path or 'only in Python, where the tasks are defined'}")
        return None
    metric = cells[0].config.plan.task.metric_name
    with Bars({cell.name: cell.config.plan.rounds for cell in cells}, metric) as bars:
        summaries = run_cells(cells, out, jobs=jobs, progress=bars)
    failed = [summary for summary in summaries if summary["status"] != "done"]
    for summary in failed:
        print(printable(f"{summary['method']}: {summary['error']}"), file=sys.stderr)
    return None if failed else load(out)
