"""Run settings as flags, each with the sentence of its declaration as help."""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from shlex import quote
from typing import Any

from compressors.catalogue import check_names
from compressors.grammar import read_call, shortened, split_text
from fedsim.ground.errors import UsageError, comma, unknown
from fedsim.results.folders import kind_of
from fedsim.settings.config import SETTINGS, RunConfig, default_of
from fedsim.settings.contents import fits
from fedsim.settings.declarations import flag
from fedsim.settings.strategies import FLAGS, check_text
from fedsim.settings.trust_check import CODE
from fedsim.tasks.tasklist import LISTED, OWN_TASK

FLAG_SETTINGS = {
    **{name: setting for name, setting in SETTINGS.items() if not setting.group},
    **FLAGS,
    **{name: setting for name, setting in SETTINGS.items() if setting.group},
}
"""Every setting that is a flag: a run's, and those of strategies."""

MAIN = dict.fromkeys((
    "help", "help_all", "config", "out", "open", "json", "dry_run", "jobs", "temporal", "gradient",
    "iterations", "seed", "seeds", "vary", "clients", "cohort", "batch_size", "lr", "device",
    "budget", "target", "time", "trials", "methods",
), "") | {
    "task": "one of `fedsim list tasks`, or FILE.py:NAME for one of your own (default: digits)",
    "method": "how updates are compressed, one of `fedsim list methods` (default: sbc)",
    "local_epochs": "epochs per round of each client's samples, in place of --temporal",
    "rounds": "communication rounds, in place of --iterations",
    "strategy": "the server's algorithm, one of `fedsim list strategies` (default: dsgd)",
    "downlink": "how the global update is compressed; default: raw",
    "budget_of": "which bits budgets count: up, or total (both ways) (default: up)",
    "network": "simulate the time of rounds on a network, one of `fedsim list networks`",
    "partition": "which client has which samples, such as iid or 'dirichlet(0.3)'",
}  # fmt: skip
"""The flags on the page that ``--help`` prints, as far as a command has them, with the sentence
there; empty: the flag's own."""

_TITLES = {"": "settings of the runs", "strategy": "settings of the strategy, in its parentheses"}


def number(text: str) -> float:
    """A number of a flag; ``ArgumentTypeError`` shows how a percentage is written."""
    try:
        return float(text)
    except ValueError as error:
        share = text.strip().removesuffix("%").replace(".", "", 1)
        percent = text.strip().endswith("%") and share.isdecimal()
        meant = f"; write {float(text.strip()[:-1]) / 100:g}" if percent else ""
        meant = meant or comma(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a number{meant}") from error


_TYPES = {"int": int, "float": number, "str": str}


def add_settings(parser: argparse.ArgumentParser, skip: Iterable[str] = ()) -> None:
    """Adds a flag for every setting but those in ``skip``; what is not given stays None."""
    groups: dict[str, Any] = {}
    for name, setting in FLAG_SETTINGS.items():
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
                setting.flag,
                type=_TYPES[kind],
                default=None,
                help=sentence,
                metavar=kind.upper() if kind != "str" else "TEXT",
            )


def typed_settings(flags: argparse.Namespace, skip: Iterable[str] = ()) -> dict[str, Any]:
    """The settings that were given on the command line; ``UsageError`` for a value that is none."""
    values = {name: getattr(flags, name, None) for name in FLAG_SETTINGS if name not in skip}
    typed = {name: value for name, value in values.items() if value is not None}
    for name, value in typed.items():
        FLAG_SETTINGS[name].fitting(FLAG_SETTINGS[name].as_stored(value))
    check_text(typed.get("strategy", default_of("strategy")))
    _check_names(typed)
    return typed


def _check_names(typed: dict[str, Any]) -> None:
    """Refuses unknown names of tasks and methods before torch, which takes seconds, is imported."""
    name = typed.get("task", default_of("task"))
    elsewhere = ":" in name or name.endswith(".py") or "torch" in sys.modules
    if name not in LISTED and not elsewhere:
        raise UsageError(f"--task: {unknown('task', name, LISTED)}; {OWN_TASK}")
    method = typed.get("method", default_of("method"))
    methods = [one for part in split_text(method) for one in split_text(part, ";")]
    if len(methods) > 1 and all(methods):
        several = quote(f"method={','.join(methods)}")
        raise UsageError(
            f"--method is {shortened(method)}: it takes one method; of several: "
            f"fedsim sweep --vary {several}"
        )
    try:
        call = read_call(method)
    except ValueError:  # told later, with its place
        return
    try:
        check_names(call)
    except ValueError as error:
        raise UsageError(f"--method: method {shortened(method)}: {error}") from error


