"""The study: Optuna's sampler over the space, and its memory on disk: a kill loses nothing."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from compressors import derive
from fedsim.ground.errors import UsageError, writing
from fedsim.ground.strangers import check_file
from fedsim.search.goal import Curve
from fedsim.search.methods import CODERS
from fedsim.search.quiet import quiet
from fedsim.search.space import Params, Space

CELL, WHY, FIRST, SECONDS = "cell", "why", "first", "seconds"
"""Attributes: a trial's folder, why it ended early, whose first trial it is; seconds spent."""

EQUALS, TOOK = "equals", "took"
"""Attributes: what decides between trials of equal value (the less the better); its seconds."""


@contextmanager
def journal(folder: Path) -> Iterator[None]:
    """Names the folder where the disk refuses the study's file in it: full, or read-only.

    Raises ``RunFailed`` in the place of SQLite's error, as ``fedsim.ground.errors.writing``.
    """
    try:
        yield
    except (StorageInternalError, DBAPIError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        refused = getattr(cause, "orig", None)
        if not isinstance(refused, sqlite3.OperationalError):
            raise
        with writing(folder):
            raise OSError(str(refused)) from error


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Names a study's file where it is none that fedsim wrote; what a disk refuses passes.

    Raises ``UsageError``.
    """
    try:
        if os.path.lexists(file):
            check_file(file)
        yield
    except (StorageInternalError, DBAPIError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        if isinstance(getattr(cause, "orig", None), sqlite3.OperationalError):
            raise
        raise UsageError(f"{file} cannot be read: {_first_line(error)}") from error
    except (SQLAlchemyError, ValueError, KeyError, TypeError, AttributeError, RuntimeError,
            RecursionError, ImportError) as error:  # fmt: skip
        raise UsageError(f"{file} cannot be read: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


class Study:
    """Trials, told and to come. The same trials told give the same next trial, in any process.

    The first trials are one per method, with the task's rate; then Optuna's TPE proposes, over all
    settings at once.

    Args:
        space: what is searched.
        file: the SQLite file; several studies may lie in one.
        name: of the study.
    """

    def __init__(self, space: Space, file: Path, name: str) -> None:
        self.space, self.seed, self.file = space, space.base.seed, file
        many = space.goal.front
        with quiet(), readable(file):
            self._study = optuna.create_study(
                storage=_storage(file), study_name=name,
                directions=["minimize"] * (2 if many else 1), load_if_exists=True,
            )  # fmt: skip
            self._study.get_trials(deepcopy=False)  # all of them can be read
        self._asked: dict[int, Trial] = {}

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The space as Optuna has it."""
        distributions: dict[str, BaseDistribution] = {
            "method": CategoricalDistribution(self.space.methods),
            "coder": CategoricalDistribution(CODERS),
        }
        if self.space.downlinks:
            distributions["downlink"] = CategoricalDistribution(self.space.downlinks)
        for name, (low, high) in self.space.limits.items():
            whole = name == "temporal"
            distributions[name] = (
                IntDistribution(int(low), int(high), log=True) if whole
                else FloatDistribution(low, high, log=True)
            )  # fmt: skip
        return distributions

    @property
    def trials(self) -> list[FrozenTrial]:
        """Every trial that has ended, in order."""
        return [t for t in self._study.get_trials(deepcopy=False) if t.state.is_finished()]

    @property
    def seconds(self) -> float:
        """How long the study has been worked on, by all processes that did."""
        return float(self._study.user_attrs.get(SECONDS, 0.0))

    @seconds.setter
    def seconds(self, value: float) -> None:
        self._study.set_user_attr(SECONDS, value)

    @property
    def new(self) -> bool:
        """Whether no trial has been asked for yet."""
        return not self._study.user_attrs.get("begun", False)

    def begin(self) -> None:
        """Plans the first trial of every method; what a kill left unplanned, too."""
        planned = {t.user_attrs.get(FIRST) for t in self._study.get_trials(deepcopy=False)}
        for number, method in enumerate(self.space.methods):
            if method not in planned:
                point = self.space.draw(number, method, self.seed)
                self._study.enqueue_trial(point, user_attrs={FIRST: method})
        self._study.set_user_attr("begun", True)

    def adopt(self, params: Params, cell: str, curve: Curve, took: float) -> bool:
        """Takes a run of ``took`` seconds that was there before as a trial; whether it was taken.

        A trial of that run is not taken twice, nor is a point outside of the space.
        """
        known = {t.user_attrs.get(CELL) for t in self._study.get_trials(deepcopy=False)}
        limits = self.space.limits
        in_space = all(low <= params[name] <= high for name, (low, high) in limits.items())
        values = self._values(curve)
        if cell in known or not in_space or values is None:
            return False
        self._study.add_trial(optuna.create_trial(
            values=values, params=params, distributions=self.distributions,
            user_attrs={CELL: cell, WHY: "there before", TOOK: took, EQUALS: self._equals(curve)},
        ))  # fmt: skip
        return True

    def left_running(self) -> Iterator[tuple[int, Params]]:
        """The trials that a kill has interrupted, to be done again."""
        for trial in self._study.get_trials(states=(TrialState.RUNNING,)):
            if trial.number not in self._asked:
                yield self._given(trial.number, trial._trial_id)

    def ask(self) -> tuple[int, Params]:
        """The number and the point of the next trial."""
        number = len(self._study.get_trials(deepcopy=False))
        return self._given(number, None)

    def _given(self, number: int, trial_id: int | None) -> tuple[int, Params]:
        with quiet():
            self._study.sampler = optuna.samplers.TPESampler(
                multivariate=True, n_startup_trials=1, seed=derive(self.seed, number) % 2**32
            )
            if trial_id is None:
                trial = self._study.ask(self.distributions)
            else:
                trial = Trial(self._study, trial_id)
                # the values that an interrupted trial had, and those that it lacked
                trial.suggest_categorical("method", self.space.methods)
                trial.suggest_categorical("coder", CODERS)
                if self.space.downlinks:
                    trial.suggest_categorical("downlink", self.space.downlinks)
                for name, (low, high) in self.space.limits.items():
                    if name == "temporal":
                        trial.suggest_int(name, int(low), int(high), log=True)
                    else:
                        trial.suggest_float(name, low, high, log=True)
        self._asked[trial.number] = trial
        return trial.number, dict(trial.params)

    def tell(
        self, number: int, cell: str, curve: Curve, why: str = "", good: bool = True,
        took: float = 0.0,
    ) -> None:  # fmt: skip
        """A trial has ended.

        Args:
            number: of the trial.
            cell: its folder.
            curve: its evaluations.
            why: why it ended early; empty: by itself.
            good: whether its point counts; else it ended for being behind, or has none.
            took: the seconds that it ran.
        """
        trial = self._asked.pop(number)
        trial.set_user_attr(CELL, cell)
        trial.set_user_attr(WHY, why)
        trial.set_user_attr(TOOK, took)
        trial.set_user_attr(EQUALS, self._equals(curve))
        values = self._values(curve)
        if good and values is not None:
            self._study.tell(number, values)
            return
        if not self.space.goal.front:
            for step, loss in self.space.goal.at_steps(curve).items():
                trial.report(loss, step)
        self._study.tell(number, state=TrialState.PRUNED)

    def _values(self, curve: Curve) -> list[float] | None:
        """What a curve is worth: a value; for the front, bits and a value."""
        value = self.space.goal.value(curve)
        if value is None:
            return None
        return [curve.bits[-1], value] if self.space.goal.front else [value]

    def _equals(self, curve: Curve) -> list[float]:
        """The task's loss, then the bits, of curves of equal value."""
        point = self.space.goal.point(curve)
        return [self.space.goal.task_loss(curve), point[0] if point else inf]


def _storage(file: Path) -> optuna.storages.RDBStorage:
    """Optuna's storage in ``file``, which is in no URL: ``?``, ``%`` and braces mean more there."""
    connect = partial(sqlite3.connect, file, check_same_thread=False)
    how = {"creator": connect, "poolclass": QueuePool}
    return optuna.storages.RDBStorage("sqlite://", engine_kwargs=how)
