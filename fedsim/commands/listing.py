"""``fedsim list``: what there is to choose from."""

import argparse
from collections.abc import Callable
from typing import Any, get_args

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compressors.catalogue import ROWS, Kind
from fedsim.commands.document import print_document
from fedsim.commands.experiment import experiments
from fedsim.tasklist import LISTED

Listed = dict[str, str]
CODERS = ("positions", "symbols", "coder")
METHODS = tuple(kind for kind in get_args(Kind) if kind not in CODERS)
_HEADINGS = {
    "method": "Methods", "compressor": "Compressors", "codec": "Codecs", "coder": "Coders",
    "sparsifier": "Sparsifiers", "quantizer": "Quantizers", "positions": "Positions",
    "symbols": "Symbols",
}  # fmt: skip


def _tasks() -> list[Listed]:
    return [
        {"name": name, "kind": "task", "title": listed.title, "source": listed.source}
        for name, listed in LISTED.items()
    ]


def _rows(kinds: tuple[str, ...]) -> list[Listed]:
    return [
        {"name": r.name, "kind": r.kind, "title": r.title, "source": r.source,
         "example": r.example}
        for r in ROWS if r.kind in kinds
    ]  # fmt: skip


WHAT: dict[str, Callable[[], list[Listed]]] = {
    "tasks": _tasks,
    "methods": lambda: _rows(METHODS),
    "coders": lambda: _rows(CODERS),
    "experiments": experiments,
}


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("list", help="list tasks, methods, coders or experiments")
    parser.add_argument("kind", choices=WHAT, help="what to list")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Prints the list."""
    found = WHAT[flags.kind]()
    if flags.json:
        print_document(found)
        return 0
    Console().print(_table(found))
    return 0


def _table(found: list[Listed]) -> Table:
    """The rows under a heading a kind; one kind alone needs none."""
    kinds = list(dict.fromkeys(row["kind"] for row in found))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("title", overflow="fold")
    table.add_column("source", overflow="fold")
    for kind in kinds:
        if len(kinds) > 1:
            table.add_row(Text(_HEADINGS.get(kind, kind), style="bold"))
        for row in found:
            if row["kind"] == kind:
                table.add_row(*(Text(row[key]) for key in ("name", "title", "source")))
        table.add_section()
    return table
