"""What is seen on stderr while runs go on: a bar a run, with rounds, metric and bits so far."""

import math
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.progress import TimeRemainingColumn as Remaining

from fedsim.units import bits


class Bars:
    """A context in which ``bars(name, row)`` moves a run's bar on.

    Args:
        rounds: run name -> its number of rounds.
        metric: what the metric is called.
        quiet: show nothing.
    """

    def __init__(self, rounds: dict[str, int], metric: str, quiet: bool = False) -> None:
        self.rounds, self.metric = rounds, metric
        self.console = Console(stderr=True, quiet=quiet)
        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24),
            TextColumn("{task.fields[told]}"), Remaining(),
            console=self.console, disable=not self.console.is_terminal,
        )  # fmt: skip
        self._starting: TaskID | None = None
        self._tasks: dict[str, TaskID] = {}
        self._score: dict[str, str] = {}

    def __enter__(self) -> "Bars":
        self._bars.start()  # data, models and Ray's workers take their time before a first round
        self._starting = self._bars.add_task("starting", total=None, told="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._bars.stop()

    def __call__(self, name: str, row: dict[str, Any]) -> None:
        """Books the row of a round that ``name`` has finished."""
        if self._starting is not None:
            self._bars.remove_task(self._starting)
            self._starting = None
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=self.rounds[name], told="")
        if not math.isnan(row["metric"]):
            self._score[name] = f"{self.metric} {row['metric']:.4g}"
        score, done = self._score.get(name, f"{self.metric} –"), row["round"]
        told = f"{done}/{self.rounds[name]} rounds · {score} · {bits(row['up_bits'])} up"
        self._bars.update(self._tasks[name], completed=done, told=told)
        if row.get("last", done == self.rounds[name]) and not self.console.is_terminal:
            self.console.print(f"{name}: {self._score.get(name)}, {bits(row['up_bits'])} up")
