"""The command line: ``python -m fedsim COMMAND``."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from fedsim.commands import (
    codec,
    experiment,
    listing,
    measuring,
    reporting,
    running,
    sweeping,
    theory,
)
from fedsim.config import CHECKPOINT_SECONDS
from fedsim.errors import RunFailed, UsageError

COMMANDS = (sweeping, running, reporting, listing, codec, measuring, experiment, theory)
"""Each has ``add(subparsers)``, which sets ``command`` to a function of the parsed flags."""

DONE, SOME_FAILED, BAD_USAGE = 0, 1, 2

_EPILOG = """exit codes: 0 done, 1 some runs failed, 2 bad usage
With --json a command prints one JSON document on stdout and nothing else."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are two lines, without the list of all flags.

    A command's own parser refuses the flags that it does not know, and names the nearest: argparse
    would leave them to the parser of all commands, whose help does not list them.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """See ``argparse``; nothing is left over."""
        found, extra = super().parse_known_args(args, namespace)
        if extra:
            flags = [name for name in self._option_string_actions if name.startswith("--")]
            near = [get_close_matches(word.split("=")[0], flags, n=1) for word in extra]
            meant = ", ".join(dict.fromkeys(match[0] for match in near if match))
            asked = f"; did you mean {meant}?" if meant else ""
            self.error(f"unrecognized arguments: {' '.join(extra)}{asked}")
        return found, extra

    def error(self, message: str) -> NoReturn:
        """See ``argparse``: exits with code 2."""
        self.exit(BAD_USAGE, f"{self.prog}: {message}\n`{self.prog} --help` says what there is\n")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(
        prog="fedsim",
        description="Federated learning with real encoded messages: how few bits still learn?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add(commands)
    for command in commands.choices.values():  # after the command too
        command.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    flags = parser().parse_args(arguments)
    try:
        return int(flags.command(flags))
    except (UsageError, RunFailed) as error:
        if flags.debug:
            traceback.print_exc()
        print(f"fedsim: {error}", file=sys.stderr)
        return BAD_USAGE if isinstance(error, UsageError) else SOME_FAILED
    except KeyboardInterrupt:
        words = "stopped; the same command goes on, a run from its last checkpoint"
        print(f"fedsim: {words} (one every {CHECKPOINT_SECONDS:g} s)", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # as `| head` wishes
        return DONE
    except Exception as error:
        if flags.debug:
            raise
        print(f"fedsim: {type(error).__name__}: {error} (--debug shows where)", file=sys.stderr)
        return SOME_FAILED
