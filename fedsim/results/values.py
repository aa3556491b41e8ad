"""Checks of the values in a run's files, which may have been edited or be of another version.

Unknown values are accepted: the next version will write more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd


STATUSES = ("done", "failed", "stopped")

REACHED = "the target is reached"
"""The ``error`` of a run that was stopped because it had come to where it was to come."""

_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
}
_FROM_ONE = ("temporal", "clients")
_SIGNED = ("metric", "loss")
_METHOD_FACTS = {"form": str, "whole": str, "masks": bool}


def fault(values: Mapping[str, Any], kinds: Mapping[str, type]) -> str:
    """The first value that is not of its kind, in words; empty where there is none.

    A value that is missing or None is not known, and let through.
    """
    for name, kind in kinds.items():
        value = values.get(name)
        number = kind in (int, float)
        expected = (int, float) if kind is float else kind
        fits = isinstance(value, expected) and not (number and isinstance(value, bool))
        if number and isinstance(value, int) and abs(value) >= 2**63:
            fits = False  # in no column of 64 bits
        if value is not None and not fits:
            return f"{name} is {value!r} and not {_WORDS[kind]}"
    return ""


def fault_of_cell(cell: Mapping[str, Any], columns: Mapping[str, type]) -> str:
    """The first fault of a `summary.json`, in words; empty where there is none."""
    nested = {"settings": dict, "told": dict}
    if wrong := fault(cell, {**columns, **nested}):
        return wrong
    if wrong := fault(cell.get("told") or {}, _METHOD_FACTS):
        return f"in told, {wrong}"
    if cell["status"] not in STATUSES:
        return f"status is {cell['status']!r}; known are {', '.join(STATUSES)}"
    if cell.get("told") and "form" not in cell["told"]:
        return "told lacks form"
    if not 0 < cell.get("gradient", 1) <= 1:
        return f"gradient is {cell['gradient']}, and lies in (0, 1]"
    for name in (name for name, kind in columns.items() if kind in (int, float)):
        least = 1 if name in _FROM_ONE else 0
        value = cell.get(name)
        if value is not None and name not in _SIGNED and value < least:
            return f"{name} is {value}, and is {least} or above"
    return ""


def fault_of_table(table: pd.DataFrame, numbers: Collection[str]) -> str:
    """Which column of a table should hold numbers and does not; empty where all do.

    Those of ``numbers`` do, and columns of bits and of seconds, those of later versions too.
    """
    import pandas as pd

    for name, kind in zip(table, table.dtypes, strict=True):
        counted = name in numbers or str(name).endswith(("_bits", "seconds"))
        if not counted or pd.api.types.is_numeric_dtype(kind):
            continue
        if len(present := table[name].dropna()):
            return f"its column {name} holds {present.iloc[0]!r} and not numbers"
    return ""
