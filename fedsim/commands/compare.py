"""``fedsim compare``: folders of runs, by paired tests over the seeds that all have."""

import argparse
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

from fedsim.commands import flags as shared
from fedsim.commands.codec import check_place
from fedsim.commands.output import print_document, records
from fedsim.ground import units
from fedsim.ground.errors import UsageError, writable

if TYPE_CHECKING:
    import pandas as pd

    from fedsim.results.ranks import Comparison
    from fedsim.show.blocks import Blocks

FEW = 5
"""With fewer seeds, a table has a remark on it."""


def add_compare(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "compare",
        help="compare methods by paired tests over their seeds",
        description="Compares the methods of folders over the tasks and seeds that all have: the "
        "mean difference of the last evaluation to the best method, its 95 % interval, paired "
        "tests corrected by Holm's method, Friedman's and Nemenyi's tests, and equivalence within "
        "a margin. Without --budget, two folders of one method each are also compared cell by "
        "cell.",
    )
    parser.add_argument("folders", metavar="DIR", nargs="+", help="a run or a sweep; several")
    parser.add_argument("--reference", metavar="METHOD", help="differences are to it, not the best")
    parser.add_argument(
        "--margin",
        metavar="METRIC",
        type=shared.number,
        help="differences below it do not matter (default: 0.01 of a fraction such as accuracy)",
    )
    parser.add_argument(
        "--test",
        choices=("t", "wilcoxon"),
        default="t",
        help="of two methods: Student's paired test, or Wilcoxon's signed ranks (default: t)",
    )
    parser.add_argument(
        "--budget",
        metavar="BITS,...",
        default="",
        help="compare within so many bits of a client, such as 2Mbit; of several, their mean",
    )
    shared.add_budget_of(parser)
    parser.add_argument("--csv", metavar="FILE", help="write every pair of methods there")
    parser.add_argument("--figure", metavar="FILE", help="draw mean ranks there: PNG, PDF or SVG")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=_command, extra="report")


def _command(flags: argparse.Namespace) -> int:
    for name in ("csv", "figure"):
        check_place(getattr(flags, name), f"--{name}")
    from rich.console import Console

    from fedsim.results.compare import by_folder, compare, without_reference
    from fedsim.show.blocks import blocks_of, compared_blocks
    from fedsim.show.layout import wrapped

    groups = by_folder(*flags.folders)
    two = len(groups) == 2 and all(
        without_reference(group.runs)["label"].nunique() < 2 for group in groups
    )
    budgets = [budget for budget in flags.budget.split(",") if budget.strip()]
    cells = compare(*flags.folders) if two and not budgets else None  # by the last evaluation
    blocks, result, cause = None, None, ""
    try:
        blocks = blocks_of(groups, budgets, flags.budget_of)
        result = compared_blocks(blocks, flags.reference, flags.margin, flags.test)
    except UsageError as error:
        # Cells may be compared where the best ones have no seeds in common, or one name.
        if cells is None or _wants_methods(flags):
            raise
        cause = str(error)
    _write(flags, result)
    if flags.json:
        print_document(_document(cells, result))
        return 0
    if cells is not None:
        _print_cells(cells)
    if result is not None and blocks is not None and (cells is None or _wants_methods(flags)):
        _print_methods(result, blocks)
    answer = result.answer if result is not None else f"No answer: {cause}."
    print(wrapped(answer, Console().width))
    return 0


def _wants_methods(flags: argparse.Namespace) -> bool:
    names = ("reference", "margin", "budget", "csv", "figure")
    return flags.test != "t" or any(getattr(flags, name) not in (None, "") for name in names)


def _write(flags: argparse.Namespace, result: "Comparison | None") -> None:
    if result is not None and flags.csv:
        from fedsim.ground.files import write_text
        from fedsim.results.neutral import csv_text

        with writable("--csv", flags.csv):
            write_text(flags.csv, csv_text(result.pairs))
    if result is not None and flags.figure:
        from fedsim.show.plot import critical_difference, save
        from fedsim.show.plot.paper import without_rc

        with without_rc():
            save(critical_difference(result), flags.figure)


def _document(cells: "pd.DataFrame | None", result: "Comparison | None") -> dict[str, Any]:
    """What ``--json`` prints; without ``cells`` where there are no two methods alone."""
    document: dict[str, Any] = {} if cells is None else {"cells": records(cells)}
    if result is not None:
        document |= {
            "answer": result.answer,
            "reference": result.reference,
            "blocks": result.blocks,
            "left_out": result.left_out,
            "metric_name": result.metric_name,
            "margin": result.margin,
            "test": result.test,
            "friedman_chi2": result.chi2,
            "friedman_p_value": result.chi2_p_value,
            "iman_davenport_f": result.f_value,
            "iman_davenport_p_value": result.f_p_value,
            "critical_difference": result.critical_difference,
            "methods": records(result.methods),
            "pairs": records(result.pairs),
        }
    return document


