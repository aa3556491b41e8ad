"""The frame of an experiment: which names ``--only`` takes, a list of runs, and what is shown."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common.tables import write_csv
from fedsim import Cell, UsageError, run_shown
from fedsim.ground.files import write_text
from fedsim.show.plot import save, without_rc


@dataclass(frozen=True)
class Asked:
    """What one folder of results is to hold.

    Attributes:
        scale: smoke, short or paper.
        task: the task of the folder; empty where the experiment has one folder for all.
        rows: the rows that are wanted; empty: those that the experiment chooses.
        out: the folder.
        jobs: cells at the same time; 0: runs are listed and not carried out.
        data: the folder with data sets; None: fedsim's default.
        added: the text of a method of the user's own; empty: none.
    """

    scale: str
    task: str
    rows: list[str]
    out: Path
    jobs: int = 1
    data: str | None = None
    added: str = ""

    @property
    def folder(self) -> Path | None:
        """``data`` as ``Task.load`` takes it."""
        return Path(self.data) if self.data else None


@dataclass(frozen=True)
class Shown:
    """What an experiment leaves beside its runs.

    Attributes:
        tables: frames by name, written as NAME.csv.
        texts: tables in Markdown by name, written as NAME.md and printed.
        figures: figures by name, written as NAME.png.
        digits: significant digits of a table's numbers, where they are not 6; None: all.
    """

    tables: Mapping[str, pd.DataFrame]
    texts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Figure | Axes] = field(default_factory=dict)
    digits: Mapping[str, int | None] = field(default_factory=dict)

    def write(self, out: Path) -> None:
        """Writes all files into ``out`` and prints the texts."""
        out.mkdir(parents=True, exist_ok=True)
        for name, frame in self.tables.items():
            write_csv(out / f"{name}.csv", frame, self.digits.get(name, 6))
        for name, text in self.texts.items():
            write_text(out / f"{name}.md", text)
        for name, drawn in self.figures.items():
            save(drawn, out / f"{name}.png")
        if self.texts:
            print("\n".join(self.texts.values()))


def device(scale: str) -> str:
    """Where runs of a scale are trained: at ``paper`` on a GPU, where there is one."""
    return "cuda" if scale == "paper" and torch.cuda.is_available() else "cpu"


def no_names(scale: str) -> Collection[str]:
    """The names of an experiment that has no tasks, or no rows."""
    return ()


@dataclass(frozen=True)
class Experiment:
    """A published table or figure: its names, its runs, and what is shown of their results.

    Attributes:
        show: tables, texts and figures of a folder, from its `Results`; these are None without
            runs.
        cells: the runs of a folder; None where ``show`` does the work without any.
        tasks: the names of the tasks that a scale has; each has a folder of its own.
        rows: the names of the rows that a scale has; they share a folder.
        default: the names that are run where ``--only`` names none; None: all tasks, and the rows
            that the experiment chooses.
        what: what the names are, as errors say it.
        folder: the folder of results below the one of ``--out``.
        adds: whether it runs a method of the user's own (``--add``).
        plan: what ``show`` will run of a folder, in words, for ``--dry-run``; None where ``cells``
            lists the runs, or nothing does.

    Example:
        EXPERIMENT = Experiment(show, cells, tasks=lambda scale: ("digits",))
    """

    show: Callable[[Asked, Any], Shown]
    cells: Callable[[Asked], Sequence[Cell]] | None = None
    tasks: Callable[[str], Collection[str]] = no_names
    rows: Callable[[str], Collection[str]] = no_names
    default: Callable[[str], Collection[str] | None] = lambda scale: None
    what: str = "tasks"
    folder: Callable[[Asked], str] = lambda asked: asked.task
    adds: bool = False
    plan: Callable[[Asked], str] | None = None

    @classmethod
    def of_tasks(
        cls,
        show: Callable[[Asked, Any], Shown],
        cells: Callable[[Asked], Sequence[Cell]],
        sizes: Mapping[str, Collection[str]],
        rows: Collection[str] = (),
    ) -> "Experiment":
        """An experiment of the same rows on several tasks; at smoke scale on digits alone.

        Args:
            show, cells: as the fields.
            sizes: the scales that each task has.
            rows: the names of the rows; empty: ``--only`` names tasks alone.
        """
        return cls(
            show,
            cells,
            what="tasks and rows" if rows else "tasks",
            rows=lambda scale: rows,
            tasks=lambda scale: [name for name, scales in sizes.items() if scale in scales],
            default=lambda scale: ["digits"] if scale == "smoke" else None,
        )

    def main(
        self,
        scale: str,
        only: list[str] | None,
        out: Path,
        jobs: int,
        data: str | None,
        added: str = "",
    ) -> int:
        """Carries out what ``only`` names at ``scale``; 1 if a run failed or none was carried out.

        Raises ``UsageError`` before any work for a name that the scale does not have, and for a
        method where the experiment takes none.
        """
        if added and not self.adds:
            raise UsageError(f"--add is {added!r}: this experiment takes no method of one's own")
        tasks, rows = self.named(scale, only)
        code = 0
        for task in tasks or ("",):
            asked = Asked(scale, task, rows, out, jobs, data, added)
            asked = replace(asked, out=out / self.folder(asked))
            results = None
            if self.plan is not None and not jobs:
                print(self.plan(asked))
                continue
            if self.cells is not None and (cells := self.cells(asked)):
                results = run_shown(cells, asked.out, asked.jobs)
                if results is None:
                    code = 1
                    continue
            with without_rc():
                self.show(asked, results).write(asked.out)
        return code

    def named(self, scale: str, only: list[str] | None) -> tuple[list[str], list[str]]:
        """The tasks and the rows that are wanted, each once."""
        tasks, rows = list(self.tasks(scale)), list(self.rows(scale))
        known = [*tasks, *rows]
        for name in only or ():
            if name not in known:
                raise UsageError(
                    f"--only is {name!r}: {self.what} of --scale {scale} are {', '.join(known)}"
                )
        wanted, default = list(dict.fromkeys(only or ())), list(self.default(scale) or ())
        return (
            [n for n in wanted if n in tasks] or [n for n in default if n not in rows] or tasks,
            [n for n in wanted if n in rows] or [n for n in default if n in rows],
        )
