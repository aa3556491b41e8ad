"""``fedsim show``: a figure of results, or of who holds which labels, as a file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from compressors.grammar import printable
from fedsim.commands import flags as shared
from fedsim.ground.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = {
    "curves": "how runs learn, a line per cell, with the seeds' range",
    "budget": "the best method within each bit budget",
    "pareto": "the last metric against bits, and the front",
    "matrix": "a value over the plane of delay n and fraction p",
    "bandwidths": "the time to a metric over bandwidths",
    "partition": "which client holds which labels",
}
"""Figures, and what each shows."""

_OF_DATA = ("task", "clients", "partition", "seed", "validation", "data", "download")
"""The settings by which samples are dealt."""


def add_show(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "show",
        help="draw one figure of results, or of which client holds which labels",
        description="Draws one figure, for a screen or a column of a paper, as PNG, PDF or SVG.",
    )
    figures = parser.add_subparsers(metavar="FIGURE", required=True)
    for name, sentence in FIGURES.items():
        one = figures.add_parser(name, help=sentence, description=f"Draws {sentence}.")
        if name == "partition":
            shared.add_settings(one, skip={*shared.FLAG_SETTINGS} - {*_OF_DATA})
        else:
            one.add_argument("folders", metavar="DIR", nargs="+", help="what run or sweep wrote")
        if name in ("curves", "budget", "pareto"):
            one.add_argument(
                "--bits",
                choices=("wire", "content"),
                default="wire",
                help="which bits: whole payloads, or what papers count",
            )
        if name in ("budget", "pareto"):
            shared.add_budget_of(one)
        if name == "curves":
            one.add_argument(
                "--x",
                type=_along,
                choices=("iteration", "up_bits"),
                default="iteration",
                help="what is along the axis (default: iteration)",
            )
        if name == "matrix":
            one.add_argument(
                "--value",
                metavar="NAME",
                default="metric",
                help="a column, as tables call it or as in summary.csv (default: metric)",
            )
            one.add_argument("--method", metavar="TEXT", help="of several methods, this one")
        if name == "bandwidths":
            one.add_argument(
                "--target",
                metavar="METRIC",
                type=shared.number,
                required=True,
                help="the metric to come to, such as 0.9",
            )
            one.add_argument(
                "--network",
                metavar="NETWORK",
                default="up=1Mbit",
                help="uses this network's latency, compute time and server links, as "
                "`fedsim price` does",
            )
        one.add_argument(
            "--style",
            choices=("screen", "paper"),
            default="screen",
            help="paper: 3.4 inch wide, 8 points, no title (default: screen)",
        )
        one.add_argument("--figsize", metavar="W,H", help="width and height in inches")
        one.add_argument("--out", metavar="FILE", help="the file (default: FIGURE.png)")
        one.set_defaults(command=_command, figure=name, extra="report")


def _along(name: str) -> str:
    """The column of an axis that a name is of, or the name."""
    from fedsim.results.aliases import column_of

    return column_of(name, ("iteration", "up_bits"))


def _command(flags: argparse.Namespace) -> int:
    size = None
    if flags.figsize is not None:
        inches = shared.parse_numbers(flags.figsize, "figsize", shared.number)
        if len(inches) != 2 or not all(0 < one <= 100 for one in inches):
            raise UsageError(
                f"--figsize is {flags.figsize!r}: it takes two numbers of inches, "
                "above 0 and up to 100, such as 3.4,2.5"
            )
        size = tuple(inches)
    how: dict[str, Any] = {"style": flags.style, "figsize": size}
    from fedsim.show.plot import save
    from fedsim.show.plot.paper import without_rc

    out = flags.out or f"{flags.figure}.png"
    with without_rc():
        save(_partition(flags, how) if flags.figure == "partition" else of_results(flags, how), out)
    print(printable(f"Written: {out}"))
    return 0


def _partition(flags: argparse.Namespace, how: dict[str, Any]) -> Axes:
    settings = shared.typed_settings(flags)
    from fedsim.federation import ClientData
    from fedsim.settings.config import run_from_flat
    from fedsim.show.plot import partition

    config = run_from_flat(settings)
    held = ClientData.of(config).held()
    held.attrs["title"] = f"{config.plan.task.name}: {config.plan.partition}, seed {config.seed}"
    return partition(held, **how)


def of_results(flags: argparse.Namespace, how: dict[str, Any]) -> Axes:
    """A figure of the runs in folders."""
    from fedsim.results.load import load_results
    from fedsim.show import plot

    results = load_results(*flags.folders)
    if flags.figure == "bandwidths":
        from fedsim.network.spec import parse
        from fedsim.show.times import times_over_bandwidths

        times = times_over_bandwidths(results, parse(flags.network), flags.target)
        return plot.over_bandwidths(times, results.rounds, flags.target, **how)
    if flags.figure == "matrix":
        return plot.matrix(results.runs, flags.value, flags.method, **how)
    if flags.figure == "pareto":
        return plot.pareto(results.runs, flags.bits, flags.budget_of, **how)
    if flags.figure == "budget":
        return plot.budget(results.done_rounds, bits=flags.bits, budget_of=flags.budget_of, **how)
    return plot.curves(results.done_rounds, flags.x, bits=flags.bits, **how)
