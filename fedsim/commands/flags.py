"""Run settings as flags: one per field of ``RunConfig``, with the field's sentence as help."""

import argparse
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedsim.ground.errors import UsageError
from fedsim.settings.config import RunConfig, default_of
from fedsim.settings.each import alone as check
from fedsim.settings.fields import Settings, flag, type_of

_TYPES = {"int": int, "float": float, "str": str}


def add_settings(
    parser: argparse.ArgumentParser,
    skip: Iterable[str] = (),
) -> None:
    """Adds a flag for every setting but those in ``skip``; what is not given stays None."""
    group = parser.add_argument_group("settings of the runs")
    for f in fields(RunConfig):
        if f.name in skip:
            continue
        kinds = type_of(f).split(" | ")
        kind = "str" if "str" in kinds else kinds[0]  # a number with a unit is a text here
        sentence = f.metadata["help"] + _default(default_of(f.name))
        if kind == "bool":
            group.add_argument(flag(f.name), action="store_true", default=None, help=sentence)
        else:
            group.add_argument(
                flag(f.name), type=_TYPES[kind], default=None, help=sentence.replace("%", "%%"),
                metavar=kind.upper() if kind != "str" else "TEXT",
            )  # fmt: skip


def _default(value: Any) -> str:
    return "" if value in (None, False) else f" (default: {value})"


def given(flags: argparse.Namespace, skip: Iterable[str] = ()) -> dict[str, Any]:
    """The settings that were given on the command line; ``UsageError`` for a value that is none."""
    names = [f.name for f in fields(RunConfig) if f.name not in skip]
    values = {name: getattr(flags, name, None) for name in names}
    typed = {name: value for name, value in values.items() if value is not None}
    check(Settings(**typed))
    return typed


def numbers(text: str, name: str, kind: type) -> list[Any]:
    """The numbers of a comma-separated list; ``UsageError`` names the setting and the value."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError as error:
        wanted = "whole numbers" if kind is int else "numbers"
        raise UsageError(
            f"{flag(name)} is {text!r}: it takes {wanted} separated by commas, such as "
            + ("1,10,100" if kind is int else "1,0.1,0.01")
        ) from error


def folder(flags: argparse.Namespace, name: str) -> Path:
    """``--out``, or a folder named for what is run."""
    return Path(flags.out) if flags.out else Path("fedsim-results") / name
