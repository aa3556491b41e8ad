"""Runs in stages, trials before what they choose, in a folder that keeps what was run before."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.common.budgets import KEPT
from fedsim import Cell, RunFailed, run_cells
from fedsim.search import Curve, ended, read_curve
from fedsim.settings.cellfile import cells_from_toml, cells_to_toml, write_settings

_DIVERGED = ("not finite", "NaN or infinity", "a finite number")
"""In the error of a run whose weights, an update or a loss stopped to be finite."""


class Runs:
    """The runs of a folder, a part of them below each name.

    Args:
        out: the folder.
        jobs: runs at the same time.
    """

    def __init__(self, out: Path, jobs: int) -> None:
        self.out, self.jobs = out, jobs

    def run(self, cells: Iterable[Cell], part: str, described: bool = False) -> None:
        """Runs what the folder does not hold.

        A run whose weights stopped to be finite has ended, too; any other failure is raised, and
        its run is tried again by the next call. What the folder holds is looked at as well: raises
        ``UsageError`` where a run of a cell's name has other settings.

        Args:
            cells: those that are wanted; some may be the same.
            part: the folder's name below ``out``.
            described: whether ``runs.toml`` is written there.
        """
        folder = self.out / part
        once = {cell.name: cell for cell in cells}.values()
        wanted = [cell for cell in once if not _diverged(folder / "cells" / cell.name)]
        if wanted:
            run_cells(wanted, folder, jobs=self.jobs, described=described)
        for cell in wanted:
            if error := _broken(folder / "cells" / cell.name):
                raise RunFailed(f"{cell.name}: {error}")

    def summary(self, cell: Cell, part: str) -> dict[str, Any]:
        """The summary of a run that has ended."""
        summary = ended(self.out / part / "cells" / cell.name)
        assert summary is not None
        return summary

    def curve(self, cell: Cell, part: str, budget_of: str = "up") -> Curve:
        """The evaluations of a run; none where its weights stopped to be finite.

        Args:
            cell: the run.
            part: where it is.
            budget_of: the bits along it: ``up``, or ``total``, those of both ways.
        """
        if self.summary(cell, part)["status"] == "failed":
            return Curve((), ())
        return read_curve(self.out / part / "cells" / cell.name, budget_of)


def put_cells(
    path: Path, cells: Iterable[Cell], ordered: Callable[[Sequence[Cell]], list[Cell]]
) -> None:
    """Writes cells into ``runs.toml`` in the place of those of their labels.

    Args:
        path: the file.
        cells: those that are put there, without where their data lie.
        ordered: all cells of the file, in their order.
    """
    bare = [
        replace(c, config=replace(c.config, machine=replace(c.config.machine, data=None)))
        for c in cells
    ]
    labels = {cell.config.label for cell in bare}
    before = cells_from_toml(path, trust_code=True)
    others = [cell for cell in before if cell.config.label not in labels]
    write_settings(path, cells_to_toml(ordered([*others, *bare])))


def _diverged(folder: Path) -> bool:
    """Whether a run has ended because its weights, an update or a loss stopped to be finite."""
    summary = ended(folder) or {"status": ""}
    return summary["status"] == "failed" and any(x in str(summary["error"]) for x in _DIVERGED)


def _broken(folder: Path) -> str | None:
    """Why a run does not count: empty before it ends, None where it ended, also by diverging."""
    summary = ended(folder)
    if summary is None:
        return ""
    return summary["error"] if summary["status"] == "failed" and not _diverged(folder) else None


def within(curve: Curve, bits: float) -> tuple[float, float] | None:
    """Bits and metric of the last evaluation that keeps to the budget; None: there is none."""
    place = curve.within(KEPT * bits)
    return None if place is None else (curve.bits[place], curve.metric[place])
