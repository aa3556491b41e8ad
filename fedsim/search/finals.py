"""The finalists: the best trials again on fresh seeds, ranked by mean; then on held-out samples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, log10
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState

from fedsim.runs.parallel import Work, run_here, run_on_ray
from fedsim.search import curves
from fedsim.search.exploring import Say
from fedsim.search.goal import NOT_REACHED, Curve, Goal
from fedsim.search.intervals import Mean, mean, tied
from fedsim.search.space import Params, Space
from fedsim.search.study import CELL, Study
from fedsim.settings.config import RunConfig

FINALISTS, ON_FRONT = 4, 6


@dataclass(frozen=True)
class Lot:
    """A setting's runs on fresh seeds.

    Attributes:
        points: bits and metric by which each seed is judged; None where there is none.
        losses: of each seed, as ``Goal.loss``; infinity where there is none.
    """

    points: tuple[tuple[float, float] | None, ...]
    losses: tuple[float, ...]

    def metric(self) -> Mean:
        """The mean metric of the seeds that have a point."""
        return mean([point[1] for point in self.points if point])

    def bits(self) -> float:
        """The mean bits of the seeds that have a point."""
        return mean([point[0] for point in self.points if point]).value

    def log_bits(self) -> Mean:
        """The mean logarithm (base 10) of the bits; infinite where a seed has no point."""
        return mean([log10(point[0]) if point else inf for point in self.points])


@dataclass(frozen=True)
class Finalist:
    """One setting that ran on fresh seeds.

    Attributes:
        trial: the number of its trial.
        params: as it was run.
        point: bits and metric of its trial.
        validated, held: its runs scored on the validation part, and on the held-out part.
        tie: whether its validation scores cannot be told from those of the first.
        config: the run of its first fresh seed on the held-out part.
    """

    trial: int
    params: Params
    point: tuple[float, float] | None
    validated: Lot
    held: Lot
    tie: bool
    config: RunConfig


def chosen(study: Study) -> list[FrozenTrial]:
    """The trials that go to the finals: the best, or those on the front; each setting once."""
    trials = [t for t in study.trials if t.state == TrialState.COMPLETE and t.values]
    if study.space.goal.front:
        kept = [t for t in trials if not any(_beats(o, t) for o in trials)]
        ranked = sorted(kept, key=lambda t: t.values[0])
    else:
        ranked = sorted(trials, key=lambda t: (t.values[0], t.number))
        there = [t for t in ranked if t.values[0] < NOT_REACHED]
        ranked = there or ranked
    first: dict[str, FrozenTrial] = {}
    for trial in ranked:
        first.setdefault(trial.user_attrs[CELL], trial)
    once = list(first.values())
    if not study.space.goal.front:
        return once[:FINALISTS]
    most = min(ON_FRONT, len(once))
    places = {round(k * (len(once) - 1) / max(1, most - 1)) for k in range(most)}  # evenly
    return [once[place] for place in sorted(places)]


def _beats(one: FrozenTrial, other: FrozenTrial) -> bool:
    """Whether one point is no worse in bits and loss, and better in either."""
    pairs = list(zip(one.values, other.values, strict=True))
    return all(a <= b for a, b in pairs) and one.values != other.values


def play(
    study: Study, out: Path, seeds: int, jobs: int, ray_address: str | None, say: Say
) -> list[Finalist]:
    """Runs the finalists on fresh seeds and ranks them by their validation scores.

    The same seeds then train on all training samples and are scored on the held-out part: that is
    what a user of a setting gets, and decides nothing.

    Args:
        study: whose trials are the candidates.
        out: the search's folder; runs go to ``finals`` and ``held-out`` there.
        seeds: how many, after the seed of the trials.
        jobs: runs at the same time.
        ray_address: a Ray cluster, or None.
        say: takes a line of progress.
    """
    space, trials = study.space, chosen(study)
    fresh = range(space.base.seed + 1, space.base.seed + 1 + seeds)
    work = [w for t in trials for w in _runs(space, t, fresh, out)]
    waiting = [w for w in work if not _done(w[2])]
    say(f"finals: {len(trials)} settings, {seeds} fresh seeds each, "
        f"{len(waiting)} of {len(work)} runs to do")  # fmt: skip

    ends = 0

    def told(name: str) -> None:
        nonlocal ends
        ends += 1
        say(f"finals: {ends} of {len(waiting)} runs done ({name})")

    if waiting and jobs == 1 and ray_address is None:
        run_here(waiting, None, told)
    elif waiting:
        run_on_ray(waiting, jobs, ray_address, None, told)
    return _ranked([_finalist(space, t, fresh, out) for t in trials], space.goal)


def _runs(space: Space, trial: FrozenTrial, seeds: Sequence[int], out: Path) -> Iterator[Work]:
    for validation, part in ((True, "finals"), (False, "held-out")):
        for seed in seeds:
            cell = space.cell(trial.params, seed, validation)
            yield cell.name, cell.config, out / part / "cells" / cell.name


def _done(folder: Path) -> bool:
    summary = curves.ended(folder)
    return summary is not None and summary["status"] == "done"


def _finalist(space: Space, trial: FrozenTrial, seeds: Sequence[int], out: Path) -> Finalist:
    found = [
        curves.read_curve(folder) if _done(folder) else Curve((), ())
        for _, _, folder in _runs(space, trial, seeds, out)
    ]
    own = curves.read_curve(out / "cells" / trial.user_attrs[CELL])
    config = space.cell(trial.params, seeds[0], validation=False).config
    return Finalist(
        trial.number, space.used(trial.params), space.goal.point(own),
        _lot(space.goal, found[: len(seeds)]), _lot(space.goal, found[len(seeds) :]), False, config,
    )  # fmt: skip


def _lot(goal: Goal, found: Sequence[Curve]) -> Lot:
    points = tuple(goal.point(curve) for curve in found)
    losses = [goal.loss(curve) for curve in found]
    known = zip(points, losses, strict=True)
    return Lot(points, tuple(inf if not point or loss is None else loss for point, loss in known))


def _ranked(finalists: list[Finalist], goal: Goal) -> list[Finalist]:
    """By mean loss; on the front by bits, what has none last. Ties are those with the first."""
    if goal.front:
        return sorted(finalists, key=lambda f: (isnan(bits := f.validated.bits()), bits))
    ranked = sorted(finalists, key=lambda f: (mean(f.validated.losses).value, f.trial))
    return [
        replace(f, tie=bool(place) and tied(ranked[0].validated.losses, f.validated.losses))
        for place, f in enumerate(ranked)
    ]


def winner(finalists: Sequence[Finalist], goal: Goal) -> Finalist | None:
    """The first by rank; of a front, the fewest bits among those tied with the best metric.

    None: there is no finalist.
    """
    if not finalists or not goal.front:
        return finalists[0] if finalists else None
    best = min(finalists, key=lambda f: mean(f.validated.losses).value)
    losses = best.validated.losses
    return next(f for f in finalists if f is best or tied(losses, f.validated.losses))
