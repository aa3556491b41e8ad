"""Writes the tables of ``docs/columns.md`` from the records: ``python docs/make_columns.py``."""

import re
from collections.abc import Sequence
from pathlib import Path

from fedsim.ground.columns import ColumnSpec
from fedsim.results.summaries import TABLES

PAGE = Path(__file__).with_name("columns.md")
_BETWEEN = re.compile(r"(<!-- columns of (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_TYPES = {int: "int64", float: "float64", str: "string", bool: "bool"}


def table(specs: Sequence[ColumnSpec]) -> str:
    """A markdown table; columns that hold the same in another direction share a row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for spec in specs:
        cells = _TYPES[spec.kind], spec.unit, spec.meaning, " or ".join(spec.when)
        alike.setdefault(cells, []).append(f"`{spec.name}`")
    lines = ["| column | type | unit | what it is | when |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {' | '.join((', '.join(names), *cells))} |" for cells, names in alike.items()]
    return "".join(f"{line}\n" for line in lines)


def page() -> str:
    """The page, its tables made from the records."""
    text = PAGE.read_text(encoding="utf-8")
    return _BETWEEN.sub(lambda found: found[1] + table(TABLES[found[2]]) + found[3], text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
