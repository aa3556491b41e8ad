"""The command line: ``fedsim COMMAND``."""

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NoReturn

from compressors.grammar import printable
from compressors.usercode import located
from fedsim.commands.codec import add_codec
from fedsim.commands.compare import add_compare
from fedsim.commands.completion import add_completion
from fedsim.commands.deploy import add_deploy
from fedsim.commands.doctor import add_doctor
from fedsim.commands.experiment import add_experiment
from fedsim.commands.flags import FLAG_SETTINGS
from fedsim.commands.listing import add_list
from fedsim.commands.measure import add_measure
from fedsim.commands.new import add_new
from fedsim.commands.price import add_price
from fedsim.commands.report import add_report
from fedsim.commands.run import add_run
from fedsim.commands.schema import add_schema
from fedsim.commands.search import add_search
from fedsim.commands.show import add_show
from fedsim.commands.signals import SIGNAL_STATUSES, Stop, discard_unread
from fedsim.commands.sweep import add_sweep
from fedsim.commands.theory import add_theory
from fedsim.commands.verify import add_verify
from fedsim.ground.errors import RunFailed, UsageError, unknown
from fedsim.ground.extras import check_extra, named_extra
from fedsim.ground.sigchld import children_waited
from fedsim.ground.terminal import every_letter_shown, wrap_words

COMMANDS = {
    "search": add_search, "sweep": add_sweep, "run": add_run, "deploy": add_deploy,
    "report": add_report, "show": add_show, "compare": add_compare, "verify": add_verify,
    "price": add_price, "list": add_list, "compress": add_codec, "decompress": add_codec,
    "measure": add_measure, "experiment": add_experiment, "new": add_new, "schema": add_schema,
    "theory": add_theory, "doctor": add_doctor, "completion": add_completion,
}  # fmt: skip
"""Each is called with the subparsers, and sets ``command`` to a function of the parsed flags."""

DONE, SOME_FAILED, BAD_USAGE = 0, 1, 2

_NUMBERS = {int: "a whole number", float: "a number"}
"""The words for a type in the message on a text that is not of it."""

_ALIKE = 0.8
"""The similarity of two flags, at most 1, from which on one counts as the other mistyped."""

ELSEWHERE = {
    "--epochs": "--local-epochs E, or --temporal n local iterations",
    "--num-rounds": "--rounds R",
    "--num-clients": "--clients N",
    "--clients-per-round": "--cohort K",
    "--fraction-fit": "--cohort K of --clients N",
    "--fraction-train": "--cohort K of --clients N",
    "--participation": "--cohort K of --clients N",
    "--learning-rate": "--lr",
    "--local-steps": "--temporal n",
    "--dataset": "--task; `fedsim list tasks` prints them",
    "--model": "--task; `fedsim list tasks` prints them",
    "--algorithm": "--strategy; `fedsim list strategies` prints them",
    "--aggregator": "--strategy; `fedsim list strategies` prints them",
    "--compressor": "--method; `fedsim list methods` prints them",
    "--compression": "--method; `fedsim list methods` prints them",
    "--sparsity": "--gradient p, the share of entries that travel",
    "--alpha": "--partition 'dirichlet(ALPHA)'",
    "--gpu": "--device cuda",
    "--num-gpus": "--device cuda",
    "--num-workers": "--workers",
    "--output": "--out DIR",
    "--quiet": "--json, or 2> FILE for the progress",
    "--verbose": "--debug before the command, for tracebacks",
}
"""Flags of other simulators and programs: what they are here."""

