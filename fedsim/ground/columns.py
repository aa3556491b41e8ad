"""Columns of tables, declared as fields: a dataclass is a record, and each field of it a column.

A field may hold a part of the record instead: another such dataclass, whose columns take its
place. A function that computes some numbers of a row returns the part that declares them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

_DTYPES = {int: "int64", float: "float64"}


@dataclass(frozen=True)
class ColumnSpec:
    """What a column holds.

    Attributes:
        name: of the column.
        kind: int, float, str or bool.
        unit: of its values.
        meaning: a sentence without its full stop.
        when: with which settings the column is there, each of them alone; empty: always.
        measured: whether a machine's clock gives its values: another run of the same has others.
    """

    name: str
    kind: type
    unit: str
    meaning: str
    when: tuple[str, ...] = ()
    measured: bool = False

    @property
    def sentence(self) -> str:
        """When the column is there, and what it holds.

        Example:
            >>> ColumnSpec("late", int, "updates", "of earlier rounds", ("with --late",)).sentence
            'with --late: of earlier rounds'
        """
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


def columns_of(record: type[Any]) -> tuple[ColumnSpec, ...]:
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
    specs: dict[str, ColumnSpec] = {}
    hints = get_type_hints(record)
    for f in fields(record):
        kinds: list[type[Any]] = [*get_args(hints[f.name])] or [hints[f.name]]
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
    return tuple(specs.values())


def _spec(f: Field[Any], name: str, kind: type) -> ColumnSpec:
    facts = {key: f.metadata[key] for key in ("unit", "meaning", "when")}
    return ColumnSpec(name, kind, **facts, measured=f.metadata.get("measured", False))


def names_of(record: type[Any]) -> tuple[str, ...]:
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


def typed(table: pd.DataFrame, record: type[Any]) -> pd.DataFrame:
    """A table of a record's rows, whose numbers have the types that the record declares.

    Counts that some row lacks, as in a run that an older version began, are floats.
    """
    kinds = {}
    for spec in columns_of(record):
        if spec.kind in _DTYPES and spec.name in table:
            kind = float if table[spec.name].hasnans else spec.kind
            kinds[spec.name] = _DTYPES[kind]
    other = {name: kind for name, kind in kinds.items() if table[name].dtype != kind}
    return table.astype(other) if other else table


def receivers(rounds: Any) -> Any:
    """How many clients were asked in a round; of a frame of rounds, a column of these."""
    absent = rounds.get("absent", 0)  # not in older folders
    late = rounds.get("late", 0)  # were asked in earlier rounds
    return rounds["clients"] + rounds["failures"] - absent - late
