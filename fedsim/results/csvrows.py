"""Rows of a CSV table next to those that it is made of again: where they differ."""

import csv
from collections.abc import Generator, Mapping, Sequence
from io import StringIO

CsvRow = Mapping[str, str]


def csv_rows(text: str) -> list[CsvRow]:
    """The rows of a CSV text, by the names of their columns; ``ValueError`` where it is none."""
    try:
        return list(csv.DictReader(StringIO(text)))
    except csv.Error as error:
        raise ValueError(f"it is not CSV: {error}") from error


def csv_differences(
    name: str, rows: Sequence[CsvRow], expected: Mapping[str, CsvRow]
) -> Generator[str, None, dict[str, CsvRow]]:
    """Where ``rows`` of the table ``name``, in any order, differ from those of the runs.

    Returns the runs without a row; empty where a row is of no run.
    """
    left = dict(expected)
    for number, row in enumerate(rows, 1):
        differing = {
            run: [name for name, text in row.items() if not _same(text, other.get(name))]
            for run, other in left.items()
        }
        if not differing:
            yield f"{name}: row {number} is of no run of the folder"
            return {}
        run = min(differing, key=lambda name: len(differing[name]))
        if wrong := differing[run]:
            column = wrong[0]
            value = expected[run].get(column, "no such column")
            yield f"{name}: row {number}: {column} is {row[column]}, and {value} by run {run}"
        del left[run]
    return left


def _same(text: str | None, other: str | None) -> bool:
    """Whether two cells are equal; a number may be written in two ways."""
    if text == other:
        return True
    try:
        return float(text or "") == float(other or "")
    except (TypeError, ValueError):  # a row with more cells than headings has a list of the rest
        return False