_EPILOG = """exit codes: 0 done, 1 some runs failed, 2 bad usage
130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP
With --json a command prints one JSON document on stdout and nothing else."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are two lines, without the list of all flags.

    A command's own parser refuses the flags that it does not know, and names the nearest: argparse
    would leave them to the parser of all commands, whose help does not list them. Flags are whole
    words: ``--seed`` of another command is not the beginning of ``--seeds``.

    Args:
        main: the flags of the page that ``--help`` prints, with a sentence or their own help,
            where ``--help-all`` prints all flags; empty: ``--help`` prints all.
        options: as ``argparse`` takes them.
    """

    def __init__(self, main: Mapping[str, str] = MappingProxyType({}), **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)
        self.main, self.subparsers = main, dict[str, Parser]()
        if main:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all flags")

    def add_subparsers(self, **options: Any) -> Any:
        """See ``argparse``; the parsers that are added are ``subparsers`` by name."""
        commands = super().add_subparsers(**options)
        self.subparsers = commands.choices
        return commands

    def add_flags_of_all(self) -> None:
        """Allows ``--debug`` and ``--rows`` after the command, and after its own commands."""
        unlisted: Any = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        self.add_argument("--debug", action="store_true", **unlisted)
        self.add_argument("--rows", **unlisted)
        for parser in self.subparsers.values():
            parser.add_flags_of_all()

    def format_help(self) -> str:
        """See ``argparse``; the page of the main flags, where the command has one."""
        if not self.main:
            return super().format_help()
        page = self._get_formatter()
        page.add_usage("%(prog)s [--FLAG VALUE ...]", [], [])
        page.add_text(self.description)
        for group in self._action_groups:
            page.start_section((group.title or "").partition(" (")[0])
            for action in group._group_actions:
                if action.dest in self.main:
                    line = copy(action)
                    line.help = self.main[action.dest] or action.help
                    page.add_argument(line)
            page.end_section()
        listed = [a for a in self._actions if a.help != argparse.SUPPRESS]
        more = sum(action.dest not in self.main for action in listed)
        page.add_text(f"`{self.prog} --help-all` shows {more} more flags.")
        return page.format_help()

    def format_full_help(self) -> str:
        """The page of all flags."""
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """See ``argparse``; nothing is left over."""
        words = list(sys.argv[1:] if args is None else args)
        # a flag as it is listed: --batch_size=8 is --batch-size=8
        hyphens = [re.sub("^--[^=]*", lambda m: m[0].replace("_", "-"), word) for word in words]
        parsed, extra = super().parse_known_args(hyphens, namespace)
        if extra:
            flags = {setting.flag for setting in FLAG_SETTINGS.values()}
            of_run = dict.fromkeys(name for word in extra if (name := word.split("=")[0]) in flags)
            hint = ""
            names = [word.split("=")[0] for word in extra]
            if equivalents := dict.fromkeys(ELSEWHERE[name] for name in names if name in ELSEWHERE):
                hint = f"; in fedsim: {', '.join(equivalents)}"
            elif meant := self._listed(words, extra) or self._nearest(extra, _ALIKE):
                hint = f"; did you mean {meant}?"
            elif of_run:
                hint = f"; `fedsim run` takes {', '.join(of_run)}, and this command does not"
            elif meant := self._nearest(extra):
                hint = f"; did you mean {meant}?"
            self.error(f"unrecognized arguments: {' '.join(extra)}{hint}")
        return parsed, extra

    def _nearest(self, extra: list[str], cutoff: float = 0.6) -> str:
        """The known flags that are nearest to the unknown ones."""
        flags = [name for name in self._option_string_actions if name.startswith("--")]
        near = [get_close_matches(word.split("=")[0], flags, n=1, cutoff=cutoff) for word in extra]
        return ", ".join(dict.fromkeys(match[0] for match in near if match))

    def _listed(self, words: list[str], extra: list[str]) -> str:
        """The flag with commas, for values of a list with blanks between: ``--temporal 1 10``."""
        for flag, action in self._option_string_actions.items():
            if flag in words and ",..." in str(action.metavar):
                following = words[words.index(flag) + 1 :]
                values = list(takewhile(lambda word: not word.startswith("--"), following))
                if len(values) > 1 and values[1:] == extra:
                    return f"{flag} {','.join(word.strip(',') for word in values)}"
        return ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """See ``argparse``; the nearest word first."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(None, unknown(_named(action), value, action.choices))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """See ``argparse``; a number that is none is refused in the words of other settings."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in _NUMBERS:
                raise
            message = f"{_named(action)} is {arg_string!r}: give {_NUMBERS[action.type]}"
            raise argparse.ArgumentError(None, message) from None

    def error(self, message: str) -> NoReturn:
        """See ``argparse``: exits with code 2."""
        refusal = wrap_words(f"{self.prog}: {printable(message)}", sys.stderr)
        self.exit(BAD_USAGE, f"{refusal}\nsee `{self.prog} --help`\n")


