"""The base of trackers: the package that they need, their names of runs, and their records."""

import json
import os
from abc import abstractmethod
from collections.abc import Hashable, Mapping
from importlib.util import find_spec
from math import isfinite, isnan
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar
from uuid import uuid4

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

    Args:
        folder: of the run, or another that is its own: a run goes on in a tracker by what is
            kept there.

    Raises ``UsageError`` where the package is missing.
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


class Reports:
    """A variable that turns a package's usage reports off while runs are followed.

    It is set with the first of them and removed with the last, unless the environment has it. A run
    that Ctrl-C breaks off does not end in its tracker, and keeps it set.

    Args:
        name: of the variable.
        off: its value.

    Example:
        >>> reports = Reports("FEDSIM_EXAMPLE", "true")
        >>> reports.turn_off("a run")
        >>> os.environ["FEDSIM_EXAMPLE"]
        'true'
        >>> reports.restore("a run")
        >>> "FEDSIM_EXAMPLE" in os.environ
        False
    """

    def __init__(self, name: str, off: str) -> None:
        self._name, self._off, self._lock = name, off, Lock()
        self._runs = set[Hashable]()

    def turn_off(self, run: Hashable) -> None:
        """When a run begins."""
        with self._lock:
            if self._runs or self._name not in os.environ:
                self._runs.add(run)
                os.environ[self._name] = self._off

    def restore(self, run: Hashable) -> None:
        """When a run ends; one that has not begun changes nothing."""
        with self._lock:
            if run in self._runs:
                self._runs.remove(run)
                if not self._runs:
                    os.environ.pop(self._name, None)


class Sums:
    """The bits of a client of every round, up to each row that it is given."""

    def __init__(self) -> None:
        self.up = self.total = 0.0

    def columns(self, row: RoundRow) -> dict[str, float]:
        """The numbers of a round by column, and the bits so far as ``up_bits`` and ``both_bits``.

        A number that is not finite is left out: a round without an evaluation has no metric.
        """
        self.up += ledger.bits_of_each(row, "up")
        self.total += ledger.bits_of_each(row, "total")
        return finite_numbers(row) | {"up_bits": self.up, "both_bits": self.total}


def scored(row: RoundRow) -> bool:
    """Whether a round's row has scores.

    Example:
        >>> scored({"metric": 0.5}), scored({"metric": float("nan")})
        (True, False)
    """
    return not isnan(row["metric"])


def scores_of(row: RoundRow) -> dict[str, float]:
    """The scores in a round's row, as ``finite_numbers``.

    Example:
        >>> scores_of({"round": 2, "metric": 0.5, "loss": 0.7, "score_top5": 0.9})
        {'metric': 0.5, 'loss': 0.7, 'score_top5': 0.9}
    """
    names = ("metric", "loss", *CLIENT_SCORES)
    return {k: v for k, v in finite_numbers(row).items() if k in names or k.startswith(SCORE)}


def finite_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers among values.

    Example:
        >>> finite_numbers({"round": 1, "metric": float("nan"), "last": True, "digest_up": "ab"})
        {'round': 1.0}
    """
    plain = {k: float(v) for k, v in values.items() if type(v) in (int, float)}
    return {name: value for name, value in plain.items() if isfinite(value)}


def tracked_settings(description: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run, defaults filled in, and what is known of it before its first round.

    Args:
        description: as ``Callback.begin`` has it.
    """
    plain = {name: value for name, value in description.items() if name not in NESTED}
    return description.get(TRAINED, {}) | plain


def run_names(folder: Path) -> dict[str, Any]:
    """The run's ``name`` and ``group``, and its name in each tracker that has it.

    They are written down when they are first asked for. A cell's group is its sweep's folder.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "plane" / "cells" / "n10"
        >>> run_names(folder)["name"], run_names(folder)["group"].endswith("plane")
        ('n10', True)
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


def new_name() -> str:
    """A name that no other run has."""
    return uuid4().hex[:12]
