"""``fedsim theory``: what is proved of the methods, and the papers' tables computed again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compressors.theory.tables import TABLES
from fedsim.commands.document import print_document
from fedsim.errors import UsageError

if TYPE_CHECKING:
    from compressors.theory.tables import Row, TheoryTable

_LEFT = ("name", "approach", "method", "class", "note", "title", "source")
_MOST = 10**12  # entries: a thousand times the largest models


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("theory", help="print the papers' theory, computed again")
    parser.add_argument("table", nargs="?", metavar="TABLE",
                        help=f"one of {', '.join(TABLES)}; without it, a list of them")  # fmt: skip
    parser.add_argument("--entries", type=int, metavar="D",
                        help="entries of the vector (default: as in the paper)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Prints a table, or the list of tables."""
    if flags.table is None:
        return _list(flags)
    if flags.table not in TABLES:
        raise UsageError(f"table is {flags.table!r}: it is one of {', '.join(TABLES)}.")
    table = TABLES[flags.table]
    entries = _entries(flags, table)
    rows = table.rows(entries or 0)
    if flags.json:
        print_document({
            "table": flags.table, "title": table.title, "source": table.source,
            "entries": entries, "notes": list(table.notes), "rows": rows,
        })  # fmt: skip
        return 0
    size = f", d = {entries}" if entries else ""
    Console().print(_shown(f"{table.title} ({table.source}){size}", rows, table.notes))
    return 0


def _list(flags: argparse.Namespace) -> int:
    if flags.entries is not None:
        raise UsageError("--entries goes with a table: `fedsim theory bounds --entries 1000`.")
    found = [
        {"name": name, "kind": "theory", "title": table.title, "source": table.source}
        for name, table in TABLES.items()
    ]
    if flags.json:
        print_document(found)
    else:
        rows = [{key: row[key] for key in ("name", "title", "source")} for row in found]
        Console().print(_shown("Tables of theory", rows, ()))
    return 0


def _entries(flags: argparse.Namespace, table: TheoryTable) -> int | None:
    """The d of the table; refused where it has none."""
    if flags.entries is None:
        return table.entries
    if table.entries is None:
        raise UsageError(f"--entries: {flags.table} does not depend on it; leave it out.")
    if not 1 <= flags.entries <= _MOST:
        raise UsageError(f"--entries is {flags.entries}: it is a whole number from 1 to {_MOST}.")
    return int(flags.entries)


def _shown(title: str, rows: list[Row], notes: tuple[str, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0),
                  title=Text(title), title_justify="left", caption=Text("\n".join(notes)),
                  caption_justify="left")  # fmt: skip
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    if "method" in names and "name" in names:
        names.remove("name")  # the example says it
    for name in names:
        left = name in _LEFT
        table.add_column(name.replace("_", " " if left else "\n"),
                         justify="left" if left else "right", overflow="fold",
                         no_wrap=name in ("name", "class"))  # fmt: skip
    for row in rows:  # Text, not str: a method's brackets are no markup
        table.add_row(*(Text(_cell(row[name])) for name in names))
    return table


def _cell(value: Any) -> str:
    """A value as it is read: numbers with four digits, two ends with a dash, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, list):
        return " - ".join(_cell(end) for end in value)
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"
