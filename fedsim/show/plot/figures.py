"""The figures that users ask for: each is described once and drawn for print."""

from math import ceil
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter

from fedsim.ground import units
from fedsim.show import figures
from fedsim.show.curves import Bits
from fedsim.show.heat import JOINED, Heat, heat, joints
from fedsim.show.planes import Plane
from fedsim.show.plot.paper import drawing, drawn, plain, title
from fedsim.show.style import FRACTION, label

if TYPE_CHECKING:  # torch comes with the controllers
    from fedsim.show.times import Bandwidths

_ACROSS = 3  # panels
_WIDE, _HIGH = 1.25, 0.8  # a cell, inches


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
    return drawn(figures.curves(rounds, x, y, name, bits))


def pareto(runs: pd.DataFrame, bits: Bits = "wire", budget_of: str = "up") -> Figure:
    """Final metric over the bits of a client of every round: a point per cell, the front.

    The front joins the cells that no other beats in both, fewer bits and a better metric. Seeds
    are averaged; bars show their range. Failed runs are left out. Of several methods, colour and
    marker tell the method, paler marks send fewer entries, and beside the front's points stand
    n and p. Where a single point beats all others there is no front to draw.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        bits: which bits, as for `curves`: "wire", or "content" as papers count them.
        budget_of: "up": upstream; "total": both ways.

    Raises:
        UsageError: no run is done; unknown `bits`; `runs` is not such a frame.
    """
    return drawn(figures.pareto(runs, bits, budget_of))


def budget(
    rounds: pd.DataFrame, name: str | None = None, bits: Bits = "wire", budget_of: str = "up"
) -> Figure:
    """The metric that each method has within a budget of bits, by its best cell.

    For B bits on the axis, a step is the best cell (n, p) of the method, each with its last
    evaluation when a client of every round had spent at most B bits, the mean over its seeds;
    below, which method is best there. A method's steps end where its longest run does. The bar
    below is blank where the best had ended with fewer bits and no other is better.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows. Whether a higher
            metric is better, it says itself.
        name: what to call the metric; default: the runs' own name of it.
        bits: which bits, as for `curves`: "wire", or "content" as papers count them.
        budget_of: "up": upstream; "total": both ways.

    Raises:
        UsageError: unknown `bits`; nothing to draw; `rounds` is not such a frame.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        budget(results.rounds).savefig("budget.pdf")
    """
    return drawn(figures.budget(rounds, name, bits, budget_of))


def over_bandwidths(times: "Bandwidths", rounds: pd.DataFrame, target: float) -> Figure:
    """The simulated time to a target over the bandwidth of every client, a line per method.

    A method's line is that of its fastest cell (n, p) at each bandwidth; the bar below says which
    method is fastest where.

    Args:
        times: what `fedsim.show.times.over_bandwidths` gave.
        rounds: `results.rounds`, for the names of task and metric.
        target: the metric.
    """
    return drawn(figures.over_bandwidths(times, rounds, target))


