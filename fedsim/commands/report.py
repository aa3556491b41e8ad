"""``fedsim report``: tables, figures and the page of a results folder, again."""

import argparse
import sys
from pathlib import Path
from typing import Any

from compressors.grammar import printable
from fedsim.commands import flags as shared
from fedsim.commands.output import add_open, open_page, print_document, records


def add_report(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "report",
        help="write tables, figures and report.html of a results folder, or of several",
        description="Writes tables, figures and report.html. With several folders, --out gets one "
        "page that shows them side by side, method by method.",
    )
    parser.add_argument("folders", metavar="DIR", nargs="+", help="what run or sweep wrote")
    parser.add_argument("--out", metavar="DIR", help="where to write (default: DIR, if it is one)")
    parser.add_argument(
        "--budget",
        metavar="BITS",
        help="compare the methods within this many bits per client, such as 2Mbit",
    )
    parser.add_argument(
        "--budget-of",
        choices=("up", "total"),
        help="which bits of a client budgets and the front count: up, or total (both ways; "
        "default: the runs' own setting, else up)",
    )
    shared.add_table(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_open(parser)
    parser.set_defaults(command=_command, extra="report")


def _command(flags: argparse.Namespace) -> int:
    from rich.console import Console

    from fedsim.network.quantities import quantity
    from fedsim.show.answer import best, best_table
    from fedsim.show.headline import print_summary
    from fedsim.show.layout import print_whole
    from fedsim.show.report import counted, read_results, summary_rows, write_tables, written_page

    folders = [Path(folder) for folder in flags.folders]
    out = None if flags.out is None else Path(flags.out)
    budget = None if flags.budget is None else quantity(flags.budget, "--budget", "bits")
    results, folder = read_results(folders, out)
    columns = shared.columns(flags, results.runs["metric_name"].dropna())
    page = written_page(results, folder, budget, columns, flags.budget_of)
    if left := write_tables(results, folder):
        print(printable(f"fedsim: {left}"), file=sys.stderr)
    budget_of = counted(results, flags.budget_of)
    if flags.json:
        answer = {} if budget is None else {"best": records(best(results, budget, budget_of))}
        print_document(
            {"out": str(page.parent), "report": str(page), "cells": summary_rows(results), **answer}
        )
    else:
        console = Console()
        print_summary(console, results.runs, columns, flags.per_seed)
        if budget is not None:
            answers = best_table(results, budget, console.width, budget_of, framing=False)
            print_whole(console, answers)
        print(printable(f"Report: {page}"))
    if flags.open:
        open_page(page)
    return 0
