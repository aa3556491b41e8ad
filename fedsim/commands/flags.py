"""Run settings as flags, each with the sentence of its declaration as help."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fedsim.ground.errors import UsageError, comma
from fedsim.results.folders import kind_of
from fedsim.settings.config import SETTINGS, RunConfig, default_of
from fedsim.settings.contents import fits
from fedsim.settings.declared import flag
from fedsim.settings.fields import SCORE
from fedsim.settings.strategies import FLAGS, check_text

KNOWN = {
    **{name: setting for name, setting in SETTINGS.items() if not setting.group}, **FLAGS,
    **{name: setting for name, setting in SETTINGS.items() if setting.group},
}  # fmt: skip
"""Every setting that is a flag: a run's, and those of strategies."""

_TITLES = {"": "settings of the runs", "strategy": "settings of the strategy, in its parentheses"}


def number(text: str) -> float:
    """A number of a flag; ``ArgumentTypeError`` says how a percentage is written."""
    try:
        return float(text)
    except ValueError as error:
        share = text.strip().removesuffix("%").replace(".", "", 1)
        percent = text.strip().endswith("%") and share.isdecimal()
        meant = f"; write {float(text.strip()[:-1]) / 100:g}" if percent else ""
        meant = meant or comma(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a number{meant}") from error


_TYPES = {"int": int, "float": number, "str": str}


def add_settings(
    parser: argparse.ArgumentParser,
    skip: Iterable[str] = (),
) -> None:
    """Adds a flag for every setting but those in ``skip``; what is not given stays None."""
    groups: dict[str, Any] = {}
    for name, setting in KNOWN.items():
        if name in skip:
            continue
        place = "strategy" if name in FLAGS else setting.group
        if place not in groups:
            title = _TITLES.get(place, f"{place} ([{place}] in a file of settings)")
            groups[place] = parser.add_argument_group(title)
        group = groups[place]
        kinds = setting.kind.split(" | ")
        kind = "str" if "str" in kinds else kinds[0]  # a number with a unit is a text here
        none = setting.default is None or setting.default is False  # and not 0
        default = "" if none else f" (default: {setting.default})"
        sentence = (setting.help + default).replace("%", "%%")
        if kind == "bool":
            group.add_argument(setting.flag, action="store_true", default=None, help=sentence)
        else:
            group.add_argument(
                setting.flag, type=_TYPES[kind], default=None, help=sentence,
                metavar=kind.upper() if kind != "str" else "TEXT",
            )  # fmt: skip


def given(flags: argparse.Namespace, skip: Iterable[str] = ()) -> dict[str, Any]:
    """The settings that were given on the command line; ``UsageError`` for a value that is none."""
    values = {name: getattr(flags, name, None) for name in KNOWN if name not in skip}
    typed = {name: value for name, value in values.items() if value is not None}
    for name, value in typed.items():
        KNOWN[name].fitting(KNOWN[name].as_stored(value))
    check_text(typed.get("strategy", default_of("strategy")))
    return typed


def numbers(text: str, name: str, kind: Callable[[str], Any]) -> list[Any]:
    """The numbers of a comma-separated list; ``UsageError`` names the setting and the value.

    ``kind``: ``int`` or ``number``, which reads one of them.
    """
    try:
        read = [kind(part) for part in text.split(",")]
        if 0 in read and comma(text):
            raise argparse.ArgumentTypeError(comma(text)[2:])
        return read
    except (ValueError, argparse.ArgumentTypeError) as error:
        wanted = "whole numbers" if kind is int else "numbers"
        example = "1,10,100" if kind is int else "1,0.1,0.01"
        why = f"; {error}" if isinstance(error, argparse.ArgumentTypeError) else ""
        raise UsageError(
            f"{flag(name)} is {text!r}: it takes {wanted} separated by commas, such as "
            f"{example}{why}"
        ) from error


def folder(
    flags: argparse.Namespace, name: str, config: RunConfig, digest: Callable[[bool], str]
) -> Path:
    """``--out``, or a folder named for what is run.

    A version before named folders by settings alone; such a folder goes on as long as nothing says
    that it is of other files of the user's.

    Args:
        flags: of the command.
        name: of the folder, without what follows.
        config: the run, or one of several.
        digest: of all of them: with what files hold, and without.
    """
    if flags.out:
        return Path(flags.out)
    made, before = (Path("fedsim-results", f"{name}-{digest(files)}") for files in (True, False))
    goes_on = not made.exists() and kind_of(before) and fits(before, config.content)
    return before if goes_on else made


def add_table(parser: Any, seeds: bool = True) -> None:
    """Adds the flags of the table that a command prints, of several seeds or of one run."""
    parser.add_argument(
        "--columns", metavar="NAME,...",
        help="columns of the table, by their names in summary.csv, or difference",
    )  # fmt: skip
    if seeds:
        parser.add_argument(
            "--per-seed", action="store_true", help="a row per run in the table, not per cell"
        )


def columns(flags: argparse.Namespace) -> list[str] | None:
    """The columns that the table is to have; None: the main ones.

    Raises:
        UsageError: a name that no table has.
    """
    if flags.columns is None:
        return None
    from fedsim.show.tables import check_columns

    names = [name.strip() for name in flags.columns.split(",")]
    # What a task scores beside its metric is known when it has been run.
    check_columns([name for name in names if not name.startswith(SCORE)], where="--columns")
    return names
