"""Comparison of a recorded table with the same one made again, by row and column."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from fedsim.ground.records import CLIENT_SCORES, MEASURED, SCORE

TOLERANCE = 0.05
"""How far numbers may be apart where another processor cannot give them bit for bit, as a share of
the recorded ones."""

LAST_DIGITS = 1e-6
"""The same for numbers that another processor, or an earlier version, has of equal models."""

_CLOCK = 1e-9
"""How far simulated seconds may be apart, as a share: versions add them up in other orders."""

_KEYS = ("round", "iteration", "client", "message", "tensor", "entries", "samples")
"""Columns that no processor changes: they say what a row is of."""


@dataclass(frozen=True)
class Shares:
    """How far values may be from the recorded ones, as a share of these."""

    scored: float | None = 0.0  # of a model's scores; None: they are not compared
    coding: bool = False  # whether simulated seconds hold measured ones
    numbers: float = 0.0  # of all other numbers
    bits: bool = True  # whether digests and texts are compared, which follow from single bits

    def of(self, column: str) -> float | None:
        """The share by which a column may differ; None: it is not compared."""
        if column in MEASURED or (column.endswith("seconds") and not column.startswith("sim_")):
            return None
        if column in _KEYS:
            return 0.0
        if column.startswith("sim_"):
            return None if self.coding else max(_CLOCK, self.numbers)
        if not self.bits and (column.startswith("digest_") or column == "failure_reasons"):
            return None
        if column in ("metric", "loss", *CLIENT_SCORES) or column.startswith(SCORE):
            return None if self.scored is None else max(self.scored, self.numbers)
        return self.numbers


def row_differences(
    recorded: pd.DataFrame,
    repeated: pd.DataFrame,
    shares: Shares,
    where: str = "in the replay",
) -> Iterator[str]:
    """Where tables of as many rows differ, of each column the first row.

    ``where``: says where the second value was found.
    """
    first: list[tuple[int, str]] = []
    for column in recorded.columns.intersection(repeated.columns, sort=False):
        if (share := shares.of(column)) is None:
            continue
        one, other = recorded[column].to_numpy(), repeated[column].to_numpy()
        equal = (one == other) | (pd.isna(one) & pd.isna(other))
        if share and is_numeric_dtype(recorded[column]) and is_numeric_dtype(repeated[column]):
            equal |= np.isclose(other.astype(float), one.astype(float), rtol=share, atol=0)
        if not equal.all():
            place = int(np.argmin(equal))
            sentence = f"{column} is {one[place]}, and {other[place]} {where}"
            first.append((place, f"{row_words(recorded.iloc[place])}: {sentence}"))
    yield from (sentence for _, sentence in sorted(first))


def shape_differences(
    file: str, recorded: pd.DataFrame, repeated: pd.DataFrame, where: str
) -> Iterator[str]:
    """Where a table has other rows or further columns than the same one made again.

    Columns that it lacks are not named: an earlier version wrote fewer.
    """
    if len(recorded) != len(repeated):
        yield f"{file} has {len(recorded)} rows, and {len(repeated)} {where}"
    for column in recorded.columns.difference(repeated.columns, sort=False):
        yield f"{file} has a column {column}, and none {where}"


def value_differences(
    place: str, recorded: Mapping[str, Any], repeated: Mapping[str, Any], shares: Shares, where: str
) -> Iterator[str]:
    """Where values by name differ from the same made again; a name that one lacks is passed over.

    ``place``: what a message begins with. Mappings in ``recorded`` are compared value by value.
    """
    for name, one in recorded.items():
        if name not in repeated or (share := shares.of(name)) is None:
            continue
        other = repeated[name]
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from value_differences(f"{place}: {name}", one, other, shares, where)
        elif not _alike(one, other, share):
            yield f"{place}: {name} is {one}, and {other} {where}"


def _alike(one: Any, other: Any, share: float) -> bool:
    """Whether two values are equal, or numbers within a share of the first; NaN is None, too."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (one, other))
    if numbers:
        return bool(np.isclose(other, one, rtol=max(share, 1e-12), atol=0, equal_nan=True))
    empty = [x is None or (isinstance(x, float) and np.isnan(x)) for x in (one, other)]
    return all(empty) or bool(one == other)


def row_words(row: Mapping[str, Any]) -> str:
    """Which row of a table it is: its round, and the client, message or tensor that it is of."""
    keys = [name for name in ("round", "client", "message", "tensor") if name in row]
    return ", ".join(f"{k} {int(row[k]) if k == 'message' else row[k]}" for k in keys)
