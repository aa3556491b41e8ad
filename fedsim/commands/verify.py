"""``fedsim verify``: whether a folder of results holds what its runs did."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compressors.grammar import printable
from fedsim.commands.output import print_document


def add_verify(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "verify",
        help="check a results folder: its sums, its messages, its model, its rounds",
        description="Checks the sums and digests of every run of a folder, its settings, the score "
        "of its model, and the tables and the page that were made of the runs. With kept messages "
        "(--keep-payloads) it also replays the run from them, without training. With --rerun it "
        "trains rounds again. It writes nothing, downloads nothing, and opens no file but those "
        "in the folder and those that you name. Exit code 1: something differs.",
    )
    parser.add_argument("folder", metavar="DIR", help="what run, sweep or search wrote")
    parser.add_argument(
        "--rerun",
        metavar="ROUNDS",
        nargs="?",
        const="all",
        help="rounds to run again and compare: all, the first ones (5), or a range (6-8)",
    )
    parser.add_argument(
        "--own",
        metavar="FILE.py:NAME",
        action="append",
        default=[],
        help="a task, strategy or sampler of your own that the runs name, and whose file may be "
        "executed",
    )
    parser.add_argument("--data", metavar="DIR", help="folder of the data sets of the runs")
    parser.add_argument(
        "--file",
        metavar="FILE",
        action="append",
        default=[],
        help="weights, a network or a trace that the runs name, and that may be opened",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=_command, extra="report")


def _command(flags: argparse.Namespace) -> int:
    """Says a line about every run, about the tables made of them, and what was not checked.

    Returns 1 where something differs.
    """

    from rich.console import Console
    from rich.progress import track

    from fedsim.engines.flowerlog import flower_quiet
    from fedsim.runs.verify.outputs import verify_outputs
    from fedsim.runs.verify.permissions import Permissions
    from fedsim.runs.verify.rerun import Span
    from fedsim.runs.verify.verify import NOT_COMPARED, folders, verify

    span, place = None if flags.rerun is None else Span.parse(flags.rerun), Path(flags.folder)
    runs, console = folders(place), Console(stderr=True)
    shown = track(
        runs,
        "verifying",
        console=console,
        transient=True,
        disable=flags.json or not console.is_terminal,
    )
    verdicts = []
    for folder in shown:
        with flower_quiet():
            verdicts.append(verify(folder, span, flags.own, flags.data, flags.file))
        if not flags.json:
            print(one_line(verdicts[-1].line))
    table_verdicts = verify_outputs(place, Permissions(flags.own, flags.data, flags.file))
    wrong = sum(bool(verdict.failures) for verdict in verdicts)
    altered = any(verdict.failures for verdict in table_verdicts)
    of_tables = [what for one in table_verdicts for what in one.unchecked]
    unchecked = [*counted_notes([one.unchecked for one in verdicts]), *of_tables, NOT_COMPARED]
    if flags.json:
        print_document(
            {
                "runs": [vars(verdict) for verdict in verdicts],
                "differ": wrong,
                "tables": [vars(verdict) for verdict in table_verdicts],
                "unchecked": unchecked,
            }
        )
    else:
        for verdict in table_verdicts:
            if verdict.looked or verdict.failures:
                print(one_line(verdict.line))
        if len(runs) > 1:
            but = "; the folder's tables do not agree with the runs" if altered else ""
            print(f"{len(runs) - wrong} of {len(runs)} runs agree with what they recorded{but}")
        print(one_line(f"not checked: {'; '.join(unchecked)}"))
    return int(wrong > 0 or altered)


def one_line(text: str) -> str:
    r"""Text of a stranger's for a terminal, on one line: a line break in it is an escape.

    Example:
        >>> one_line("n1\nn2: files agree")
        'n1\\nn2: files agree'
    """
    return printable(text).replace("\n", "\\n")


def counted_notes(unchecked: Sequence[Sequence[str]]) -> list[str]:
    """The checks that were not made, each once, with the number of runs that it is of.

    Example:
        >>> counted_notes([["a"], ["a", "b"]])
        ['a (2 of 2)', 'b (1 of 2)']
        >>> counted_notes([["a"]])
        ['a']
    """
    counts, of_all = Counter(what for notes in unchecked for what in notes), len(unchecked)
    return [f"{x} ({count} of {of_all})" if of_all > 1 else x for x, count in counts.items()]