def _named(action: argparse.Action) -> str:
    return (*action.option_strings, str(action.metavar or action.dest).lower())[0]


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        assert isinstance(parser, Parser)
        print(parser.format_full_help(), end="")
        parser.exit()


class _Version(argparse.Action):
    """Prints the installed version, which is looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from fedsim.runs.environment import described

        print(f"fedsim {described()}")
        parser.exit()


def _command_of(words: Sequence[str]) -> str:
    """The name of the command: the first word behind flags and ``--rows FILE``; else empty."""
    others = iter(words)
    for word in others:
        if word == "--rows":
            next(others, None)
        elif not word.startswith("-"):
            return word
    return ""


def parser(words: Sequence[str] = ()) -> Parser:
    """The parser of all commands, or of the one alone that the ``words`` of a command line name."""
    name = _command_of(words)
    one = name in COMMANDS and name != "completion"  # which lists the flags of all
    top = Parser(
        prog="fedsim",
        description="Federated learning with real encoded messages: how few bits still learn?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.set_defaults(extra=None)
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and stop")
    top.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    top.add_argument(
        "--rows",
        metavar="FILE.py",
        help="a file that adds methods of your own to the catalogue, "
        "or a folder of such: `fedsim --rows mine.py run --method mine`",
    )
    commands = top.add_subparsers(metavar="COMMAND", dest="subcommand", required=True)
    for add_command in [COMMANDS[name]] if one else dict.fromkeys(COMMANDS.values()):
        add_command(commands)
    if not one:
        commands.choices["completion"].set_defaults(top=top, parsers=commands.choices)
    for command in top.subparsers.values():
        command.add_flags_of_all()
    return top


def script() -> NoReturn:
    """``main`` as a process of its own, which a signal ends without more tidying up."""
    code = main()
    if code in SIGNAL_STATUSES:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    with every_letter_shown():
        return _carried_out(arguments)


def _carried_out(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else [*arguments]
    flags = parser(words).parse_args(words)
    stop = flags.stop = Stop()
    try:
        with stop.answered(), children_waited(), named_extra():
            if flags.extra is not None:
                check_extra(flags.extra, f"fedsim {flags.subcommand}")
            if flags.rows is not None:  # the only file that adds methods: no folder of results does
                from compressors import add_rows

                try:
                    add_rows(flags.rows)
                except ValueError as error:
                    raise UsageError(f"--rows: {error}") from error
            return int(flags.command(flags))
    except (UsageError, RunFailed) as error:
        if flags.debug:
            import traceback

            traceback.print_exc()
        print(wrap_words(printable(f"fedsim: {error}"), sys.stderr), file=sys.stderr)
        return BAD_USAGE if isinstance(error, UsageError) else SOME_FAILED
    except KeyboardInterrupt:
        return stop.status
    except Exception as error:
        if isinstance(error, BrokenPipeError) and discard_unread(sys.stdout.fileno()):
            return DONE  # as `| head` wishes
        if flags.debug:
            raise
        message = printable(f"fedsim: {located(error)}") + " (--debug shows where)"
        print(wrap_words(message, sys.stderr), file=sys.stderr)
        return SOME_FAILED
