"""``fedsim list``: what there is to choose from."""

import argparse
from collections.abc import Callable
from typing import Any, get_args

from rich.console import Console

from compressors.catalogue import ROWS, Kind
from fedsim.commands.document import print_document
from fedsim.commands.experiment import experiments
from fedsim.network.presets import PRESETS
from fedsim.settings.controllers.listed import CONTROLLERS
from fedsim.show.layout import Column, Laid, Row, laid, print_whole
from fedsim.tasks.tasklist import LISTED

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


def _networks() -> list[Listed]:
    return [
        {"name": name, "kind": "network", "title": f"{preset.title}: {preset.text}",
         "source": preset.source}
        for name, preset in PRESETS.items()
    ]  # fmt: skip


def _controllers() -> list[Listed]:
    return [
        {"name": name, "kind": "controller", "title": row.title, "source": row.source,
         "example": row.example}
        for name, row in CONTROLLERS.items()
    ]  # fmt: skip


WHAT: dict[str, Callable[[], list[Listed]]] = {
    "tasks": _tasks,
    "methods": lambda: _rows(METHODS),
    "coders": lambda: _rows(CODERS),
    "networks": _networks,
    "controllers": _controllers,
    "experiments": experiments,
}


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "list", help="list tasks, methods, coders, networks, controllers or experiments"
    )
    parser.add_argument("kind", choices=WHAT, help="what to list")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Prints the list."""
    rows = WHAT[flags.kind]()
    if flags.json:
        print_document(rows)
        return 0
    console = Console()
    print_whole(console, _table(rows, console.width))
    return 0


def _table(listed: list[Listed], width: int) -> Laid:
    """The rows under a heading per kind; a single kind has no heading."""
    kinds = list(dict.fromkeys(row["kind"] for row in listed))
    rows: list[Row] = []
    for kind in kinds:
        if len(kinds) > 1:
            rows += [(("", "", ""), "")] if rows else []
            rows.append(((_HEADINGS.get(kind, kind), "", ""), "bold"))
        mine = (row for row in listed if row["kind"] == kind)
        rows += [((row["name"], row["title"], row["source"]), "") for row in mine]
    columns = (Column("name", "name"), Column("title", "words"), Column("source", "words"))
    gap = 2 if width >= 80 else 1
    return laid(columns, rows, width, gap=gap)
