"""``fedsim list``: what there is to choose from."""

import argparse
import ast
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args
from unicodedata import normalize

from compressors.catalogue import ROWS, Kind
from fedsim.commands.experiment import experiments
from fedsim.commands.output import print_document
from fedsim.ground.errors import UsageError
from fedsim.network.presets import DEVICE_PROFILES, PRESETS, Preset
from fedsim.results.folders import USUAL, results_in
from fedsim.settings.controllers.registry import CONTROLLERS
from fedsim.settings.samplers.registry import SAMPLERS
from fedsim.tasks.tasklist import LISTED
from strategies import algorithms

Entry = dict[str, Any]
CODER_KINDS = ("positions", "symbols", "coder")
_SOURCE, _NAMED = "Source: ", re.compile(r"(\w+).*? (\d{4})")
_TYPED = {"int", "float", "str", "None", "Staleness"}
"""The types of a strategy's settings that a text can give."""
_MARK = " (contrib)"
_CONTRIB = "contrib: the same contract and tests, used by at most one experiment"
METHOD_KINDS = tuple(kind for kind in get_args(Kind) if kind not in CODER_KINDS)
_HEADINGS = {
    "method": "Methods",
    "compressor": "Compressors",
    "codec": "Codecs",
    "coder": "Coders",
    "sparsifier": "Sparsifiers",
    "quantizer": "Quantizers",
    "positions": "Positions",
    "symbols": "Symbols",
}


def _entries(things: Mapping[str, Any], kind: str, *about: str) -> list[Entry]:
    """An entry per thing by name, with those of its attributes."""
    return [
        {"name": name, "kind": kind} | {key: getattr(thing, key) for key in about}
        for name, thing in things.items()
    ]


def _rows(kinds: tuple[str, ...]) -> list[Entry]:
    rows = {row.name: row for row in ROWS if row.kind in kinds}
    return _entries(rows, "", "kind", "title", "source", "example", "contrib")


def bibtex(source: str) -> str | None:
    """The entries of ``papers.bib`` that a row's source names; None where it names none.

    A key is the first author in ASCII letters, and the year.

    Example:
        >>> print(bibtex("Strom 2015"))
        @inproceedings{strom2015,
          author = {Strom, Nikko},
          title = {{Scalable Distributed DNN Training Using Commodity GPU Cloud Computing}},
          booktitle = {Interspeech},
          year = {2015},
        }
        >>> bibtex("reference") is None
        True
    """
    text = Path(__file__).with_name("papers.bib").read_text(encoding="utf-8")
    entries = {re.split("[{,]", entry)[1]: entry for entry in text.strip().split("\n\n")}
    named = [match for part in source.split("; ") if (match := _NAMED.match(part))]
    first = (normalize("NFKD", of[1]).encode("ascii", "ignore").decode().lower() for of in named)
    keys = [f"{name}{of[2]}" for name, of in zip(first, named, strict=True)]
    return "\n\n".join(entries[key] for key in keys if key in entries) or None


@lru_cache
def _class(module: str, name: str) -> tuple[str, dict[str, str]]:
    """The docstring of a class of ``strategies`` and its settings, read without torch.

    Settings are by name, those of its bases first, as a text with their default if they have one.
    """
    file = Path(algorithms.__file__).parents[1] / f"{module.replace('.', '/')}.py"
    body, settings = ast.parse(file.read_text(encoding="utf-8")).body, dict[str, str]()
    for line in (line for line in body if isinstance(line, ast.ImportFrom)):
        if name in (alias.name for alias in line.names):
            return _class((line.module or "").removeprefix("strategies."), name)
    node = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == name)
    for base in reversed(node.bases):
        settings |= _class(module, ast.unparse(base))[1]
    for field in (line for line in node.body if isinstance(line, ast.AnnAssign)):
        if {*ast.unparse(field.annotation).split(" | ")} <= _TYPED:
            setting: str = ast.unparse(field.target)
            default: Any = field.value.value if isinstance(field.value, ast.Constant) else None
            settings[setting] = setting if default in (None, "") else f"{setting}={default}"
    return ast.get_docstring(node) or "", settings


