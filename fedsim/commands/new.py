"""``fedsim new``: a file that runs, and its test, to begin something of one's own with."""

import argparse
import keyword
from pathlib import Path
from typing import Any

from compressors.grammar import printable
from fedsim.ground.errors import UsageError

_TEMPLATES = Path(__file__).parent / "templates"

NEXT = {
    "task": (
        "fedsim run --task NAME.py:TASK --method 'sbc(0.05)'",
        "python -m pytest test_NAME.py",
    ),
    "method": (
        "fedsim run --rows NAME.py --method 'NAME(0.1) | float32 | golomb'",
        "python -m pytest test_NAME.py",
    ),
    "strategy": (
        "fedsim run --strategy NAME.py:Bounded --method 'sbc(0.05)'",
        "python -m pytest test_NAME.py",
    ),
    "app": ("export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1", "flwr run NAME"),
}
"""By kind, what to type next."""


def add_new(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "new",
        help="write a task, a method, a strategy or a Flower app to begin with",
        description="Writes a file that runs, and its test, into the current folder: NAME.py and "
        "test_NAME.py; of an app, the folder NAME. Nothing is written over.",
    )
    parser.add_argument("kind", choices=tuple(NEXT), help="what to write")
    parser.add_argument("name", metavar="NAME", help="a name of Python: letters, digits and _")
    parser.set_defaults(command=_command)


def _command(flags: argparse.Namespace) -> int:
    name = flags.name
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        raise UsageError(f"NAME is {name!r}: give letters, digits and _, not a digit first")
    files = _files(flags.kind, name)
    for path in files:
        if path.exists():
            raise UsageError(f"NAME is {name!r}: {path} is there; give another name")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(printable(f"{path}"))
    for line in NEXT[flags.kind]:
        print(f"next: {line.replace('NAME', name)}")
    return 0


def _files(kind: str, name: str) -> dict[Path, str]:
    if kind == "app":
        templates = sorted((_TEMPLATES / kind).rglob("*.txt"))
        paths = {Path(name) / path.relative_to(_TEMPLATES / kind): path for path in templates}
    else:
        paths = {
            Path(f"{name}.py.txt"): _TEMPLATES / f"{kind}.py.txt",
            Path(f"test_{name}.py.txt"): _TEMPLATES / f"{kind}_test.py.txt",
        }
    return {
        Path(str(path.with_suffix("")).replace("NAME", name)): source.read_text(
            encoding="utf-8"
        ).replace("NAME", name)
        for path, source in paths.items()
    }
