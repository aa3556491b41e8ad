"""``fedsim theory``: what is proved about the methods, and the papers' tables computed again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fedsim.commands.output import print_document
from fedsim.ground.errors import UsageError, unknown
from fedsim.measure.theory.tables import THEORY_TABLES

if TYPE_CHECKING:
    from rich.console import Group

    from fedsim.measure.theory.tables import TableDict

_NAMES, _WORDS = ("name", "approach", "method"), ("class", "note", "title", "source")
_MOST = 10**12  # entries: a thousand times the largest models


def add_theory(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "theory",
        help="print the papers' theory, computed again",
        description="Prints a table of the papers' theory, computed again. Without TABLE it lists "
        "the tables.",
    )
    parser.add_argument(
        "table",
        nargs="?",
        metavar="TABLE",
        help=f"one of {', '.join(THEORY_TABLES)}; without it, a list of them",
    )
    parser.add_argument(
        "--entries", type=int, metavar="D", help="entries of the vector (default: as in the paper)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command_theory)


def command_theory(flags: argparse.Namespace) -> int:
    """Prints a table, or the list of tables."""
    from rich.console import Console

    from fedsim.show.layout import print_whole

    console = Console()
    if flags.table is None:
        if flags.entries is not None:
            raise UsageError("--entries goes with a table: `fedsim theory bounds --entries 1000`.")
        listed = [
            {"name": name, "title": table.title, "source": table.source}
            for name, table in THEORY_TABLES.items()
        ]
        if flags.json:
            print_document([{"name": row["name"], "kind": "theory", **row} for row in listed])
        else:
            print_whole(console, _shown("Tables of theory", listed, (), console.width))
        return 0
    if flags.table not in THEORY_TABLES:
        raise UsageError(unknown("table", flags.table, THEORY_TABLES))
    table = THEORY_TABLES[flags.table]
    entries = table.entries if flags.entries is None else flags.entries
    if flags.entries is not None and table.entries is None:
        raise UsageError(f"--entries: {flags.table} does not depend on D; leave it out.")
    if flags.entries is not None and not 1 <= flags.entries <= _MOST:
        raise UsageError(f"--entries is {flags.entries}: give a whole number from 1 to {_MOST}.")
    rows = table.rows(entries or 0)
    if flags.json:
        print_document(
            {
                "table": flags.table,
                "title": table.title,
                "source": table.source,
                "entries": entries,
                "notes": list(table.notes),
                "rows": rows,
            }
        )
        return 0
    size = f", d = {entries}" if entries else ""
    title = f"{table.title} ({table.source}){size}"
    print_whole(console, _shown(title, rows, table.notes, console.width))
    return 0


def _shown(title: str, rows: list[TableDict], notes: tuple[str, ...], width: int) -> Group:
    from fedsim.show.layout import text_table

    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    if "method" in names and "name" in names:
        names.remove("name")  # the method's text holds its name
    texts = [{name.replace("_", "\n"): _cell(row[name]) for name in names} for row in rows]
    # ranges break between their ends
    ranges = {one for text in texts for one in text if " - " in text[one] and one not in _WORDS}
    how: dict[str, Any] = {"names": _NAMES, "words": (*_WORDS, *ranges), "right": ranges}
    return text_table(texts, width, gap=2, title=title, caption="\n".join(notes), **how)


def _cell(value: Any) -> str:
    """A value as it is read: numbers with four digits, two ends with a dash, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, list):
        return " - ".join(_cell(end) for end in value)
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"
