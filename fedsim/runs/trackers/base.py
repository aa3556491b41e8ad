"""The base of trackers: the package that they need, their names of runs, and their records."""

import json
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import isfinite, isnan
from pathlib import Path
from typing import Any, ClassVar

from fedsim.federation import ledger
from fedsim.ground.errors import UsageError, reason, writing
from fedsim.ground.files import write_json
from fedsim.ground.records import CLIENT_SCORES, SCORE
from fedsim.results.schema import NESTED, TRAINED
from fedsim.runs.callbacks import Callback, RoundRow

TRACKED_FILE = "tracked.json"
"""In a run's folder: its names in trackers, by which a run that goes on is found again."""


class Tracker(Callback):
    """Follows a run in a tracker. A subclass names its package, and writes.

    A run goes on in a tracker by what is kept in its ``folder``. Raises ``UsageError`` where the
    package is missing.
    """

    package: ClassVar[str]
    _waits = False  # whether the last round's row had no score

    def __init__(self, folder: Path | str) -> None:
        self.check()
        self.folder = Path(folder)

    def round(self, row: RoundRow) -> None:
        """Writes the row of a round."""
        self._waits = not scored(row)
        self.write(row)

    def evaluation(self, row: RoundRow) -> None:
        """Writes the scores of a row that was written without."""
        if self._waits:
            self.write_scores(row)

    @abstractmethod
    def write(self, row: RoundRow) -> None:
        """Writes the row of a round, with its scores if it has some."""

    @abstractmethod
    def write_scores(self, row: RoundRow) -> None:
        """Adds the scores of the row that was written last."""

    @classmethod
    def check(cls) -> None:
        """Raises ``UsageError`` where the package is missing."""
        spec = find_spec(cls.package)
        if spec is None or spec.origin is None:  # a folder of that name is not a package
            raise UsageError(
                f"--track is {cls.package!r}: it needs a package that is not installed: "
                f"pip install 'fedsim-lab[{cls.package}]'"
            )

    @property
    def in_tracker(self) -> bool:
        """Whether the tracker has the run already, or its beginning."""
        return self.package in run_names(self.folder)


class Service(Tracker):
    """A tracker that has a run by an id, under which the run goes on; steps are rounds.

    ``reports_off``: a variable, and its value, that turns the package's usage reports off in this
    process, unless the environment has it.
    """

    reports_off: ClassVar[tuple[str, str]]

    @abstractmethod
    def open(self, names: dict[str, Any], settings: dict[str, Any]) -> tuple[float, float]:
        """Begins the run, or goes on; the first rounds whose row, and whose scores, it lacks.

        ``names``: those of ``run_names``; ``settings``: of ``tracked_settings``.
        """

    @abstractmethod
    def log(self, values: dict[str, float], step: int, complete: bool) -> None:
        """Adds numbers of a round; ``complete``: whether its scores are among them."""

    def begin(self, description: Mapping[str, Any], rows: Sequence[RoundRow]) -> None:
        os.environ.setdefault(*self.reports_off)
        self._up = self._total = 0.0  # bits of a client of every round, so far
        names = run_names(self.folder)
        self._row_from, self._scores_from = self.open(names, tracked_settings(description))
        for row in rows:
            self.round(row)

    def write(self, row: RoundRow) -> None:
        self._up += ledger.bits_of_each(row, "up")
        self._total += ledger.bits_of_each(row, "total")
        if row["round"] >= self._row_from:
            sums = {"up_bits": self._up, "both_bits": self._total}
            self.log(finite_numbers(row) | sums, int(row["round"]), scored(row))

    def write_scores(self, row: RoundRow) -> None:
        if row["round"] >= self._scores_from:
            names = ("metric", "loss", *CLIENT_SCORES)
            numbers = finite_numbers(row).items()
            scores = {k: x for k, x in numbers if k in names or k.startswith(SCORE)}
            self.log(scores, int(row["round"]), complete=True)


def scored(row: RoundRow) -> bool:
    """Whether a round's row has scores."""
    return not isnan(row["metric"])


def finite_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers among values."""
    plain = {k: float(v) for k, v in values.items() if type(v) in (int, float)}
    return {name: value for name, value in plain.items() if isfinite(value)}


def tracked_settings(description: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run, defaults filled in, and what is known of it before its first round."""
    plain = {name: value for name, value in description.items() if name not in NESTED}
    return description.get(TRAINED, {}) | plain


def run_names(folder: Path) -> dict[str, Any]:
    """The run's ``name`` and ``group``, and its name in each tracker that has it.

    They are written down when they are first asked for. A cell's group is its sweep's folder.
    """
    file = folder / TRACKED_FILE
    if file.exists():
        try:
            return dict(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise UsageError(f"{file} cannot be read ({reason(error)}); remove it") from error
    place = folder.resolve()
    cell = place.parent.name == "cells"
    group = os.path.relpath(place.parents[1]) if cell else None
    write_names(folder, names := {"name": place.name, "group": group})
    return names


def write_names(folder: Path, names: Mapping[str, Any]) -> None:
    """Writes the names down."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / TRACKED_FILE, names)
