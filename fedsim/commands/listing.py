"""``fedsim list``: what there is to choose from."""

import argparse
from collections.abc import Callable
from typing import Any, get_args

from compressors.catalogue import ROWS, Kind
from fedsim.commands.bibliography import bibtex
from fedsim.commands.document import print_document
from fedsim.commands.experiment import experiments
from fedsim.ground.errors import UsageError
from fedsim.network.presets import PRESETS
from fedsim.settings.controllers.listed import CONTROLLERS
from fedsim.tasks.tasklist import LISTED

Listed = dict[str, Any]
CODERS = ("positions", "symbols", "coder")
METHODS = tuple(kind for kind in get_args(Kind) if kind not in CODERS)
_HEADINGS = {
    "method": "Methods", "compressor": "Compressors", "codec": "Codecs", "coder": "Coders",
    "sparsifier": "Sparsifiers", "quantizer": "Quantizers", "positions": "Positions",
    "symbols": "Symbols",
}  # fmt: skip


def _rows(kinds: tuple[str, ...]) -> list[Listed]:
    return [
        {"name": r.name, "kind": r.kind, "title": r.title, "source": r.source,
         "example": r.example}
        for r in ROWS if r.kind in kinds
    ]  # fmt: skip


WHAT: dict[str, Callable[[], list[Listed]]] = {
    "tasks": lambda: [
        {"name": name, "kind": "task", "title": listed.title, "source": listed.source}
        for name, listed in LISTED.items()
    ],
    "methods": lambda: [row | {"bibtex": bibtex(row["source"])} for row in _rows(METHODS)],
    "coders": lambda: _rows(CODERS),
    "networks": lambda: [
        {"name": name, "kind": "network", "title": f"{preset.title}: {preset.text}",
         "source": preset.source}
        for name, preset in PRESETS.items()
    ],
    "controllers": lambda: [
        {"name": name, "kind": "controller", "title": row.title, "source": row.source,
         "example": row.example}
        for name, row in CONTROLLERS.items()
    ],
    "experiments": experiments,
}  # fmt: skip


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "list", help="list tasks, methods, coders, networks, controllers or experiments",
        description="Lists the names that settings take, each with its title and source.",
    )  # fmt: skip
    parser.add_argument("kind", nargs="?", choices=WHAT, help="what to list")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Prints the list, under a heading per kind where there are several kinds."""
    if flags.kind is None:
        raise UsageError(f"nothing to list is named: give one of {', '.join(WHAT)}")
    listed = WHAT[flags.kind]()
    if flags.json:
        print_document(listed)
        return 0
    from rich.console import Console

    from fedsim.show.layout import Column, Row, laid, print_whole

    kinds = list(dict.fromkeys(row["kind"] for row in listed))
    rows: list[Row] = []
    for kind in kinds:
        if len(kinds) > 1:
            rows += [(("", "", ""), "")] if rows else []
            rows.append(((_HEADINGS.get(kind, kind), "", ""), "bold"))
        of_kind = (row for row in listed if row["kind"] == kind)
        rows += [((row["name"], row["title"], row["source"]), "") for row in of_kind]
    columns = (Column("name", "name"), Column("title", "words"), Column("source", "words"))
    console = Console()
    gap = 2 if console.width >= 80 else 1
    print_whole(console, laid(columns, rows, console.width, gap=gap))
    return 0