def _print_methods(result: "Comparison", blocks: "Blocks") -> None:
    from rich.console import Console

    from fedsim.show.layout import print_whole, text_table

    console = Console()
    words = (
        f"Blocks (task and seed) that all methods have: {result.blocks}. Difference: to "
        f"{result.reference}, with its paired interval of 95 % (Student's t, uncorrected). "
        f"p-value: {'paired t-test' if result.test == 't' else 'Wilcoxon'}, corrected for "
        f"all pairs ({len(result.pairs)}) by Holm. Rank: the mean, 1 is the best; ranks that "
        f"differ by less than {result.critical_difference:.3g} cannot be told apart (Nemenyi)."
    )
    if not isnan(result.chi2):
        words += (
            f" Friedman: chi2 {result.chi2:.3g}, p {result.chi2_p_value:.2g}; Iman-Davenport: "
            f"F {result.f_value:.3g}, p {result.f_p_value:.2g}."
        )
    if (blocks.cells["cells"] > 1).any():
        words += " Each method counts with its best cell (n, p), chosen by the same seeds."
    if result.left_out:
        words += f" Left out: {result.left_out} blocks that some methods lack."
    if blocks.failed:
        words += f" Failed runs count nowhere: {blocks.failed}."
    title = f"{len(result.methods)} methods by the last evaluation{_within(blocks)}"
    texts = [_method(row, result, blocks) for row in result.methods.to_dict("records")]
    layout: Any = {"names": ["method"], "words": ["better"], "title": title, "caption": words}
    print_whole(console, text_table(texts, console.width, **layout))


def _within(blocks: "Blocks") -> str:
    """The budgets of a comparison; empty without one."""
    budgets = sorted({*blocks.cells["budget"]})
    if isinf(budgets[-1]):
        return ""
    ways = "up" if blocks.budget_of == "up" else "both ways"
    mean = " (mean)" if len(budgets) > 1 else ""
    return f" within {', '.join(map(units.bits, budgets))} {ways} of a client{mean}"


def _method(row: dict[str, Any], result: "Comparison", blocks: "Blocks") -> dict[str, str]:
    """The row of a method; n and p are empty where tasks or budgets have unlike best cells."""
    name, cells = result.metric_name, blocks.cells[blocks.cells["label"] == row["label"]]
    has_one_cell = len(cells[["temporal", "gradient"]].drop_duplicates()) == 1
    better = {"": "cannot be told", "yes": "yes", "no": "no"}[row["better"]]
    better += ", equivalent" if row["equivalent"] else ""
    is_reference = row["label"] == result.reference
    difference = units.averaged(row["difference"], row["half"], name)
    sign = "+" if row["difference"] > 0 else ""
    return {
        "method": row["label"],
        "n": str(cells["temporal"].iloc[0]) if has_one_cell else "",
        "p": units.plain(cells["gradient"].iloc[0]) if has_one_cell else "",
        name: units.score(row["metric"], name),
        "up" if blocks.budget_of == "up" else "bits": units.bits(cells["bits"].mean()),
        "difference": "" if is_reference else f"{sign}{difference}",
        "rank": f"{row['rank']:.2f}",
        "p-value": "" if isnan(row["p_corrected"]) else f"{row['p_corrected']:.2g}",
        "better": "reference" if is_reference else better,
    }


def _print_cells(table: "pd.DataFrame") -> None:
    from rich.console import Console

    from fedsim.show.layout import print_whole, text_table

    console = Console()
    first, other = table["method"].iloc[0], table["other_method"].iloc[0]
    title = f"A: {first}, B: {other}, by the last evaluation"
    words = (
        "A and B are means over seeds, and A - B has its interval of 95 %. Up and total are bits: "
        "payloads of a client upstream, and all that travelled both ways, with framing and the "
        "first model. Neither is better where the difference cannot be told at 5 %."
    )
    if len(table) > 1:
        words += f" p-values are corrected for {len(table)} cells (Holm)."
    if table["seeds"].min() < FEW:
        words += f" (?): fewer than {FEW} seeds, which bear no claim; a difference may be missed."
    if any(lost := (table["failed"].sum(), table["other_failed"].sum())):
        words += f" Failed runs count nowhere: {lost[0]} of A, {lost[1]} of B."
    if table["p_corrected"].isna().any():
        words += (
            " Without a p-value: seeds whose differences are all the same, or not finite, say "
            "nothing of chance."
        )
    texts = [_texts(cell) for cell in table.to_dict("records")]
    layout: Any = {"words": ["better"], "keys": 3, "title": title, "caption": words}
    print_whole(console, text_table(texts, console.width, **layout))


def _texts(cell: dict[str, Any]) -> dict[str, str]:
    """A cell's row; empty is what is not known, such as a share of no bits."""

    def share(bits: str) -> str:
        return units.fraction(cell[f"other_{bits}"] / cell[bits] if cell[bits] else None)

    name, sign = cell["metric_name"], "+" if cell["difference"] > 0 else ""
    better = {"first": "A", "other": "B"}.get(cell["verdict"], "neither")
    return {
        "n": str(cell["temporal"]),
        "p": units.plain(cell["gradient"]),
        "seeds": str(cell["seeds"]),
        "A": units.score(cell["metric"], name),
        "B": units.score(cell["other_metric"], name),
        "A - B": sign + units.averaged(cell["difference"], cell["half"], name),
        "p-value": "" if isnan(cell["p_corrected"]) else f"{cell['p_corrected']:.2g}",
        "up B / A": share("up_bits"),
        "total B / A": share("total_bits"),
        "better": f"{better} (?)" if cell["seeds"] < FEW else better,
    }
