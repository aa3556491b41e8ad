"""The finalists: the best trials again on fresh seeds, ranked by mean; then on held-out samples."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf, isnan, log10
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from fedsim.results.intervals import Mean, mean, tied
from fedsim.results.values import REACHED
from fedsim.runs.parallel import RunSpec
from fedsim.search import curves
from fedsim.search.exploration import OVER, Limits, Say, run_all
from fedsim.search.goal import NOT_REACHED, Curve, Goal
from fedsim.search.space import Params, Space
from fedsim.search.study import CELL, EQUALS, TOOK, Study
from fedsim.settings.config import RunConfig

FINALISTS, ON_FRONT = 4, 6
_MAX_PART = 0.5  # of the time, that finals may take
_PACE = 1.1  # times a trial's seconds that its finals take, until some have been measured


@dataclass(frozen=True)
class SeedScores:
    """A setting's runs on fresh seeds.

    Attributes:
        points: bits and metric by which each seed is judged; None where there is none.
        losses: of each seed, as ``Goal.loss``; infinity where there is none.
        task_losses: of each seed, as ``Goal.task_loss``.
        misses: of the seeds that have an evaluation and no point, as ``Goal.loss``.
    """

    points: tuple[tuple[float, float] | None, ...]
    losses: tuple[float, ...]
    task_losses: tuple[float, ...] = ()
    misses: tuple[float, ...] = ()

    def place(self) -> tuple[int, float, float]:
        """By which lots are sorted: the seeds without a point, the others' mean loss, the misses'.

        Example:
            >>> SeedScores((None, (9.0, 0.5)), (inf, -0.5)).place()
            (1, -0.5, inf)
        """
        finite = [loss for loss in self.losses if loss < inf]
        missing = len(self.losses) - len(finite)
        return missing, _last(mean(finite).value), _last(mean(self.misses).value)

    def metric(self) -> Mean:
        """The mean metric of the seeds that have a point."""
        return mean([point[1] for point in self.points if point])

    def bits(self) -> float:
        """The mean bits of the seeds that have a point."""
        return mean([point[0] for point in self.points if point]).value

    def log_bits(self) -> Mean:
        """The mean logarithm (base 10) of the bits; infinite where a seed has no point."""
        return mean([log10(max(point[0], 1.0)) if point else inf for point in self.points])


@dataclass(frozen=True)
class Finalist:
    """One setting that ran on fresh seeds.

    Attributes:
        trial: the number of its trial.
        params: as it was run.
        validated, held: its runs scored on the validation part, and on the held-out part.
        tie: whether its validation scores cannot be told from those of the first.
        config: the run of its first fresh seed on the held-out part.
    """

    trial: int
    params: Params
    validated: SeedScores
    held: SeedScores
    tie: bool
    config: RunConfig


def by_value(study: Study) -> list[FrozenTrial]:
    """The trials that count, the best first; of a front, by the metric.

    Of equal ones that of the least task's loss goes first, then that of the fewest bits.
    """
    trials = [t for t in study.trials if t.state == TrialState.COMPLETE and t.values]
    return sorted(trials, key=lambda t: (t.values[-1], *t.user_attrs[EQUALS], t.number))


def select_finalists(study: Study, limit: int = ON_FRONT) -> list[FrozenTrial]:
    """The trials that go to the finals: the best, or those on the front; each setting once."""
    trials = by_value(study)
    if study.space.goal.front:
        front = study.front
        ranked = sorted((t for t in trials if t.number in front), key=lambda t: t.values[0])
    else:
        ranked = [t for t in trials if t.values[0] < NOT_REACHED] or trials
    first: dict[str, FrozenTrial] = {}
    for trial in ranked:
        first.setdefault(trial.user_attrs[CELL], trial)
    once = list(first.values())
    if not study.space.goal.front:
        return once[: min(limit, FINALISTS)]
    limit = min(limit, len(once))
    if limit == 1:  # the best metric
        return once[-1:]
    places = {round(k * (len(once) - 1) / (limit - 1)) for k in range(limit)}  # evenly
    return [once[place] for place in sorted(places)]


@dataclass(frozen=True)
class Finals:
    """The finals of a search: the best trials on fresh seeds, which follow that of the trials.

    There are as many finalists and seeds as the time allows; runs that are not done when it is over
    end. If the runs take less time than the trials did, others follow. With a target, a run ends
    where it reaches it.

    Args:
        study: whose trials are the candidates.
        out: the search's folder; runs go to ``finals`` and ``held-out`` there.
        seeds: how many at most.
        jobs: runs at the same time.
        ray_address: a Ray cluster, or None.
        limits: the time, which no run exceeds by more than a round.
        say: takes a line of progress.
    """

    study: Study
    out: Path
    seeds: int
    jobs: int
    ray_address: str | None
    limits: Limits
    say: Say

    def fit(
        self, left: float = inf, pace: float = _PACE, ran: Container[str] = ()
    ) -> tuple[list[FrozenTrial], range, float]:
        """The finalists, their seeds, and the seconds of their runs, which fit into ``left``.

        There is one of each at least. Where the time is short there are fewer finalists, down to
        two; then fewer seeds; then one finalist. A run takes ``pace`` times what the trial took.
        One that is done takes nothing, nor does one whose name ``ran`` holds: it failed.
        """
        first, space = self.study.space.base.seed + 1, self.study.space
        fewer = [(limit, self.seeds) for limit in range(ON_FRONT, 1, -1)]
        fewer += [(2, count) for count in range(self.seeds - 1, 0, -1)]
        for limit, count in [*fewer, (1, 1)]:
            trials, fresh = select_finalists(self.study, limit), range(first, first + count)
            seconds = sum(
                t.user_attrs[TOOK]
                for t in trials
                for name, _, folder in _runs(space, t, fresh, self.out)
                if name not in ran and not _done(folder)
            )
            needed = pace * seconds / self.jobs
            if needed <= left:
                break
        return trials, fresh, needed

    def reserve(self) -> float:
        """The seconds that the finals will take: as many as are within their part of the time."""
        if self.limits.seconds is None:
            return 0.0
        part = _MAX_PART * self.limits.seconds
        return min(part, self.fit(part)[2])

    def run(self) -> tuple[list[Finalist], str]:
        """Runs the finalists, and ranks them by their validation scores; how many, in words.

        The same seeds then train on all training samples and are scored on the held-out part. These
        scores are what a user of the setting would get; they decide nothing.
        """
        study, limits, ran, pace = self.study, self.limits, set[str](), _PACE
        trials, seeds, _ = self.fit(limits.left())
        while True:
            runs = [(w, t) for t in trials for w in _runs(study.space, t, seeds, self.out)]
            waiting = [(w, t) for w, t in runs if not _done(w[2]) and w[0] not in ran]
            words = f"{_of(len(trials), len(select_finalists(study)), 'setting')}, "
            words += f"{_of(len(seeds), self.seeds, 'fresh seed')} each"
            few = ": the time is enough for no more" if " of " in words else ""
            self.say(f"finals: {words}{few}; {len(waiting)} of {len(runs)} runs to do")
            before = limits.spent()
            self._run([w for w, _ in waiting])
            ran |= {w[0] for w, _ in waiting}
            trial_seconds = sum(t.user_attrs[TOOK] for _, t in waiting) / self.jobs
            pace = (limits.spent() - before) / trial_seconds if trial_seconds else pace
            more_trials, more_seeds, needed = self.fit(limits.left(), pace, ran)
            if not waiting or not 0 < needed < limits.left():
                break
            trials, seeds = more_trials, more_seeds
        finalists = [_finalist(study.space, t, seeds, self.out) for t in trials]
        return _ranked(finalists, study.space.goal), words

    def _run(self, waiting: Sequence[RunSpec]) -> None:
        """Runs what waits until the time is over."""
        study, limits, ends = self.study, self.limits, 0

        def progress(name: str, row: dict[str, Any]) -> str | None:
            if row["last"]:
                return None
            if study.space.goal.reached(row["metric"]):
                return REACHED
            return OVER if limits.left() <= 0 else None

        def ended(name: str) -> None:
            nonlocal ends
            ends += 1
            study.seconds = limits.spent()
            self.say(f"finals: {ends} of {len(waiting)} runs have ended ({name})")

        if waiting:
            in_time = takewhile(lambda _: limits.left() > 0, waiting)
            run_all(study.space, in_time, self.jobs, self.ray_address, progress, ended)
        missing = sum(not _done(folder) for *_, folder in waiting)
        if missing and limits.left() <= 0:
            self.say(
                f"finals: the time is over, {missing} of {len(waiting)} runs are not done; the "
                "same command with more --time does them"
            )
        elif missing:
            missed = f"{missing} of {len(waiting)} runs failed"
            self.say(f"finals: {missed}; the same command runs them again")


def _of(count: int, total: int, what: str) -> str:
    """`2 of 4 settings`; `4 settings` where that is all."""
    many = what if total == 1 else f"{what}s"
    return f"{count} {many}" if count == total else f"{count} of {total} {many}"


def _runs(space: Space, trial: FrozenTrial, seeds: Sequence[int], out: Path) -> Iterator[RunSpec]:
    for seed in seeds:
        for validation, part in ((True, "finals"), (False, "held-out")):
            cell = space.cell(trial.params, seed, validation)
            yield cell.name, cell.config, out / part / "cells" / cell.name


def _done(folder: Path) -> bool:
    """Whether a run has ended by itself, or at the target."""
    summary = curves.ended(folder)
    return summary is not None and (summary["status"] == "done" or summary["error"] == REACHED)


def _finalist(space: Space, trial: FrozenTrial, seeds: Sequence[int], out: Path) -> Finalist:
    budget_of = space.goal.budget_of
    runs = [
        curves.read_curve(folder, budget_of) if _done(folder) else Curve((), ())
        for _, _, folder in _runs(space, trial, seeds, out)
    ]
    config = space.cell(trial.params, seeds[0], validation=False).config
    return Finalist(
        trial.number,
        space.used(trial.params),
        _seed_scores(space.goal, runs[::2]),
        _seed_scores(space.goal, runs[1::2]),
        False,
        config,
    )


def _seed_scores(goal: Goal, runs: Sequence[Curve]) -> SeedScores:
    points = tuple(goal.point(curve) for curve in runs)
    pairs = [*zip(points, map(goal.loss, runs), strict=True)]
    losses = tuple(inf if not point or loss is None else loss for point, loss in pairs)
    misses = tuple(loss for point, loss in pairs if not point and loss is not None)
    return SeedScores(points, losses, tuple(goal.task_loss(curve) for curve in runs), misses)


def _ranked(finalists: list[Finalist], goal: Goal) -> list[Finalist]:
    """By ``SeedScores.place``; on the front by bits, what has none last. Ties are those with the
    first.

    Of equal means the least mean of the task's loss goes first, then the fewest bits; where the
    metric cannot rise any more, the fewest bits do.
    """
    if goal.front:
        return sorted(finalists, key=lambda f: _last(f.validated.bits()))

    def place(final: Finalist) -> tuple[float, ...]:
        scores = final.validated
        learned = 0.0 if goal.saturated(scores.metric().value) else mean(scores.task_losses).value
        return *scores.place(), _last(learned), _last(scores.bits()), final.trial

    ranked = sorted(finalists, key=place)
    return [
        replace(f, tie=bool(place) and tied(ranked[0].validated.losses, f.validated.losses))
        for place, f in enumerate(ranked)
    ]


def _last(value: float) -> float:
    """A value to sort by: what is not known is the greatest."""
    return inf if isnan(value) else value


def winner(finalists: Sequence[Finalist], goal: Goal) -> Finalist | None:
    """The first by rank; of a front, the fewest bits among those tied with the best metric.

    One seed ties everything, so that the best metric itself is the winner there. None: there is no
    finalist.
    """
    if not finalists or not goal.front:
        return finalists[0] if finalists else None
    best = min(finalists, key=lambda f: f.validated.place())
    losses = best.validated.losses
    if len(losses) < 2:
        return best
    return next(f for f in finalists if f is best or tied(losses, f.validated.losses))
