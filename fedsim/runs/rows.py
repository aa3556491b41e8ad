"""Rows of a table that grows while a run goes on, in a tenth of the memory of dictionaries."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

_AT_ONCE = 256  # rows that are packed together; as many stay as they came

_KINDS = {int: np.int64, float: np.float64, str: np.bytes_}
"""Values of which a column is an array; of texts, where they are ASCII."""

ColumnValues = np.ndarray | list[Any]


class Rows(Sequence[dict[str, Any]]):
    """Rows by number; they come back as they were given, and the last ones are at hand.

    Args:
        rows: the first ones. Of other ``Rows`` what is packed is shared, for it never changes.

    Example:
        >>> rows = Rows({"round": n, "digest": "ab"} for n in range(1000))
        >>> len(rows), rows[-1], rows[998:]
        (1000, {'round': 999, 'digest': 'ab'}, [{'round': 998, 'digest': 'ab'}, \
{'round': 999, 'digest': 'ab'}])
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = ()) -> None:
        other = rows if isinstance(rows, Rows) else None
        self._packed: list[dict[str, ColumnValues]] = [*other._packed] if other else []
        self._ends: list[int] = [*other._ends] if other else []  # of what is packed, in rows
        self._start: int = other._start if other else 0  # the first row that is not packed
        self._loose: list[dict[str, Any]] = []
        self.extend(other._loose if other else rows)

    def append(self, row: dict[str, Any]) -> None:
        """Adds a row, which nobody changes any more."""
        self._loose.append(row)
        if len(self._loose) == 2 * _AT_ONCE:
            for part in _packed(self._loose[:_AT_ONCE]):
                self._packed.append(part)
                self._start += len(next(iter(part.values())))
                self._ends.append(self._start)
            del self._loose[:_AT_ONCE]

    def amend(self, columns: Mapping[str, Any]) -> None:
        """Replaces values of the last row; copies of these rows keep what they have."""
        self._loose[-1] = {**self._loose[-1], **columns}

    def extend(self, rows: Iterable[dict[str, Any]]) -> None:
        """Adds rows."""
        for row in rows:
            self.append(row)

    def __len__(self) -> int:
        return self._start + len(self._loose)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [self[i] for i in range(len(self))[place]]
        number = range(len(self))[place]
        if number >= self._start:
            return self._loose[number - self._start]
        i = bisect(self._ends, number)
        before = self._ends[i - 1] if i else 0
        return {name: _values(x)[number - before] for name, x in self._packed[i].items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for part in self._packed:
            for values in zip(*map(_values, part.values()), strict=True):
                yield dict(zip(part, values, strict=True))
        yield from self._loose

    def frame(self) -> pd.DataFrame:
        """The rows as pandas makes a table of such dictionaries; none of these is made."""
        import pandas as pd

        parts = [*self._packed, *_packed(self._loose)]
        names = dict.fromkeys(name for part in parts for name in part)
        return pd.DataFrame({name: _joined(parts, name) for name in names})


def rows_of(frame: pd.DataFrame) -> Rows:
    """The rows of a table, of which no more than a few are dictionaries at a time."""
    starts = range(0, len(frame), _AT_ONCE)
    parts = (frame[start : start + _AT_ONCE].to_dict("records") for start in starts)
    return Rows(row for part in parts for row in part)


def _packed(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, ColumnValues]]:
    """Rows as columns, in parts whose rows have the same names."""
    for names, alike in groupby(rows, tuple):
        columns = zip(*(row.values() for row in alike), strict=True)
        yield {name: _column([*values]) for name, values in zip(names, columns, strict=True)}


def _column(values: list[Any]) -> ColumnValues:
    """Values as an array that gives them back as they are; a list where there is none.

    An array of the same value many times holds it once.
    """
    kinds = {*map(type, values)}
    kind = _KINDS.get(kinds.pop()) if len(kinds) == 1 else None
    if kind is None or (kind is np.bytes_ and any(x.endswith("\0") for x in values)):
        return values
    try:
        array: np.ndarray = np.array(values, kind)
    except (OverflowError, UnicodeEncodeError):
        return values
    bits = array.view(np.int64) if kind is np.float64 else array  # zeros have signs
    return np.broadcast_to(array[:1].copy(), array.shape) if (bits == bits[0]).all() else array


def _values(column: ColumnValues) -> list[Any]:
    if isinstance(column, list):
        return column
    values: list[Any] = (column.astype(np.str_) if column.dtype.kind == "S" else column).tolist()
    return values


def _joined(parts: Sequence[Mapping[str, ColumnValues]], name: str) -> ColumnValues:
    """A column over all parts; where a part lacks it, NaN."""
    columns = [part.get(name) for part in parts]
    numbers = [x for x in columns if isinstance(x, np.ndarray) and x.dtype.kind != "S"]
    if len(numbers) == len(columns):
        return np.concatenate(numbers)
    lengths = [len(next(iter(part.values()))) for part in parts]
    return [
        value
        for column, many in zip(columns, lengths, strict=True)
        for value in ([np.nan] * many if column is None else _values(column))
    ]