def matrix(runs: pd.DataFrame, value: str = "metric", method: str | None = None) -> Figure:
    """The sparsity plane as a heatmap, as Fig. 3 of Sattler et al., "Sparse Binary Compression",
    2018: a row per communication delay n, a column per fraction of entries sent p (a density:
    the paper calls p the gradient sparsity).

    Of several seeds a cell has the mean, and below it the sample standard deviation and how many
    there are, `± 0.0361 (3)`. Short lines join cells of equal total sparsity p / n, where three
    or more have it. A cell that no run has is hatched, one whose runs failed says so. Brighter is
    better; ratios and bits have a logarithmic scale. The dense reference off the grid stands under
    the title. Each of several methods has a panel, on one scale of colours.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        value: the numeric column to show.
        method: only this one, by its label (the column `label` of the runs).

    Raises:
        UsageError: no such method; else as `fedsim.show.planes.plane`.

    Example:
        save(matrix(fedsim.load("results/digits").runs, "ratio_content"), "ratio.png")
    """
    shown = heat(runs, value, method)
    grids, shades = shown.panels, shown.shades
    rows, columns = (max(grid.values.shape[k] for grid in grids.values()) for k in (0, 1))
    across = min(_ACROSS, len(grids))
    down, width = ceil(len(grids) / across), 2.4 + _WIDE * columns
    height = down * (2.1 + _HIGH * rows)
    figure = drawing(max(5.0, width) if across == 1 else 1 + across * width, height)
    norm = (LogNorm if shades.logarithmic else Normalize)(shades.low, shades.high)
    panels = []
    for place, (text, grid) in enumerate(grids.items(), start=1):
        panels.append(axes := figure.add_subplot(down, across, place))
        image = _panel(axes, grid, shown, norm)
        if len(grids) > 1:
            axes.set_title(plain("\n".join([text, *shown.notes(grid)])), fontsize=9, loc="left")
    notes = shown.notes(grid) if len(grids) == 1 else []
    title(figure, "\n".join([shown.title, label(shown.name), *notes]))
    if not shades.single:
        wide, pad = (0.08, 0.03) if across == 1 else (0.03, 0.01)
        bar = figure.colorbar(
            image, ax=panels, label=plain(label(shown.name)), fraction=wide, pad=pad
        )
        if shades.logarithmic:
            whole = FuncFormatter(lambda number, _: f"{number:g}")
            bar.ax.yaxis.set_major_formatter(whole)
            decades = shades.high / shades.low >= 10
            bar.ax.yaxis.set_minor_formatter(NullFormatter() if decades else whole)
    if shown.joined:
        figure.supxlabel(JOINED, fontsize=8, x=0.02, ha="left")
    return figure


def _panel(axes: Axes, grid: Plane, shown: Heat, norm: Normalize) -> AxesImage:
    """The plane of one method: its cells with value and total sparsity, hatched where there is no
    run, and lines along its diagonals."""
    rows, columns = grid.values.shape
    colours = colormaps["cividis_r" if shown.shades.turned else "cividis"]
    image = axes.imshow(grid.values, cmap=colours, norm=norm, aspect="auto")
    axes.set_xticks(range(columns), [units.plain(p) for p in grid.gradients])
    axes.set_yticks(range(rows), [str(n) for n in grid.temporals])
    axes.set_xlabel(FRACTION)
    axes.set_ylabel("communication delay n\n(local iterations per round)")
    if rows == columns == 1:  # no wider than a cell among others: the title needs the width
        axes.set_box_aspect(_HIGH / _WIDE)
        axes.set_anchor("W")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for at in np.ndindex(grid.values.shape):
        row, column = at
        value, failed = float(grid.values[at]), int(grid.failed[at])
        if not np.isfinite(value):
            corner, hatch = (column - 0.5, row - 0.5), "xxx" if failed else "///"
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch=hatch, ec="#bbbbbb", lw=0))
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            axes.text(
                column, row, grid.absence(at), ha="center", va="center", fontsize=9, bbox=box
            )
            continue
        # Texts within the axes do not change the layout, which would measure each of them.
        style: Any = {"ha": "center", "color": shown.shades.ink(value), "in_layout": False}
        text, *spread = shown.lines(grid, at)
        axes.text(column, row, text, fontsize=11, va="bottom", **style)
        note = "\n".join([*spread, f"p/n = {units.plain(grid.sparsity(row, column))}"])
        note += f", {failed} failed" if failed else ""
        axes.annotate(note, at[::-1], (0, -4), textcoords="offset points", fontsize=8, va="top",
                      **style)  # fmt: skip
    # NaN parts line from line, white on a darker edge.
    parts = [[*line, (np.nan, np.nan)] for line in joints(grid)]
    for colour, wide, alpha in (("black", 2.2, 0.5), ("white", 1.0, 1.0)):
        if parts:
            axes.plot(*np.concatenate(parts).T, color=colour, lw=wide, alpha=alpha,
                      solid_capstyle="round", in_layout=False)  # fmt: skip
    return image
