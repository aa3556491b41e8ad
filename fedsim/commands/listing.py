"""``fedsim list``: what there is to choose from."""

import argparse
from collections.abc import Callable
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from compressors import ROWS
from fedsim.commands.document import print_document
from fedsim.commands.experiment import experiments
from fedsim.tasks import TASKS

Listed = dict[str, str]


def _tasks() -> list[Listed]:
    return [
        {"name": t.name, "kind": "task", "title": t.title, "source": t.source}
        for t in TASKS.values()
    ]


def _rows(kinds: tuple[str, ...]) -> list[Listed]:
    return [
        {"name": r.name, "kind": r.kind, "title": r.title, "source": r.source,
         "example": r.example}
        for r in ROWS if r.kind in kinds
    ]  # fmt: skip


WHAT: dict[str, Callable[[], list[Listed]]] = {
    "tasks": _tasks,
    "methods": lambda: _rows(("method", "compressor", "sparsifier", "quantizer")),
    "coders": lambda: _rows(("positions", "symbols")),
    "experiments": experiments,
}


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("list", help="list tasks, methods, coders or experiments")
    parser.add_argument("what", choices=WHAT, help="what to list")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Prints the list."""
    found = WHAT[flags.what]()
    if flags.json:
        print_document(found)
        return 0
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("name", "kind", "title", "source"):
        table.add_column(column, overflow="fold")
    for row in found:
        table.add_row(row["name"], row["kind"], row["title"], row["source"])
    Console().print(table)
    return 0
