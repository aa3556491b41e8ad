"""Columns of tables, declared as fields: a dataclass is a record, and each field of it a column.

A field may hold a part of the record instead: another such dataclass, whose columns take its
place. A function that computes some numbers of a row returns the part that declares them. The rows
of a table that grows while a run goes on are `Rows`, in a tenth of the memory of dictionaries.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from itertools import groupby
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints, overload

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import numpy as np
    import pandas as pd

    ColumnValues = np.ndarray | list[Any]

_DTYPES = {int: "int64", float: "float64"}

_AT_ONCE = 256  # rows that are packed together; as many stay as they came

_KINDS = {int: "int64", float: "float64", str: "S"}
"""Values of which a column is an array; of texts, where they are ASCII."""


@dataclass(frozen=True)
class ColumnSpec:
    """What a column holds."""

    name: str
    kind: type  # int, float, str or bool
    unit: str  # of its values
    meaning: str  # a sentence without its full stop
    # With which settings the column is there, each of them alone; empty: always.
    when: tuple[str, ...] = ()
    # Whether a machine's clock gives its values: another run of the same has others.
    measured: bool = False

    @property
    def sentence(self) -> str:
        """When the column is there, and what it holds."""
        return f"{' or '.join(self.when)}: {self.meaning}" if self.when else self.meaning


def column(unit: str, meaning: str, *when: str, measured: bool = False) -> Any:
    """A field that is a column, as ``ColumnSpec`` has it."""
    metadata = {"unit": unit, "meaning": meaning, "when": when, "measured": measured}
    return field(metadata=metadata)


def optional_column(unit: str, meaning: str, *when: str) -> Any:
    """A field that is a column, and None in a row that has no such column."""
    return field(default=None, metadata={"unit": unit, "meaning": meaning, "when": when})


def columns_by_prefix(prefix: str, unit: str, meaning: str, *when: str) -> Any:
    """A field that maps further columns, whose names begin with ``prefix``, to numbers."""
    metadata = {"unit": unit, "meaning": meaning, "when": when, "prefix": prefix}
    return field(default_factory=dict, metadata=metadata)


def columns_of(record: type) -> tuple[ColumnSpec, ...]:
    """The columns of a record in the order of its fields, those of its parts in their places.

    A column that two parts declare is listed once.

    Example:
        >>> @dataclass
        ... class Row:
        ...     round: int = column("number", "the round, from 1")
        ...     late: int = column("updates", "updates from earlier rounds", "with --late")
        >>> [(c.name, c.kind, c.when) for c in columns_of(Row)]
        [('round', <class 'int'>, ()), ('late', <class 'int'>, ('with --late',))]
    """
    if record in _SPECS:
        return _SPECS[record]
    specs: dict[str, ColumnSpec] = {}
    hints = get_type_hints(record)
    for f in fields(record):
        kinds: list[type] = [*get_args(hints[f.name])] or [hints[f.name]]
        if "prefix" in f.metadata:
            specs_of_field = [_spec(f, f"{f.metadata['prefix']}NAME", float)]
        elif f.metadata:
            specs_of_field = [_spec(f, f.name, kinds[0])]
        else:
            specs_of_field = [
                spec for part in kinds if part is not NoneType for spec in columns_of(part)
            ]
        for spec in specs_of_field:
            before = specs.get(spec.name, spec)
            when = tuple(dict.fromkeys(before.when + spec.when))
            specs[spec.name] = replace(before, kind=spec.kind, when=when)
    return _SPECS.setdefault(record, tuple(specs.values()))


_SPECS: dict[type[Any], tuple[ColumnSpec, ...]] = {}
"""The columns of records: each run looks at those of its tables."""


def _spec(f: Field[Any], name: str, kind: type) -> ColumnSpec:
    facts = {key: f.metadata[key] for key in ("unit", "meaning", "when")}
    return ColumnSpec(name, kind, **facts, measured=f.metadata.get("measured", False))


def names_of(record: type) -> tuple[str, ...]:
    """The names of a record's columns."""
    return tuple(spec.name for spec in columns_of(record))


