"""Callbacks of a run while it goes on: one small protocol, and a writer of CSV."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from fedsim.ground.errors import UsageError, unknown, writing
from fedsim.ground.records import CLIENT_SCORES, SCORE

RoundRow = Mapping[str, Any]
"""A round's row, as in ``rounds.parquet``, with ``up_bits`` (the upstream bits so far of a client
that takes part in every round), ``spent`` (the bits that ``--budget-of`` selects) and ``last``
(whether the run ends with this round)."""


class Callback:
    """Follows a run. A subclass implements the methods that it needs.

    An exception that a method raises ends the run, which has then failed; ``StoppedEarly`` ends it
    as stopped, with its words. Both are raised again by ``run``.

    Example:
        >>> class Best(Callback):
        ...     def begin(self, description, rows):
        ...         self.metric = 0.0
        ...     def evaluation(self, row):
        ...         self.metric = max(self.metric, row["metric"])
        >>> from fedsim import RunConfig, run
        >>> best = Best()
        >>> result = run(RunConfig(iterations=20, temporal=5), callbacks=[best])
        >>> best.metric >= result.summary["metric"]
        True
    """

    def begin(self, description: Mapping[str, Any], rows: Sequence[RoundRow]) -> None:
        """Before the first round.

        Args:
            description: what the run's summary begins with: task, method, the settings, the name
                of the metric, the size of the model.
            rows: of the rounds that were done before, where a run goes on.
        """

    def round(self, row: RoundRow) -> None:
        """After every round."""

    def evaluation(self, row: RoundRow) -> None:
        """After a round whose model was scored, when ``round`` was called.

        The last round within ``--stop-at-bits`` may be scored when the next one has passed that:
        then its row comes with the scores, after its ``round`` and before the next one's.
        """

    def end(self, summary: Mapping[str, Any]) -> None:
        """When the run is over; ``summary["status"]``: ``done``, ``failed`` or ``stopped``."""


class CsvWriter(Callback):
    """Writes a line per round to a CSV file, which can be read while the run goes on.

    A run that goes on writes the lines of the rounds before again. Scores that come later
    (``Callback.evaluation``) replace the line of their round; a pipe keeps the line without them.

    Args:
        path: the file; its folder exists.
        columns: those that are wanted; None: all that the first row has. ``UsageError`` for
            another one, except scores, which come with the first evaluation.

    Example:
        run(config, callbacks=[CsvWriter("rounds.csv", ["round", "metric", "up_bits"])])
    """

    def __init__(self, path: Path | str, columns: Sequence[str] | None = None) -> None:
        self.path, self.columns = Path(path), columns
        self._file: TextIO = StringIO()

    def begin(self, description: Mapping[str, Any], rows: Sequence[RoundRow]) -> None:
        self._file.close()  # of a run that was interrupted
        with writing(self.path.parent):
            self._file = self.path.open("w", newline="", encoding="utf-8")
        self._columns: Sequence[str] | None = None
        for row in rows:
            self.round(row)

    def round(self, row: RoundRow) -> None:
        with writing(self.path.parent):
            if self._columns is None:
                self._columns = [*row] if self.columns is None else self.columns
                names = [*row, *CLIENT_SCORES]
                for name in self._columns:  # other scores come with the first evaluation
                    if name not in names and not name.startswith(SCORE):
                        raise UsageError(f"CsvWriter: {unknown('column', name, names)}")
                self._file.write(_line(self._columns, {name: name for name in self._columns}))
            self._start = self._file.tell() if self._file.seekable() else None
            self._line = _line(self._columns, row)
            self._file.write(self._line)
            self._file.flush()

    def evaluation(self, row: RoundRow) -> None:
        """The line again where its scores have come later."""
        assert self._columns is not None
        line = _line(self._columns, row)
        if line == self._line or self._start is None:
            return
        with writing(self.path.parent):
            self._file.seek(self._start)
            self._file.write(line)
            self._file.truncate()
            self._file.flush()

    def end(self, summary: Mapping[str, Any]) -> None:
        self._file.close()


def _line(columns: Sequence[str], row: RoundRow) -> str:
    text = StringIO(newline="")
    csv.DictWriter(text, columns, extrasaction="ignore").writerow(row)
    return text.getvalue()


class Several(Callback):
    """Callbacks, called in their order; a function among them is called with every round's row.

    Raises ``UsageError`` for what is neither.
    """

    def __init__(self, callbacks: Iterable[Callback | Callable[[RoundRow], Any]]) -> None:
        self._all = [x if isinstance(x, Callback) else _Function(x) for x in callbacks]

    def begin(self, description: Mapping[str, Any], rows: Sequence[RoundRow]) -> None:
        for callback in self._all:
            callback.begin(description, rows)

    def round(self, row: RoundRow) -> None:
        for callback in self._all:
            callback.round(row)

    def evaluation(self, row: RoundRow) -> None:
        for callback in self._all:
            callback.evaluation(row)

    def end(self, summary: Mapping[str, Any]) -> None:
        for callback in self._all:
            callback.end(summary)


class _Function(Callback):
    def __init__(self, function: Callable[[RoundRow], Any]) -> None:
        if not callable(function) or isinstance(function, type):  # a class is not called yet
            raise UsageError(f"callbacks: {function!r} is neither a fedsim.Callback nor a function")
        self._function = function

    def round(self, row: RoundRow) -> None:
        self._function(row)
