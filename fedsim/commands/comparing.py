"""``fedsim compare``: two folders of runs, cell by cell, by a paired test over seeds."""

import argparse
from math import isnan
from typing import Any

from fedsim.commands.document import print_document, records
from fedsim.ground import units

HEADINGS = (
    "n", "p", "seeds", "A", "B", "A - B", "p-value", "up B / A", "total B / A", "better",
)  # fmt: skip

FEW = 5
"""Seeds below which a table says that they are few."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "compare",
        help="compare two folders of runs by a paired test over their seeds",
        description="Compares the runs of two folders, each of one method, cell by cell: the mean "
        "difference of the last evaluation over the seeds that both have, its 95 % interval, "
        "and a paired test, corrected for the number of cells by Holm's method.",
    )
    parser.add_argument("first", metavar="A", help="a run, or a sweep of one method")
    parser.add_argument("other", metavar="B", help="what it is compared with")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Prints the table."""
    from rich.console import Console

    from fedsim.results.compare import compare
    from fedsim.show.layout import Column, laid, print_whole

    table = compare(flags.first, flags.other)
    if flags.json:
        print_document({"cells": records(table)})
        return 0
    console = Console()
    first, other = table["method"].iloc[0], table["other_method"].iloc[0]
    title = f"A: {first}, B: {other}, by the last evaluation"
    words = (
        "A and B are means over seeds, and A - B has its interval of 95 %. Up and total are bits: "
        "of a client upstream, and of all both ways. Neither is better where the difference "
        "cannot be told at 5 %."
    )
    if len(table) > 1:
        words += f" p-values are corrected for {len(table)} cells (Holm)."
    if table["seeds"].min() < FEW:
        words += f" Fewer than {FEW} seeds: a difference may be missed."
    if any(lost := (table["failed"].sum(), table["other_failed"].sum())):
        words += f" Failed runs count nowhere: {lost[0]} of A, {lost[1]} of B."
    if table["p_corrected"].isna().any():
        words += (
            " Without a p-value: seeds whose differences are all the same, or not finite, say "
            "nothing of chance."
        )
    columns = [Column(head, "words" if head == "better" else "number") for head in HEADINGS]
    rows = [(_texts(cell), "") for cell in table.to_dict("records")]
    print_whole(console, laid(columns, rows, console.width, keys=3, title=title, caption=words))
    return 0


def _texts(cell: dict[str, Any]) -> list[str]:
    """A cell's row; empty is what is not known, such as a share of no bits."""
    shares = (
        units.fraction(cell[f"other_{bits}"] / cell[bits] if cell[bits] else None)
        for bits in ("up_bits", "total_bits")
    )
    name, sign = cell["metric_name"], "+" if cell["difference"] > 0 else ""
    return [
        str(cell["temporal"]), units.plain(cell["gradient"]), str(cell["seeds"]),
        units.score(cell["metric"], name), units.score(cell["other_metric"], name),
        sign + units.averaged(cell["difference"], cell["half"], name),
        "" if isnan(cell["p_corrected"]) else f"{cell['p_corrected']:.2g}", *shares,
        {"first": "A", "other": "B"}.get(cell["verdict"], "neither"),
    ]  # fmt: skip
