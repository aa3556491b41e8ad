"""Learning curves."""

from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim.show.curves import Bits, Series, bits_column, curve_lines
from fedsim.show.inputs import check_frame
from fedsim.show.plot.canvas import (
    LINES,
    drawing,
    finish,
    logarithmic,
    marker,
    plain,
    title,
    within,
)
from fedsim.show.style import LABELS, Look, cell_label, label, looks, metric_name


def curves(
    rounds: pd.DataFrame, x: Literal["iteration", "up_bits"] = "iteration", y: str = "metric",
    name: str | None = None, bits: Bits = "wire",
) -> Figure:  # fmt: skip
    """Learning curves, a line per cell, the mean over its seeds, with the seeds' range as a band.

    Of one method, colour tells p and line style n. Of several, colour and marker tell the method,
    line style tells n, and paler lines send fewer entries.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows.
        x: "iteration": local iterations; "up_bits": bits that a client of every round has sent so
            far (the mean over the cohort of each round), on a logarithmic axis.
        y: a column of `rounds`; rounds where it is NaN (no evaluation) are passed over.
        name: what to call `y`; default: the runs' metric, or the column.
        bits: which bits: "wire", whole messages; or "content", as papers count: positions, values
            and side information, without headers and without BatchNorm's statistics.

    Raises:
        UsageError: an unknown `x`, `y` or `bits`, nothing to draw, or `rounds` is not such a frame.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        curves(results.rounds, "up_bits").savefig("curves.pdf")
    """
    check_frame(rounds, "rounds", "curves()")
    lines = curve_lines(rounds, x, y, bits)
    figure = drawing(7.2 if len(lines) <= 8 else 8.6, 4.4)
    axes = figure.add_subplot()
    styles = looks([line.cell for line in lines])
    for line in lines:
        _line(axes, line, styles[line.cell])
    if x == "up_bits":
        logarithmic(axes)
    shown = name or (metric_name(rounds) if y == "metric" else y)
    finish(axes, LABELS[bits_column(bits) if x == "up_bits" else x], label(shown))
    within(axes, shown)
    title(figure, rounds)
    return figure


def _line(axes: Axes, line: Series, look: Look) -> None:
    """The line of a cell, and the range of its seeds as a band."""
    axes.plot(
        line.x, line.y, label=plain(cell_label(line.cell)), color=look.colour, linewidth=1.6,
        linestyle=LINES[look.place % len(LINES)], marker=marker(look) if len(line.x) <= 40 else "",
        markersize=4,
    )  # fmt: skip
    axes.fill_between(line.x, line.low, line.high, color=look.colour, alpha=0.15, lw=0)
