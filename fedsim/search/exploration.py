"""The trials: drawn from the study, run as cells here or on Ray, reported to the study."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from compressors import parse, text
from compressors.grammar import message_text
from fedsim.ground import units
from fedsim.ground.errors import RESUMES, RunFailed, UsageError, writing
from fedsim.results.folders import run_folders
from fedsim.runs import checkpoint
from fedsim.runs.parallel import RunSpec, run_here
from fedsim.runs.processes import run_beside
from fedsim.search import curves, stopping
from fedsim.search.goal import SATURATED, Curve, Goal
from fedsim.search.methods import CODERS, OWN_CODER, compressor, max_fraction, sent_down, short
from fedsim.search.space import Params, Space
from fedsim.search.standings import Standings
from fedsim.search.study import Study
from fedsim.settings.config import SETTINGS, RunConfig
from fedsim.settings.config import from_toml as read_run
from fedsim.settings.foreign import check_tasks
from fedsim.settings.methods import resolve, takes_fraction, with_fraction
from fedsim.settings.strategies import flags_of, with_settings

Say = Callable[[str], None]

_TOO_LONG = 1.5  # times the budget: a message is only about as long as the one that was tried
_SEARCHED = {"method", "gradient", "temporal", "lr", "strategy", "evaluate_every", "label",
             "stop_at_bits", "momentum_masking"}  # fmt: skip
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
    """The trials of one process.

    Args:
        study: suggests the trials and receives their results.
        out: the folder whose ``cells`` are the trials.
        limits: when to end.
        say: takes a line of progress.
        standings: receive the trials' results, too; None: no table is shown.
    """

    def __init__(
        self, study: Study, out: Path, limits: Limits, say: Say, standings: Standings | None = None
    ) -> None:
        self.standings = standings or Standings(study.space.goal, limits.left)
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
        if self.study.new:  # runs that the folder holds already become trials
            taken, folders = 0, run_folders(self.cells.parent) if self.cells.is_dir() else []
            check_tasks(self.cells.parent, [self.space.base])
            for folder in folders:
                summary = curves.ended(folder)
                if summary is None or summary["status"] != "done":
                    continue
                config = read_run(folder / "config.toml", trust_code=True)
                params, stop = _place(config, self.space), config.plan.stop_at_bits
                covers_budget = self.goal.budget is None or stop is None or stop >= self.goal.budget
                if params is not None and covers_budget:
                    curve, seconds = self._curve(folder), float(summary["seconds"])
                    taken += self.study.adopt(params, folder.name, curve, seconds)
            if folders:
                adopted = f"{taken} of {len(folders)} runs in {self.cells}"
                self.say(f"{adopted} are trials of this search")
        self.limits.begin(self.study.seconds)
        for trial in self.study.trials:
            if trial.values is not None and trial.state.name == "COMPLETE":
                curve = self._curve(self.cells / trial.user_attrs["cell"])
                self._learn(trial.params["method"], curve)
                point = point_text(self.space.used(trial.params))
                self.standings.end(trial.user_attrs["cell"], point, curve)
        while True:
            if jobs == 1 and ray_address is None:
                run_here(self._work(), self._progress, self._ended)
            else:
                on_gpu = self.space.base.machine.device != "cpu"
                run_beside(
                    self._work(), jobs, ray_address, self._progress, self._ended, on_gpu=on_gpu
                )
            if not self._again:  # one may fail when no further trial is asked for
                return

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
                self.standings.begin(cell.name, point_text(self.space.used(params)))
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
        self.standings.round(name, row)
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
            self.standings.end(
                name, point_text(self.space.used(params)), self._curve(folder), reason, False
            )
            self.say(
                f"trial {number}: {point_text(self.space.used(params))}: {OVER}; "
                "more --time goes on"
            )
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
        if name and reason != REPEATED:
            self.standings.end(name, point, curve, reason, good)
        self.say(f"trial {number}: {point}: {outcome(curve, self.goal, reason)}{best}")
        if self._saturated and not before:
            self.say(SATURATED.format(name=self.goal.name))


def point_text(params: Params) -> str:
    """A point as it is run, in words: `sbc, n = 10, p = 0.01, lr = 0.02`."""
    p, coder = params["gradient"], params["coder"]
    parts = [short(params["method"]), f"n = {params['temporal']}"]
    parts += [f"p = {units.plain(p)}"] if p is not None else []
    parts += [f"coders {coder}"] if coder != OWN_CODER else []
    rates = {"lr": "lr", "server_lr": "server lr"}
    parts += [f"{rates[k]} = {units.plain(params[k])}" for k in rates if k in params]
    parts += [f"downlink {down}"] if (down := sent_down(params)) else []
    return ", ".join(parts)


def outcome(curve: Curve, goal: Goal, reason: str) -> str:
    """The outcome of a trial, in words."""
    point = goal.point(curve) or ((curve.bits[-1], curve.metric[-1]) if curve.bits else None)
    score = (
        "no evaluation"
        if point is None
        else (f"{goal.name} {units.score(point[1], goal.name)} at {units.bits(point[0])}")
    )
    return score + (f" ({reason})" if reason else "")


def _place(config: RunConfig, space: Space) -> Params | None:
    """The point at which a run lies; None where it has other settings than this search."""
    base_settings, run_settings = space.base.chosen(), config.chosen()
    masked = run_settings.get("momentum_masking")
    keys = {*SETTINGS} - _SEARCHED - ({"downlink"} if space.downlinks else set())
    if any(base_settings.get(key) != run_settings.get(key) for key in keys):
        return None
    rates = {"lr": config.training.lr or space.sizes.rate}
    ours, rule = space.base.strategy, config.strategy
    if "server_lr" in space.limits and "server_lr" in (
        run_settings := flags_of(config.plan.algorithm)
    ):
        rates["server_lr"] = run_settings["server_lr"]
        ours = with_settings(ours, {"server_lr": run_settings["server_lr"]}, anew=True)
    if rule != ours:
        return None
    below = _down(config, space) if space.downlinks else {}
    if below is None:
        return None
    p, method_text = config.plan.method.gradient, config.plan.method.text
    for method in space.methods:
        fraction = p if takes_fraction(method) else None
        if fraction is not None and fraction > max_fraction(method):
            continue
        for coder in CODERS:
            pipeline = compressor(method, fraction, coder, rates["lr"])
            identity = (
                method_text == message_text(pipeline)
                and space.base.but(method=text(pipeline)).identity()
            )
            if identity and identity.get("momentum_masking") == masked:
                return {
                    "method": method,
                    "coder": coder,
                    "temporal": config.temporal,
                    "gradient": p,
                    **rates,
                    **below,
                }
    return None


def _down(config: RunConfig, space: Space) -> Params | None:
    """The downlink of a run as part of a point; None where the search does not try it."""
    downlink = config.downlink or "raw"
    p = 1.0 if downlink == "relay" else resolve(downlink, None).gradient
    for down in space.downlinks:
        if takes_fraction(down) and p > max_fraction(down):
            continue
        candidate = with_fraction(down, p) if takes_fraction(down) else down
        message = "relay" not in (candidate, downlink) and message_text(config.plan.downlink)
        if candidate == downlink or message and message_text(parse(candidate)) == message:
            return {"downlink": down, "down_gradient": p}
    return None
