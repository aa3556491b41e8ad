"""The study: Optuna's sampler over the space, and its memory on disk: a kill loses nothing."""

import os
import sqlite3
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
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
from fedsim.search.space import Params, Space

CELL, WHY, SECONDS = "cell", "why", "seconds"
"""Attributes: a trial's folder, why it ended early; seconds spent."""

EQUALS, TOOK = "equals", "took"
"""Attributes: what decides between trials of equal value (the less the better); its seconds."""


_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)
"""What Optuna raises at a file whose content is another."""


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, Optuna does not say that an option is young, nor that a study was made."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(level)


@contextmanager
def journal(folder: Path) -> Iterator[None]:
    """Names the folder where the disk refuses the study's file in it: full, or read-only.

    Raises ``RunFailed`` in the place of SQLite's error, as ``fedsim.ground.errors.writing``.
    """
    try:
        yield
    except (StorageInternalError, DBAPIError) as error:
        if (refused := _refused(error)) is None:
            raise
        with writing(folder):
            raise OSError(str(refused)) from error


@contextmanager
def storage_errors(file: Path) -> Iterator[None]:
    """Names a study's file where it is none that fedsim wrote; what a disk refuses passes.

    Raises ``UsageError``.
    """
    try:
        if os.path.lexists(file):
            check_file(file)
        yield
    except (StorageInternalError, SQLAlchemyError, *_MALFORMED) as error:
        if _refused(error) is not None:
            raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UsageError(f"{file} cannot be read: {reason}") from error


def _refused(error: Exception) -> sqlite3.OperationalError | None:
    """What the disk refused; None: the error is another."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    refused = cause.orig if isinstance(cause, DBAPIError) else None
    return refused if isinstance(refused, sqlite3.OperationalError) else None


class Study:
    """Trials, told and to come. The same trials told give the same next trial, in any process.

    Methods are strata: the next trial is of the method with the fewest trials, the first of these
    in order; how trials ended does not matter. A method's first trial has the task's rate. Then
    Optuna's TPE proposes its other settings, by the method's trials alone.
    """

    def __init__(self, space: Space, file: Path, name: str) -> None:
        self.space, self.seed, self.file = space, space.base.seed, file
        many = space.goal.front
        with quiet(), storage_errors(file):
            self._study = optuna.create_study(
                storage=_storage(file),
                study_name=name,
                directions=["minimize"] * (2 if many else 1),
                load_if_exists=True,
            )
            self._study.get_trials(deepcopy=False)  # all of them can be read
        self._open_trials: dict[int, Trial] = {}

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The space as Optuna has it."""
        choices = {"method": self.space.methods, "coder": CODERS, "downlink": self.space.downlinks}
        limits = self.space.limits.items()
        numbers: dict[str, BaseDistribution] = {
            k: FloatDistribution(*v, log=True) for k, v in limits
        }
        low, high = map(int, self.space.limits["temporal"])
        numbers["temporal"] = IntDistribution(low, high, log=True)
        return {k: CategoricalDistribution(v) for k, v in choices.items() if v} | numbers

    @property
    def trials(self) -> list[FrozenTrial]:
        """Every trial that has ended, in order."""
        return [t for t in self._study.get_trials(deepcopy=False) if t.state.is_finished()]

    @property
    def front(self) -> set[int]:
        """The numbers of the trials that no other beats in one objective and equals in the rest."""
        return {t.number for t in self._study.best_trials}

    @property
    def seconds(self) -> float:
        """How long the study has been worked on, by all processes that did."""
        return float(self._study.user_attrs.get(SECONDS, 0.0))

    @seconds.setter
    def seconds(self, value: float) -> None:
        self._study.set_user_attr(SECONDS, value)

    def left_running(self) -> Iterator[tuple[int, Params]]:
        """The trials that a kill has interrupted, to be done again."""
        for frozen in self._study.get_trials(states=(TrialState.RUNNING,)):
            if frozen.number not in self._open_trials:
                trial = self._open_trials[frozen.number] = Trial(self._study, frozen._trial_id)
                with quiet():  # the values that it had, and those that it lacked
                    for name, space in self.distributions.items():
                        if isinstance(space, CategoricalDistribution):
                            trial.suggest_categorical(name, space.choices)
                        elif isinstance(space, IntDistribution):
                            trial.suggest_int(name, space.low, space.high, log=True)
                        elif isinstance(space, FloatDistribution):
                            trial.suggest_float(name, space.low, space.high, log=True)
                yield trial.number, dict(trial.params)

    def ask(self) -> tuple[int, Params]:
        """The number and the point of the next trial."""
        trials = self._study.get_trials(deepcopy=False)
        with quiet():
            if not any(t.state == TrialState.WAITING for t in trials):  # one that a kill left
                self._study.enqueue_trial(self._proposed(trials))
            trial = self._study.ask(self.distributions)
        self._open_trials[trial.number] = trial
        return trial.number, dict(trial.params)

    def _proposed(self, trials: Sequence[FrozenTrial]) -> Params:
        """The point of the next trial, of the method whose turn it is."""
        counts = Counter(t.params.get("method") for t in trials)
        method = min(self.space.methods, key=lambda name: counts[name])
        ended = [t for t in trials if t.params.get("method") == method and t.state.is_finished()]
        if not ended:
            return self.space.draw(len(trials), method, self.seed)
        spaces = {k: space for k, space in self.distributions.items() if k != "method"}
        stratum = optuna.create_study(
            directions=self._study.directions,
            sampler=optuna.samplers.TPESampler(
                multivariate=True, n_startup_trials=1, seed=derive(self.seed, len(trials)) % 2**32
            ),
        )
        stratum.add_trials(
            [
                optuna.create_trial(
                    state=t.state,
                    values=t.values,
                    params={k: t.params[k] for k in spaces},
                    distributions=spaces,
                    intermediate_values=t.intermediate_values,
                )
                for t in ended
            ]
        )
        return {"method": method, **stratum.ask(spaces).params}

    def tell(
        self,
        number: int,
        cell: str,
        curve: Curve,
        reason: str = "",
        good: bool = True,
        seconds: float = 0.0,
    ) -> None:
        """A trial has ended.

        Args:
            number: of the trial.
            cell: its folder.
            curve: its evaluations.
            reason: why it ended early; empty: by itself.
            good: whether its point counts; else it ended for being behind, or has none.
            seconds: the seconds that it ran.
        """
        trial = self._open_trials.pop(number)
        trial.set_user_attr(CELL, cell)
        trial.set_user_attr(WHY, reason)
        trial.set_user_attr(TOOK, seconds)
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
        """The objectives of a curve: a value; for the front, bits and a value."""
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
