"""The trials: drawn from the study, run as cells here or on Ray, reported to the study."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from fedsim.ground import units
from fedsim.ground.errors import RESUMES, RunFailed, UsageError, writing
from fedsim.runs import checkpoint
from fedsim.runs.parallel import Ended, ProgressCallback, RunSpec, run_here
from fedsim.runs.processes import run_beside
from fedsim.search import curves, stopping
from fedsim.search.goal import SATURATED, Curve, Goal
from fedsim.search.methods import point_text
from fedsim.search.space import Params, Space
from fedsim.search.study import CELL, Study

Say = Callable[[str], None]

_TOO_LONG = 1.5  # times the budget: a message is only about as long as the one that was tried
TOO_LONG, REPEATED, OVER = "one message exceeds the budget", "runs already", "the time is over"
NONE_WITHIN = "no evaluation within the budget"
NO_SUMMARY = f"its folder has no summary.json; {RESUMES}"


clock = time.monotonic
"""Seconds, by which ``--time`` is counted."""


@dataclass
class Limits:
    """When to begin no further trial, and when to end everything.

    Attributes:
        trials: how many there are to be in all; None: as many as the time allows.
        seconds: for the study in all, finalists included; None: no limit.
        reserve: the seconds that the finalists will take, by the trials so far.
        reserved: what ``reserve`` said last.
        before: seconds that earlier processes spent.
        started: when this process had prepared everything, by its clock.
    """

    trials: int | None = None
    seconds: float | None = None
    reserve: Callable[[], float] = lambda: 0.0
    reserved: float = 0.0
    before: float = 0.0
    started: float = field(default_factory=lambda: clock())

    def begin(self, before: float) -> None:
        """The time begins, behind the seconds ``before``."""
        self.before, self.started = before, clock()

    def spent(self) -> float:
        """Seconds so far, those of earlier processes too."""
        return self.before + clock() - self.started

    def left(self) -> float:
        """Seconds until all is to end; infinite without a limit."""
        return inf if self.seconds is None else self.seconds - self.spent()

    def trials_over(self) -> bool:
        """Whether the time for trials is over: what is left is for the finalists."""
        return self.left() <= self.reserved


class Exploration:
    """The trials of one process."""

    def __init__(self, study: Study, out: Path, limits: Limits, say: Say) -> None:
        self.study, self.space, self.goal = study, study.space, study.space.goal
        self.cells, self.limits, self.say = out / "cells", limits, say
        self.stoppers = {name: stopping.Stopper(self.goal) for name in self.space.methods}
        self._running: dict[str, tuple[int, Params, float]] = {}
        self._again: list[tuple[int, Params]] = []
        self._failed: set[int] = set()
        self._iteration: dict[str, int] = {}
        self._best, self._saturated = inf, False
        self._left = 0  # trials that the time's end interrupted

    def run(self, jobs: int, ray_address: str | None) -> None:
        """Runs trials until a limit is reached.

        Raises ``RunFailed`` where the files of a trial fail twice: what the sampler proposes
        depends on every trial, so none is left out. The study has it as one that was interrupted.
        The same is raised where somebody removes the folder.
        """
        self.limits.begin(self.study.seconds)
        for trial in self.study.trials:
            if trial.values is not None and trial.state.name == "COMPLETE":
                curve = self._curve(self.cells / trial.user_attrs[CELL])
                self._learn(trial.params["method"], curve)
        run_all(self.space, self._work(), jobs, ray_address, self._progress, self._ended)
        while self._again:  # one may fail when no further trial is asked for
            run_all(self.space, self._work(), jobs, ray_address, self._progress, self._ended)

    def _curve(self, folder: Path) -> Curve:
        return curves.read_curve(folder, self.goal.budget_of)

    def _learn(self, method: str, curve: Curve) -> None:
        self.stoppers[method].learn(curve)
        point, value = self.goal.point(curve), self.goal.value(curve)
        self._best = self._best if value is None else min(self._best, value)
        self._saturated |= point is not None and self.goal.saturated(point[1])

    def _work(self) -> Iterator[RunSpec]:
        for number, params in self._next_trials():
            try:
                cell = self.space.cell(params)
            except UsageError as error:  # its settings do not go together, such as n and a buffer
                self._tell(number, params, "", Curve((), ()), str(error))
                continue
            folder = self.cells / cell.name
            summary = curves.ended(folder)
            if self.goal.budget and self.space.bits(params) > _TOO_LONG * self.goal.budget:
                self._tell(number, params, cell.name, Curve((), ()), TOO_LONG)
            elif cell.name in self._running:
                self._tell(number, params, cell.name, Curve((), ()), REPEATED)
            elif summary is not None and summary["status"] != "failed" and summary["error"] != OVER:
                reason = summary["error"] if summary["status"] == "stopped" else ""
                seconds = float(summary.get("seconds") or 0.0)
                self._tell(number, params, cell.name, self._curve(folder), reason, seconds)
            else:
                self._running[cell.name] = number, params, clock()
                saved = checkpoint.load_checkpoint(folder, warn=False) if folder.is_dir() else None
                self.stoppers[params["method"]].begin(cell.name, saved.rounds if saved else ())
                yield cell.name, cell.config, folder

    def _next_trials(self) -> Iterator[tuple[int, Params]]:
        """The trials that a kill or the time's end interrupted, then new ones in the limits."""
        self.limits.reserved = self.limits.reserve()
        if not self.limits.trials_over():  # else the same command would train a round of each
            yield from list(self.study.left_running())
        while self._again or not self.limits.trials_over():
            if self._again:
                yield self._again.pop()
                continue
            begun = len(self.study.trials) + len(self._running) + self._left
            if self.limits.trials is not None and begun >= self.limits.trials:
                return
            self._still_there()
            yield self.study.ask()

    def _progress(self, name: str, row: dict[str, Any]) -> str | None:
        self._iteration[name] = row["iteration"]
        if self.limits.trials_over() and not row["last"]:
            return OVER
        return self.stoppers[self._running[name][1]["method"]].verdict(name, row)

    def _still_there(self) -> None:
        """Raises ``RunFailed`` where somebody removed the folder: no trial could be told."""
        with writing(self.cells.parent):
            self.study.file.stat()

    def _ended(self, name: str) -> None:
        self._still_there()
        (number, params, began), folder = self._running.pop(name), self.cells / name
        summary, seconds = curves.ended(folder), clock() - began
        reason = NO_SUMMARY  # its folder is gone, or was never written
        if summary is not None:
            reason = "" if summary["status"] == "done" else str(summary["error"])
        if reason.endswith(RESUMES):  # it failed by its files, and not by its point
            if number in self._failed:
                raise RunFailed(f"trial {number}: {reason}")
            self._failed.add(number)
            self._again.append((number, params))
            self.say(f"trial {number}: {reason}; it is tried once more")
            return
        if reason == OVER:  # it goes on where more time is given
            self._left += 1
            self.study.seconds = self.limits.spent()
            point = point_text(self.space.used(params))
            self.say(f"trial {number}: {point}: {OVER}; more --time goes on")
            return
        if reason not in ("", stopping.REACHED):  # a finalist runs to its end, or to the target
            seconds *= self.space.base.plan.iterations / self._iteration.get(name, inf)
        self._tell(number, params, name, self._curve(folder), reason, seconds)

    def _tell(
        self,
        number: int,
        params: Params,
        name: str,
        curve: Curve,
        reason: str,
        seconds: float = 0.0,
    ) -> None:
        if not reason and self.goal.budget is not None and self.goal.point(curve) is None:
            reason = NONE_WITHIN  # its first messages were longer than the one that was tried
        good = reason in ("", stopping.REACHED) or (self.goal.front and reason == stopping.BEHIND)
        self.study.tell(number, name, curve, reason, good, seconds)
        value = self.goal.value(curve) if good else None
        better, before = value is not None and value < self._best, self._saturated
        if good:
            self._learn(params["method"], curve)
        self.study.seconds = self.limits.spent()
        self.limits.reserved = self.limits.reserve()
        best = " · best so far" if better else ""
        point = point_text(self.space.used(params))
        self.say(f"trial {number}: {point}: {outcome(curve, self.goal, reason)}{best}")
        if self._saturated and not before:
            self.say(SATURATED.format(name=self.goal.name))


def run_all(
    space: Space,
    work: Iterable[RunSpec],
    jobs: int,
    ray_address: str | None,
    progress: ProgressCallback,
    ended: Ended,
) -> None:
    """Runs of a search: one after another in this process, or ``jobs`` at a time."""
    if jobs == 1 and ray_address is None:
        run_here(work, progress, ended)
    else:
        on_gpu = space.base.machine.device != "cpu"
        run_beside(work, jobs, ray_address, progress, ended, on_gpu=on_gpu)


def outcome(curve: Curve, goal: Goal, reason: str) -> str:
    """The outcome of a trial, in words."""
    score = "no evaluation"
    if point := goal.shown(curve):
        score = f"{goal.name} {units.score(point[1], goal.name)} at {units.bits(point[0])}"
    return score + (f" ({reason})" if reason else "")
