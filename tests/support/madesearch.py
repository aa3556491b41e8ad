"""Searches in which nothing is trained: made-up trials, finalists and curves, studies in memory."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from fedsim import RunConfig
from fedsim.search import study
from fedsim.search.exploration import Exploration
from fedsim.search.finals import Finalist, SeedScores
from fedsim.search.goal import Curve, Goal
from fedsim.search.study import CELL, EQUALS, TOOK, Study

POINT = {"method": "sbc", "coder": "own", "temporal": 4, "gradient": 0.1, "lr": 0.02}
"""A point as it is run."""

SEED = 7
"""Of the trials of every made-up study."""


def trial(
    number: int,
    *values: float,
    cell: str = "",
    state: TrialState = TrialState.COMPLETE,
    equals: tuple[float, float] = (0.0, 0.0),
    took: float = 0.0,
) -> FrozenTrial:
    """A trial that has ended, at n = number + 1, of the cell ``c`` and its number unless told.

    ``equals``: the task's loss and bits, which decide between equal values; ``took``: seconds.
    """
    told = {CELL: cell or f"c{number}", EQUALS: equals, TOOK: took}
    made = optuna.create_trial(state=state, values=list(values) or None, user_attrs=told)
    made.number, made.params = number, POINT | {"temporal": number + 1}
    return made


def study_of(goal: Goal, trials: Sequence[FrozenTrial]) -> Any:
    """What ``finals.select_finalists`` looks at of a study."""
    front = set()
    if goal.front:
        optuna_study = optuna.create_study(directions=["minimize"] * 2)
        plain = [optuna.create_trial(state=t.state, values=t.values) for t in trials]
        optuna_study.add_trials(plain)
        front = {t.number for t in optuna_study.best_trials}
    return SimpleNamespace(trials=list(trials), front=front, space=SimpleNamespace(goal=goal))


def lot(losses: Sequence[float], bits: float = 100.0) -> SeedScores:
    """A lot of seeds of these losses, each a metric of the other sign after so many bits."""
    return SeedScores(tuple((bits, -loss) for loss in losses), tuple(losses))


def finalist(
    number: int, losses: Sequence[float], bits: float = 100.0, held: Sequence[float] = (-0.5,)
) -> Finalist:
    """A finalist of these validation losses and held-out losses."""
    return Finalist(number, POINT, lot(losses, bits), lot(held, bits), False, RunConfig())


class Cells:
    """A space in which every point is a run, whose folder says method, n and seed."""

    methods, downlinks = ("sbc", "stc"), ()
    limits = {"temporal": (1, 8), "gradient": (0.1, 1.0), "lr": (0.01, 0.1)}
    base = SimpleNamespace(
        seed=SEED,
        machine=SimpleNamespace(device="cpu"),
        plan=SimpleNamespace(
            iterations=8,
            task=SimpleNamespace(written="digits"),
            strategy="dsgd",
            sampler="uniform",
            partition="iid",
        ),
    )

    def __init__(self, goal: Goal, bits: int = 10) -> None:
        self.goal, self._bits = goal, bits

    def draw(self, number: int, method: str, seed: int) -> dict[str, Any]:
        return POINT | {"method": method, "temporal": number + 1}

    def place(self, config: RunConfig) -> dict[str, Any] | None:
        """A run with n = 4 has a place in the space."""
        return POINT if config.temporal == 4 else None

    def used(self, params: dict[str, Any]) -> dict[str, Any]:
        return dict(params)

    def bits(self, params: dict[str, Any]) -> int:
        return self._bits

    def cell(self, params: dict[str, Any], seed: int | None = None, validation: bool = True) -> Any:
        seed = SEED if seed is None else seed
        name = f"{params['method']}-n{params['temporal']}-s{seed}"
        return SimpleNamespace(name=name, config=(name, "validation" if validation else "held-out"))


def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies of one file share a memory, and write nothing: SQLite takes half a second."""
    stores = defaultdict[Path, Any](optuna.storages.InMemoryStorage)
    monkeypatch.setattr(study, "_storage", stores.__getitem__)
    monkeypatch.setattr(Exploration, "_still_there", lambda self: None)  # there is no file


def made_study(goal: Goal, bits: int = 10, file: str = "study.db") -> Study:
    """A study over ``Cells``."""
    cells: Any = Cells(goal, bits)
    return Study(cells, Path(file), "made up")


def curve(*points: tuple[float, float]) -> Curve:
    """A curve from pairs of bits and metric."""
    return Curve(tuple(bits for bits, _ in points), tuple(metric for _, metric in points))
