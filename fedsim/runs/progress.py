"""Progress of runs on stderr: a bar for all runs, and one for each run that is under way."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.progress import TimeRemainingColumn as Remaining

from fedsim.ground.compiling import compiling_told
from fedsim.ground.errors import StoppedEarly
from fedsim.ground.terminal import wrap_words
from fedsim.ground.units import bits, duration
from fedsim.runs.callbacks import Callback, RoundRow
from fedsim.settings.config import RunConfig
from fedsim.settings.controllers import parse_controller

_SILENT_SECONDS = 60.0
"""So long a log without a terminal hears nothing."""

Reporter = Callable[[str, dict[str, Any]], None]
"""Called with a run's name and the row of every round that it has finished."""


class Named(Callback):
    """Tells a function of many runs a run's rows; what it returns is why the run is to end."""

    def __init__(self, name: str, tell: Callable[[str, dict[str, Any]], str | None]) -> None:
        self.name, self.tell = name, tell

    def round(self, row: RoundRow) -> None:
        if reason := self.tell(self.name, dict(row)):
            raise StoppedEarly(reason)


def short_rounds(configs: Iterable[RunConfig]) -> str:
    """Words for runs whose last round has fewer local iterations; empty where there is none.

    A controller of the iterations, and a number of bits or joules, end a run where they will.
    """
    plans = [
        config.plan
        for config in configs
        if config.stop_at_bits is None
        and config.stop_at_joules is None
        and (config.controller is None or "n" not in parse_controller(config.controller).moves)
    ]
    pairs = {(plan.temporal, plan.iterations % plan.temporal) for plan in plans}
    if not any(left for _, left in pairs):
        return ""
    shortfalls = ", ".join(f"{left} of {temporal}" for temporal, left in sorted(pairs) if left)
    step, longest = math.lcm(*(n for n, _ in pairs)), max(plan.iterations for plan in plans)
    multiple = -(-longest // step) * step
    return f"the last round has {shortfalls} iterations: --iterations {multiple} makes it whole"


@contextmanager
def reporter_of(
    progress: Reporter | bool | None, rounds: dict[str, int], metric: str
) -> Iterator[Reporter | None]:
    """What a function's ``progress`` stands for: itself, nothing, or what can be seen here.

    True is bars on stderr where stderr is a terminal, and a line per run in a notebook.
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


class Tally:
    """How far several runs are, each and together.

    ``rounds``: run name -> its number of rounds; ``scores``: the last scores by run, in words.

    Example:
        >>> tally = Tally({"n1": 4, "n2": 4}, "accuracy")
        >>> tally.book("n1", {"round": 4, "metric": 0.5, "up_bits": 812})
        ('4/4 rounds · accuracy 0.5 · 812 bit up', True)
        >>> tally.runs, tally.done
        ('1 of 2 runs', 4)
    """

    def __init__(self, rounds: dict[str, int], metric: str) -> None:
        self.rounds, self.metric, self.started = rounds, metric, 0.0
        self.scores: dict[str, str] = {}
        self._at: dict[str, int] = {}
        self._first: dict[str, int] = {}  # rounds that were done before: a run that goes on
        self._compiled = 0  # rounds of the first message: kernels may be compiled in them
        self._over: set[str] = set()

    def book(self, name: str, row: dict[str, Any]) -> tuple[str, bool]:
        """Books the row of a round; returns a line on the run, and whether it is over."""
        number, rounds = row["round"], self.rounds[name]
        if not math.isnan(row["metric"]):
            self.scores[name] = f"{self.metric} {row['metric']:.4g}"
        over = bool(row.get("last", number == rounds))
        self._first.setdefault(name, number - 1)
        self._at[name] = rounds if over else number
        self._over |= {name} if over else set()
        if not self.started:
            self.started, self._compiled = time.monotonic(), self._done_here
        score = self.scores.get(name, f"{self.metric} –")
        return f"{number}/{rounds} rounds · {score} · {bits(row['up_bits'])} up", over

    @property
    def runs(self) -> str:
        """Words for how many runs are over."""
        return f"{len(self._over)} of {len(self.rounds)} runs"

    @property
    def done(self) -> int:
        """Rounds that are done; of a run that has stopped early all count."""
        return sum(self._at.values())

    @property
    def _done_here(self) -> int:
        """Rounds that were done since the first call of ``book``, with that."""
        return self.done - sum(self._first.values())

    @property
    def left(self) -> str:
        """Words for the time that is left, where the rest goes as fast as what was done here.

        Rounds of the first message do not count, since kernels may have been compiled in them.
        """
        rounds_done = self._done_here - self._compiled
        remaining = sum(self.rounds.values()) - self.done
        if not (rounds_done and remaining):
            return ""
        return f"about {duration((time.monotonic() - self.started) / rounds_done * remaining)} left"


class Lines:
    """Progress in a notebook: an output that is written anew, with a line per run that goes on."""

    _SECONDS = 0.2

    def __init__(self, rounds: dict[str, int], metric: str) -> None:
        from IPython.display import display

        self._lines: dict[str, str] = {}
        self._tally, self._last, self._drawn = Tally(rounds, metric), "", 0.0
        self._output = display({"text/plain": "starting"}, raw=True, display_id=True)

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()

    def __call__(self, name: str, row: dict[str, Any]) -> None:
        """Books the row of a round that ``name`` has finished."""
        line, over = self._tally.book(name, row)
        self._lines[name] = f"{name}: {line}"
        if over:
            self._last = self._lines.pop(name)
        if time.monotonic() - self._drawn > self._SECONDS:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        tally = self._tally
        counts = ", ".join(filter(None, (f"{tally.runs} done", tally.left)))
        head = self._last if len(tally.rounds) == 1 else counts
        text = "\n".join(line for line in (head, *self._lines.values()) if line)
        self._output.update({"text/plain": text or "nothing to do"}, raw=True)


class Bars:
    """A context in which ``bars(name, row)`` advances a run's bar; it also reports compilations.

    Each run under way has a bar, and several runs have another one for all. A finished run is a
    line above the bars. Outside of a terminal there are only these lines, and one a minute while
    no run ends. ``notes``: sentences that are shown when a sweep's runs begin.
    """

    def __init__(
        self, rounds: dict[str, int], metric: str, quiet: bool = False, notes: Iterable[str] = ()
    ) -> None:
        self._notes = notes
        self.console = Console(stderr=True, quiet=quiet)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[line]}"),
            Remaining(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._inside = ExitStack()
        self._starting: TaskID | None = None
        self._tasks: dict[str, TaskID] = {}
        self._overall: TaskID | None = None
        self._tally, self._printed_at = Tally(rounds, metric), time.monotonic()

    def expect(self, rounds: dict[str, int]) -> None:
        """These runs are to come; those that are done in a folder are not."""
        self._tally = Tally(rounds, self._tally.metric)
        for sentence in self._notes:
            self.say(sentence)

    def __enter__(self) -> "Bars":
        self._inside.enter_context(compiling_told(self.console.print))
        self._bars.start()  # data, models and Ray's workers take their time before a first round
        self._starting = self._bars.add_task("starting", total=None, line="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._starting is not None:  # there was nothing to do
            self._bars.remove_task(self._starting)
        self._bars.stop()
        self._inside.close()

    @property
    def trained(self) -> frozenset[str]:
        """The runs of which a round was booked; others were finished before, or failed."""
        return frozenset(self._tasks)

    def say(self, sentence: str) -> None:
        """Shows a sentence on a line above the bars; nothing where it is empty."""
        if sentence:
            words = wrap_words(sentence, self.console.file)
            self.console.print(words, soft_wrap=True, highlight=False, markup=False)

    def __call__(self, name: str, row: dict[str, Any]) -> None:
        """Books the row of a round that ``name`` has finished."""
        tally = self._tally
        several, total = len(tally.rounds) > 1, sum(tally.rounds.values())
        if self._starting is not None:
            self._bars.remove_task(self._starting)
            self._starting = None
            if several:
                self._overall = self._bars.add_task("all", total=total, line="")
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=tally.rounds[name], line="")
        line, over = tally.book(name, row)
        self._bars.update(self._tasks[name], completed=row["round"], line=line)
        if self._overall is not None:
            self._bars.update(self._overall, completed=tally.done, line=tally.runs)
        if over and (several or not self.console.is_terminal):
            done, rounds = row["round"], tally.rounds[name]
            early = f", {done} of {rounds} rounds" if done < rounds else ""
            self._line(f"{name}: {tally.scores.get(name)}, {bits(row['up_bits'])} up{early}")
            self._bars.remove_task(self._tasks[name])
        elif not self.console.is_terminal and time.monotonic() - self._printed_at > _SILENT_SECONDS:
            facts = (tally.runs if several else name, f"{tally.done} of {total} rounds", tally.left)
            self._line(", ".join(filter(None, facts)))

    def _line(self, text: str) -> None:
        self._printed_at = time.monotonic()
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)