def _strategies() -> list[Entry]:
    """The first paragraph of each class's docstring, its source and its settings."""
    listed = []
    for name, place in algorithms.ALGORITHMS.items():
        text, settings = _class(*place.split(":"))
        parts = [" ".join(part.split()).replace("``", "") for part in text.split("\n\n")]
        source = next(part for part in parts if part.startswith(_SOURCE))
        about = {"title": parts[0].removesuffix("."), "source": source.removeprefix(_SOURCE)}
        contrib = {"settings": [*settings.values()], "contrib": place.startswith("contrib.")}
        listed.append({"name": name, "kind": "strategy", **about, **contrib})
    return listed


def _presets(presets: dict[str, Preset], kind: str) -> list[Entry]:
    entries = _entries(presets, kind, "title", "text", "source")
    return [entry | {"title": f"{entry['title']}: {entry.pop('text')}"} for entry in entries]


def _columns() -> list[Entry]:
    from fedsim.results.summaries import TABLES

    return [
        {
            "name": spec.name,
            "kind": file,
            "title": spec.sentence,
            "unit": spec.unit,
            "type": spec.kind.__name__,
        }
        for file, specs in TABLES.items()
        for spec in specs
    ]


WHAT: dict[str, Callable[[], list[Entry]]] = {
    "tasks": lambda: _entries(LISTED, "task", "title", "source"),
    "methods": lambda: [row | {"bibtex": bibtex(row["source"])} for row in _rows(METHOD_KINDS)],
    "coders": lambda: _rows(CODER_KINDS),
    "strategies": _strategies,
    "networks": lambda: _presets(PRESETS, "network"),
    "devices": lambda: _presets(DEVICE_PROFILES, "device"),
    "controllers": lambda: _entries(CONTROLLERS, "controller", "title", "source", "example"),
    "experiments": experiments,
    "columns": _columns,
    "runs": lambda: results_in(USUAL),
    "samplers": lambda: _entries(SAMPLERS, "sampler", "title", "source", "example"),
}


def add_list(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "list",
        help=f"list {', '.join([*WHAT][:-1])} or {[*WHAT][-1]}",
        description="Lists the names that settings take, each with its title and source; the "
        "columns of results, each with its unit; or the results in a folder, newest first.",
    )
    parser.add_argument("kind", nargs="?", choices=tuple(WHAT), help="what to list")
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", help=f"of results, with `runs` (default: {USUAL})"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=_command)


def _command(flags: argparse.Namespace) -> int:
    """Prints the list, under a heading per kind where there are several kinds."""
    if flags.kind is None:
        raise UsageError(f"nothing to list is named: give one of {', '.join(WHAT)}")
    if flags.folder is not None and flags.kind != "runs":
        raise UsageError(f"DIR is {flags.folder!r}: it belongs to `fedsim list runs`")
    listed = WHAT[flags.kind]() if flags.folder is None else results_in(Path(flags.folder))
    if flags.json:
        print_document(listed)
        return 0
    from rich.console import Console

    from fedsim.show.layout import Column, Row, print_whole, terminal_table

    last = {"columns": "unit", "runs": "date"}.get(flags.kind, "source")
    kinds = [] if flags.kind == "runs" else list(dict.fromkeys(row["kind"] for row in listed))
    rows: list[Row] = []
    for kind in kinds or [None]:
        if len(kinds) > 1:
            rows += [(("", "", ""), "")] if rows else []
            rows.append(((_HEADINGS.get(str(kind), str(kind)), "", ""), "bold"))
        of_kind = (row for row in listed if kind in (None, row["kind"]))
        for row in of_kind:
            mark = f"; settings: {', '.join(row['settings'])}" if row.get("settings") else ""
            mark += _MARK if row.get("contrib") else ""
            rows.append(((row["name"], row["title"] + mark, row[last]), ""))
    name = Column("name", "number" if flags.kind == "strategies" else "name")  # is not broken
    columns = (name, Column("title", "words"), Column(last, "words"))
    console = Console()
    gap = 2 if console.width >= 80 else 1
    print_whole(console, terminal_table(columns, rows, console.width, gap=gap))
    if any(row.get("contrib") for row in listed):
        console.print(_CONTRIB)
    return 0
