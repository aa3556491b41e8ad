"""``fedsim report``: tables, figures and the page of a results folder, again."""

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsim.commands.document import print_document
from fedsim.sweeps import summarize
from fedsim.tables import summary_table


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "report", help="write tables, figures and report.html of a results folder"
    )
    parser.add_argument("folder", metavar="DIR", help="a folder that run or sweep wrote")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Writes the report and prints the table."""
    cells, page = summarize(Path(flags.folder))
    if flags.json:
        print_document({"out": flags.folder, "report": str(page), "cells": cells})
    else:
        console = Console()
        console.print(summary_table(cells, console.width))
        console.print(f"Report: {page}", highlight=False, soft_wrap=True)
    return 0
