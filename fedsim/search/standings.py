"""The standings of a search: its candidates in order, as a table that is drawn again and again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedsim.ground import units
from fedsim.search.goal import Curve, Goal

MAX_CANDIDATES = 10
"""Candidates that the table shows."""

RUNNING = "running"


@dataclass(frozen=True)
class Candidate:
    """A setting that a search tries.

    Attributes:
        point: the setting in words.
        stage: running, done, why it ended early, or how far its finals are.
        counts: whether it may come to the finals.
        curve: its evaluations on the validation part.
    """

    point: str
    stage: str = RUNNING
    counts: bool = True
    curve: Curve = Curve((), ())


class Standings:
    """The candidates of a search as it goes.

    Args:
        goal: what is searched for.
        left: the seconds that are left; infinite without a limit.
    """

    def __init__(self, goal: Goal, left: Callable[[], float]) -> None:
        self.goal, self.left = goal, left
        self._all: dict[str, Candidate] = {}

    def begin(self, cell: str, point: str) -> None:
        """Notes that a trial begins.

        Args:
            cell: its folder's name.
            point: its setting in words.
        """
        self._all[cell] = Candidate(point)

    def round(self, cell: str, row: Mapping[str, Any]) -> None:
        """A round of it is done; ``row``: as ``Row`` of ``fedsim.runs.callbacks``."""
        if not isnan(row["metric"]) and (candidate := self._all.get(cell)):
            bits, loss = (*candidate.curve.bits, row["spent"]), float(row.get("loss", inf))
            curve = Curve(
                bits, (*candidate.curve.metric, row["metric"]), (*candidate.curve.losses, loss)
            )
            self._all[cell] = replace(candidate, curve=curve)

    def end(
        self, cell: str, point: str, curve: Curve, reason: str = "", counts: bool = True
    ) -> None:
        """Notes that a trial has ended; arguments as of ``begin`` and ``Study.tell``."""
        self._all[cell] = Candidate(point, reason or "done", counts, curve)

    def final(self, cell: str, done: int, of: int) -> None:
        """So many of a finalist's runs are done."""
        self._all[cell] = replace(self._all[cell], stage=f"finals: {done} of {of} runs")

    def ranked(self) -> list[Candidate]:
        """The candidates, the best first; those that ended early come last."""

        def place(candidate: Candidate) -> tuple[bool, float]:
            value = self.goal.value(candidate.curve)
            return not candidate.counts, inf if value is None else value

        return sorted([*self._all.values()], key=place)

    def shown(self) -> Group:
        """How far the search is, in a line; and its first candidates, in a table."""
        candidates, goal = self.ranked(), self.goal
        running = sum(candidate.stage == RUNNING for candidate in candidates)
        words = [f"{goal.words()}: {len(candidates)} tried, {running} running"]
        words += [f"{units.duration(max(0.0, left))} left"] if isfinite(left := self.left()) else []
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("", "setting", "stage"):
            table.add_column(heading, overflow="fold")
        for heading in (goal.name, "loss", "bits"):
            table.add_column(heading, justify="right", no_wrap=True)
        for rank, candidate in enumerate(candidates[:MAX_CANDIDATES], start=1):
            curve, texts = candidate.curve, ["", "", ""]
            if curve.bits:
                bits, metric = goal.point(curve) or (curve.bits[-1], curve.metric[-1])
                loss = goal.task_loss(curve)
                texts = [
                    units.score(metric, goal.name),
                    units.digits(loss) if isfinite(loss) else "",
                    units.bits(bits),
                ]
            table.add_row(str(rank), *map(Text, (candidate.point, candidate.stage, *texts)))
        return Group(Text(" · ".join(words)), table)
