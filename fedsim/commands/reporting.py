"""``fedsim report``: tables, figures and the page of a results folder, again."""

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsim.commands.document import print_document
from fedsim.layout import print_whole
from fedsim.results import load
from fedsim.sweeps import summarize
from fedsim.tables import summary_table


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "report",
        help="write tables, figures and report.html of a results folder, or of several",
        description="Writes tables, figures and report.html. Several folders stand side by side "
        "on one page, method by method, in the folder --out.",
    )
    parser.add_argument("folders", metavar="DIR", nargs="+", help="what run or sweep wrote")
    parser.add_argument("--out", metavar="DIR", help="where to write (default: into the one DIR)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Writes the report and prints the table."""
    folders = [Path(folder) for folder in flags.folders]
    out = None if flags.out is None else Path(flags.out)
    cells, page = summarize(*folders, out=out)
    if flags.json:
        print_document({"out": str(page.parent), "report": str(page), "cells": cells})
    else:
        console = Console()
        print_whole(console, summary_table(load(*folders).runs, console.width))
        console.print(f"Report: {page}", highlight=False, soft_wrap=True)
    return 0