def parse_numbers(text: str, name: str, kind: Callable[[str], Any]) -> list[Any]:
    """The numbers of a comma-separated list; ``UsageError`` names the setting and the value.

    ``kind``: ``int`` or ``number``, which reads one of them.
    """
    try:
        read = [kind(part) for part in text.split(",")]
        if kind is not int and 0 in read and comma(text):
            raise argparse.ArgumentTypeError(comma(text)[2:])
        return read
    except (ValueError, argparse.ArgumentTypeError) as error:
        kinds = "whole numbers" if kind is int else "numbers"
        example = "1,10,100" if kind is int else "1,0.1,0.01"
        cause = f"; {error}" if isinstance(error, argparse.ArgumentTypeError) else ""
        raise UsageError(
            f"{flag(name)} is {text!r}: it takes {kinds} separated by commas, such as "
            f"{example}{cause}"
        ) from error


def folder(
    flags: argparse.Namespace,
    name: str,
    config: RunConfig,
    digest: Callable[[bool], str],
    former: str = "",
) -> Path:
    """``--out``, or a folder named for what is run.

    Versions before named runs otherwise, or folders by settings alone; such a folder goes on as
    long as nothing says that it is of other files of the user's.

    Args:
        flags: of the command.
        name: of the folder, without what follows.
        config: the run, or one of several.
        digest: of all of them: with what files hold, and without.
        former: what the version before called the folder, without what follows.
    """
    names = [name, former] if former else [name]
    flags.stop.folder = Path(flags.out) if flags.out else _named(names, config, digest)
    return flags.stop.folder


def _named(names: list[str], config: RunConfig, digest: Callable[[bool], str]) -> Path:
    """The folder's default: the first of ``names`` with the digest, or an earlier run's folder."""
    digests = [digest(files) for files in (True, False)]
    path, *earlier = [Path("fedsim-results", f"{name}-{of}") for name in names for of in digests]
    if path.exists():
        return path
    resumed = (old for old in earlier if kind_of(old) and fits(old, config.content))
    return next(resumed, path)


def add_config(parser: Any, what: str) -> None:
    """Adds ``--config``, and ``--own`` for the code that its file may name.

    ``what``: what the file holds.
    """
    parser.add_argument("--config", metavar="FILE", help=f"{what} from a TOML file")
    parser.add_argument(
        "--own",
        metavar="FILE.py:NAME",
        action="append",
        default=[],
        help="a task or strategy of your own that --config names, and whose file may be executed",
    )


def trusted(flags: argparse.Namespace) -> list[str]:
    """The code that a command names by its flags."""
    values = vars(flags)  # a command lacks some of them
    return [*filter(None, map(values.get, (*CODE, "rows"))), *flags.own]


def add_budget_of(parser: Any) -> None:
    """Adds the flag that selects the bits of a budget."""
    parser.add_argument(
        "--budget-of",
        choices=("up", "total"),
        default="up",
        help="which bits of a client: upstream, or both ways (default: up)",
    )


def add_table(parser: Any, seeds: bool = True) -> None:
    """Adds the flags of the table that a command prints, of several seeds or of one run."""
    parser.add_argument(
        "--columns",
        metavar="NAME,...",
        help="columns of the table, as it calls them or by their names in summary.csv",
    )
    if seeds:
        parser.add_argument(
            "--per-seed", action="store_true", help="a row per run in the table, not per cell"
        )


def columns(flags: argparse.Namespace, metrics: Iterable[str]) -> list[str] | None:
    """The columns that the table is to have; None: the main ones."""
    if flags.columns is None:
        return None
    from fedsim.ground.records import SCORE
    from fedsim.results.aliases import named_columns
    from fedsim.show.tables import TABLE_COLUMNS

    names = [name.strip() for name in flags.columns.split(",")]
    # A task's further scores are only known when it has been run.
    allowed = (*TABLE_COLUMNS, *(name for name in names if name.startswith(SCORE)))
    return named_columns(names, allowed, metrics, "--columns")
