"""``fedsim verify``: whether a folder of results holds what its runs did."""

import argparse
from pathlib import Path
from typing import Any

from compressors.printing import printable
from fedsim.commands.document import print_document


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "verify",
        help="check a results folder: its sums, its messages, its model, its rounds",
        description="Checks the sums and digests of every run of a folder. With kept messages "
        "(--keep-payloads) it also rebuilds the model from them, round by round. With --rerun it "
        "trains rounds again. It changes nothing in the folder. Exit code 1: something differs.",
    )
    parser.add_argument("folder", metavar="DIR", help="what run, sweep or search wrote")
    parser.add_argument(
        "--rerun", metavar="ROUNDS", nargs="?", const="all",
        help="rounds to run again and compare: all, the first ones (5), or a range (6-8)",
    )  # fmt: skip
    parser.add_argument(
        "--own", metavar="FILE.py:NAME", action="append", default=[],
        help="a task or strategy of your own that the runs name, and whose file may be executed",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Says a line about every run; returns 1 where one differs."""
    
    from rich.console import Console
    from rich.progress import track

    from fedsim.engines.flowerlog import flower_quiet
    from fedsim.runs.verify.rerun import Span
    from fedsim.runs.verify.verify import folders, verify

    span = None if flags.rerun is None else Span.parse(flags.rerun)
    runs, told = folders(Path(flags.folder)), Console(stderr=True)
    shown = track(
        runs, "verifying", console=told, transient=True, disable=flags.json or not told.is_terminal
    )
    verdicts = []
    for folder in shown:
        with flower_quiet():
            verdicts.append(verify(folder, span, flags.own))
        if not flags.json:
            print(printable(verdicts[-1].line))
    wrong = sum(bool(verdict.failures) for verdict in verdicts)
    if flags.json:
        print_document({"runs": [vars(verdict) for verdict in verdicts], "differ": wrong})
    elif len(runs) > 1:
        print(f"{len(runs) - wrong} of {len(runs)} runs agree with what they recorded")
    return int(wrong > 0)
