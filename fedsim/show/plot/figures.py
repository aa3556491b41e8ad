"""The figures that users ask for: each is described once and drawn for print."""

from typing import TYPE_CHECKING, Literal

import pandas as pd
from matplotlib.axes import Axes

from fedsim.show import figures
from fedsim.show.curves import Bits
from fedsim.show.plot.paper import drawn
from fedsim.show.plot.styles import StyleName

if TYPE_CHECKING:  # torch comes with the controllers
    from fedsim.show.times import Bandwidths


def curves(
    rounds: pd.DataFrame,
    x: Literal["iteration", "up_bits"] = "iteration",
    y: str = "metric",
    name: str | None = None,
    bits: Bits = "wire",
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    style: StyleName = "screen",
) -> Axes:
    """Learning curves, a line per cell, the mean over its seeds, with the seeds' range as a band.

    With one method, colour shows p and line style n. With several, colour and marker show the
    method, line style shows n, and paler lines send fewer entries. Seeds that were evaluated in
    different rounds are interpolated; the mean ends where the first of them ends.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows, of one task.
        x: "iteration": local iterations; "up_bits": bits that a client of every round has sent so
            far (the mean over the cohort of each round), on a logarithmic axis.
        y: a column of `rounds`, by its name or as tables call it; rounds where it is NaN (no
            evaluation) are passed over.
        name: what to call `y`; default: the runs' metric, or the column.
        bits: which bits: "wire", whole payloads; or "content", as papers count: positions, values
            and side information, without headers and without BatchNorm's statistics.
        ax: axes to draw on, which come back; None: those of a figure of its own, which
            `savefig` of the axes writes and a notebook shows.
        figsize: width and height in inches of a figure of its own.
        style: "screen"; "paper": one column, 3.4 inch wide, letters of 8 points, names next to
            the lines, no title; or "page": as the report has it, without a title.

    Raises:
        UsageError: an unknown `x`, `y`, `bits` or `style`, nothing to draw, or `rounds` is not
            such a frame.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        curves(results.rounds, "up_bits").savefig("curves.pdf")
    """
    return drawn(figures.curves_chart(rounds, x, y, name, bits), ax, figsize, style)


def pareto(
    runs: pd.DataFrame,
    bits: Bits = "wire",
    budget_of: str = "up",
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    style: StyleName = "screen",
) -> Axes:
    """Final metric over the bits of a client of every round: a point per cell, the front.

    The front joins the cells that no other beats in both, fewer bits and a better metric. Seeds
    are averaged; bars are intervals of 95 % (Student's t over the seeds; of one seed Wilson's, of
    the test samples of an accuracy). Failed runs are left out, and the mark of a cell that has
    fewer seeds than another is hollow. With several methods, colour and
    marker show the method, paler marks send fewer entries, and the front's points have n and p next
    to them. Where a single point beats all others there is no front to draw.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        bits: which bits, as for `curves`: "wire", or "content" as papers count them.
        budget_of: "up": upstream; "total": both ways.
        ax: as for `curves`.
        figsize: as for `curves`.
        style: as for `curves`.

    Raises:
        UsageError: no run is done; unknown `bits`; `runs` is not such a frame.
    """
    return drawn(figures.pareto_chart(runs, bits, budget_of), ax, figsize, style)


def budget(
    rounds: pd.DataFrame,
    name: str | None = None,
    bits: Bits = "wire",
    budget_of: str = "up",
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    style: StyleName = "screen",
) -> Axes:
    """The metric that each method has within a budget of bits, by its best cell.

    For B bits on the axis, a step is the best cell (n, p) of the method, each with its last
    evaluation when a client of every round had spent at most B bits, the mean over its seeds;
    above, which method is best there. A method's steps end where its longest run does. The bar
    above is blank where the best had ended with fewer bits and no other is better.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows, of one task; runs that
            are not done are left out. Whether a higher metric is better, it says itself.
        name: what to call the metric; default: the runs' own name of it.
        bits: which bits, as for `curves`: "wire", or "content" as papers count them.
        budget_of: "up": upstream; "total": both ways.
        ax: as for `curves`.
        figsize: as for `curves`.
        style: as for `curves`.

    Raises:
        UsageError: unknown `bits`; nothing to draw; `rounds` is not such a frame.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        budget(results.rounds).savefig("budget.pdf")
    """
    return drawn(figures.budget_chart(rounds, name, bits, budget_of), ax, figsize, style)


def over_bandwidths(
    times: "Bandwidths",
    rounds: pd.DataFrame,
    target: float,
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    style: StyleName = "screen",
) -> Axes:
    """The simulated time to a target over the bandwidth of every client, a line per method.

    A method's line is that of its fastest cell (n, p) at each bandwidth; the bar above says which
    method is fastest where.

    Args:
        times: what `fedsim.show.times.times_over_bandwidths` gave.
        rounds: `results.rounds`, for the names of task and metric.
        target: the metric.
        ax: as for `curves`.
        figsize: as for `curves`.
        style: as for `curves`.
    """
    return drawn(figures.bandwidths_chart(times, rounds, target), ax, figsize, style)
