"""What is seen on stderr while runs go on: a bar per run, with rounds, metric and bits so far."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.progress import TimeRemainingColumn as Remaining

from fedsim.ground.compiling import compiling_told
from fedsim.ground.errors import StoppedEarly
from fedsim.ground.units import bits
from fedsim.runs.callbacks import Callback, Row
from fedsim.settings.config import RunConfig
from fedsim.settings.controllers import parse

Told = Callable[[str, dict[str, Any]], None]
"""Called with a run's name and the row of every round that it has finished."""


class Named(Callback):
    """Tells a function of many runs a run's rows; what it returns is why the run is to end."""

    def __init__(self, name: str, tell: Callable[[str, dict[str, Any]], str | None]) -> None:
        self.name, self.tell = name, tell

    def round(self, row: Row) -> None:
        if why := self.tell(self.name, dict(row)):
            raise StoppedEarly(why)


def short_rounds(configs: Iterable[RunConfig]) -> str:
    """Words for runs whose last round has fewer local iterations; empty where there is none.

    A controller of the iterations, and a number of bits, end a run where they will.

    Example:
        >>> short_rounds([RunConfig(method="raw", temporal=7, iterations=20)])
        'the last round has 6 of 7 iterations: --iterations 21 makes it whole'
    """
    plans = [
        config.plan for config in configs
        if config.stop_at_bits is None
        and (config.controller is None or "n" not in parse(config.controller).moves)
    ]  # fmt: skip
    pairs = {(plan.temporal, plan.iterations % plan.temporal) for plan in plans}
    if not any(left for _, left in pairs):
        return ""
    said = ", ".join(f"{left} of {temporal}" for temporal, left in sorted(pairs) if left)
    every, most = math.lcm(*(n for n, _ in pairs)), max(plan.iterations for plan in plans)
    whole = -(-most // every) * every
    return f"the last round has {said} iterations: --iterations {whole} makes it whole"


@contextmanager
def shown(
    progress: Told | bool | None, rounds: dict[str, int], metric: str
) -> Iterator[Told | None]:
    """What a function's ``progress`` stands for: itself, nothing, or what can be seen here.

    Args:
        progress: a function; or True, which is bars on stderr where stderr is a terminal and a
            line per run in a notebook; or False or None.
        rounds: run name -> its number of rounds.
        metric: what the metric is called.

    Example:
        >>> with shown(False, {"n1": 2}, "accuracy") as told:
        ...     print(told)
        None
    """
    if callable(progress):
        yield progress
        return
    console = Console(stderr=True)
    if progress and console.is_jupyter:
        with Lines(rounds, metric) as lines:
            yield lines
    elif progress and console.is_terminal:
        with Bars(rounds, metric) as bars:
            yield bars
    else:
        yield None


class Lines:
    """Progress in a notebook: an output that is written anew, with a line per run that goes on.

    Args:
        rounds: run name -> its number of rounds.
        metric: what the metric is called.
    """

    _SECONDS = 0.2

    def __init__(self, rounds: dict[str, int], metric: str) -> None:
        from IPython.display import display

        self.rounds, self.metric = rounds, metric
        self._lines: dict[str, str] = {}
        self._score: dict[str, str] = {}
        self._done, self._last, self._drawn = 0, "", 0.0
        self._output = display({"text/plain": "starting"}, raw=True, display_id=True)

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()

    def __call__(self, name: str, row: dict[str, Any]) -> None:
        """Books the row of a round that ``name`` has finished."""
        if not math.isnan(row["metric"]):
            self._score[name] = f"{self.metric} {row['metric']:.4g}"
        score, done = self._score.get(name, f"{self.metric} –"), row["round"]
        line = f"{name}: {done}/{self.rounds[name]} rounds · {score} · {bits(row['up_bits'])} up"
        self._lines[name] = line
        if row.get("last", done == self.rounds[name]):
            self._done, self._last = self._done + 1, self._lines.pop(name)
        if time.monotonic() - self._drawn > self._SECONDS:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        alone = len(self.rounds) == 1
        head = self._last if alone else f"{self._done} of {len(self.rounds)} runs done"
        text = "\n".join(line for line in (head, *self._lines.values()) if line)
        self._output.update({"text/plain": text or "nothing to do"}, raw=True)


class Bars:
    """A context in which ``bars(name, row)`` moves a run's bar on; it tells of kernels compiled.

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
            TextColumn("{task.fields[line]}"), Remaining(),
            console=self.console, disable=not self.console.is_terminal,
        )  # fmt: skip
        self._inside = ExitStack()
        self._starting: TaskID | None = None
        self._tasks: dict[str, TaskID] = {}
        self._score: dict[str, str] = {}

    def __enter__(self) -> "Bars":
        self._inside.enter_context(compiling_told(self.console.print))
        self._bars.start()  # data, models and Ray's workers take their time before a first round
        self._starting = self._bars.add_task("starting", total=None, line="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._starting is not None:  # there was nothing to do
            self._bars.remove_task(self._starting)
        self._bars.stop()
        self._inside.close()

    def say(self, sentence: str) -> None:
        """Shows a sentence on a line above the bars; nothing where it is empty."""
        if sentence:
            self.console.print(sentence, soft_wrap=True, highlight=False, markup=False)

    def __call__(self, name: str, row: dict[str, Any]) -> None:
        """Books the row of a round that ``name`` has finished."""
        if self._starting is not None:
            self._bars.remove_task(self._starting)
            self._starting = None
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=self.rounds[name], line="")
        if not math.isnan(row["metric"]):
            self._score[name] = f"{self.metric} {row['metric']:.4g}"
        score, done = self._score.get(name, f"{self.metric} –"), row["round"]
        line = f"{done}/{self.rounds[name]} rounds · {score} · {bits(row['up_bits'])} up"
        self._bars.update(self._tasks[name], completed=done, line=line)
        if row.get("last", done == self.rounds[name]) and not self.console.is_terminal:
            self.console.print(f"{name}: {self._score.get(name)}, {bits(row['up_bits'])} up")