def row_of(record: Any) -> dict[str, Any]:
    """A record as a row: values by the names of its columns; a column that is None is left out.

    Example:
        >>> @dataclass
        ... class Row:
        ...     round: int = column("number", "the round, from 1")
        ...     late: int | None = optional_column("updates", "late ones", "with --late")
        >>> row_of(Row(3)), row_of(Row(3, 0))
        ({'round': 3}, {'round': 3, 'late': 0})
    """
    kind = type(record)
    plan = _PLANS.get(kind) or _PLANS.setdefault(kind, _Plan.of(kind))
    values = zip(plan.names, plan.read(record), strict=True)
    if not plan.parts:
        row = dict(values)
        for name in plan.optional:
            if row[name] is None:
                del row[name]
        return row
    row = {}
    for name, value in values:
        if value is None:
            continue
        if name in plan.parts:
            part = value if isinstance(value, dict) else row_of(value)
            row = row | part if row else part
        else:
            row[name] = value
    return row


class _Plan(NamedTuple):
    """How records of a class are read: all fields, those that are optional columns, and parts."""

    names: tuple[str, ...]
    read: Callable[[Any], tuple[Any, ...]]
    optional: tuple[str, ...]
    parts: frozenset[str]

    @classmethod
    def of(cls, record: type[Any]) -> _Plan:
        declared = fields(record)
        names = tuple(f.name for f in declared)
        optional = tuple(f.name for f in declared if f.metadata and f.default is None)
        parts = frozenset(f.name for f in declared if not f.metadata or "prefix" in f.metadata)
        read = attrgetter(*names) if len(names) > 1 else lambda one: (attrgetter(*names)(one),)
        return cls(names, read, optional, parts)


_PLANS: dict[type[Any], _Plan] = {}


def typed(table: pd.DataFrame, record: type) -> pd.DataFrame:
    """A table of a record's rows, whose numbers have the types that the record declares.

    Counts that some row lacks, as in a run that an older version began, are floats.
    """
    before = dict(zip(table, table.dtypes, strict=True))
    other = {}
    for spec in columns_of(record):
        dtype = _DTYPES.get(spec.kind)
        if dtype is None or before.get(spec.name, dtype) == dtype:
            continue
        kind = "float64" if table[spec.name].hasnans else dtype
        if before[spec.name] != kind:
            other[spec.name] = table[spec.name].astype(kind)
    return table.assign(**other) if other else table


def receivers(rounds: Any) -> Any:
    """How many clients were asked in a round; of a frame of rounds, a column of these.

    A frame of several runs has NaN in a column that only others of them have: none.
    """
    import numpy as np

    count = rounds["clients"] + rounds["failures"]
    for name in ("absent", "late"):  # not in older folders; were asked in earlier rounds
        if name in rounds:
            count = count - np.nan_to_num(rounds[name])
    return count


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

    def extend(self, rows: Iterable[dict[str, Any]]) -> None:
        """Adds rows, which nobody changes any more."""
        for row in rows:
            self._loose.append(row)
            if len(self._loose) < 2 * _AT_ONCE:
                continue
            for part in _packed(self._loose[:_AT_ONCE]):
                self._packed.append(part)
                self._start += len(next(iter(part.values())))
                self._ends.append(self._start)
            del self._loose[:_AT_ONCE]

    def amend(self, columns: Mapping[str, Any]) -> None:
        """Replaces values of the last row; copies of these rows keep what they have."""
        self._loose[-1] = {**self._loose[-1], **columns}

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
    import numpy as np

    kinds = {*map(type, values)}
    kind = _KINDS.get(kinds.pop()) if len(kinds) == 1 else None
    if kind is None or (kind == "S" and any(x.endswith("\0") for x in values)):
        return values
    try:
        array: np.ndarray = np.array(values, kind)
    except (OverflowError, UnicodeEncodeError):
        return values
    bits = array.view(np.int64) if kind == "float64" else array  # zeros have signs
    return np.broadcast_to(array[:1].copy(), array.shape) if (bits == bits[0]).all() else array


def _values(column: ColumnValues) -> list[Any]:
    import numpy as np

    if isinstance(column, list):
        return column
    values: list[Any] = (column.astype(np.str_) if column.dtype.kind == "S" else column).tolist()
    return values


def _joined(parts: Sequence[Mapping[str, ColumnValues]], name: str) -> ColumnValues:
    """A column over all parts; where a part lacks it, NaN."""
    import numpy as np

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
