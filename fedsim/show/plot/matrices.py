"""The sparsity plane as a heatmap, drawn for print."""

from collections.abc import Collection
from math import ceil
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import QuadMesh
from matplotlib.patches import Rectangle

from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.show.heat import JOINED, Heat, heat, joints
from fedsim.show.planes import Plane
from fedsim.show.plot.paper import Shown, drawing, title, whole_of, without_formulas
from fedsim.show.plot.styles import Style, StyleName, style_of
from fedsim.show.style import FRACTION, delay_axis, label

_ACROSS = 3  # panels
_WIDE, _HIGH = 1.25, 0.8  # a cell, inches
_LOW = 0.42  # a cell in a paper
_STEPS = 40  # of the scale of colours


def matrix(
    runs: pd.DataFrame,
    value: str = "metric",
    method: str | None = None,
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    style: StyleName = "screen",
) -> Axes:
    """The sparsity plane as a heatmap, as Fig. 3 of Sattler et al., "Sparse Binary Compression",
    2018: a row per communication delay n, a column per fraction of entries sent p (a density:
    the paper calls p the gradient sparsity).

    Of several seeds a cell has the mean, and below it the sample standard deviation and how many
    there are, `± 0.0361 (3)`; a cell of fewer seeds than another is hatched and says so. Short
    lines join cells of equal total sparsity p / n, where three or more have it. A cell that no run
    has is hatched, one whose runs failed says so. Brighter is better: of
    bits, seconds, loss and failures, less. Ratios and bits have a logarithmic scale, and so has the
    error, 1 - accuracy, by which a fraction is coloured; a value far from all others does not
    stretch it. The dense reference off the grid is under the title. Each of several methods has
    a panel, on one scale of colours.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        value: the numeric column to show, by its name or as tables call it (`up`, `accuracy`).
        method: only this one, by its label (the column `label` of the runs).
        ax: axes to draw on, which come back; for one method. None: those of a figure of its own,
            of several methods the first.
        figsize: width and height in inches of a figure of its own.
        style: as for `curves`; a paper's panels are below each other.

    Raises:
        UsageError: no such method, or several for one `ax`; else as `fedsim.show.planes.plane`.

    Example:
        save(matrix(fedsim.load("results/digits").runs, "ratio_content"), "ratio.png")
    """
    return heatmap(heat(runs, value, method), ax, figsize, style)


def heatmap(
    shown: Heat,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    style: StyleName = "screen",
    panels: Collection[str] | None = None,
) -> Axes:
    """`shown` on axes, the first panel's, which come back; arguments as of `matrix`."""
    look = style_of(style)
    grids = {name: shown.panels[name] for name in (shown.panels if panels is None else panels)}
    if ax is not None:
        if len(grids) > 1:
            raise UsageError(
                f"ax is given for {len(grids)} methods: name one of {', '.join(grids)}"
                " with method=..."
            )
        (grid,) = grids.values()
        image = _panel(ax, grid, shown, look, ax.bbox.width / whole_of(ax).dpi)
        _scale_beside(image, [ax], shown, look)
        return ax
    rows, columns = (max(grid.values.shape[k] for grid in grids.values()) for k in (0, 1))
    across = 1 if look.column else min(_ACROSS, len(grids))
    down, width = ceil(len(grids) / across), 2.4 + _WIDE * columns
    if not look.column:
        size = (max(5.0, width) if across == 1 else 1 + across * width, down * (2.1 + _HIGH * rows))
    else:
        size = look.width, down * (0.75 + _LOW * rows)
    look = look.fitted(figsize, size)
    figure = drawing(*(figsize or size))
    drawn, wide = list[Axes](), (0.75 if across == 1 else 0.65) * figure.get_figwidth() / across
    for place, (text, grid) in enumerate(grids.items(), start=1):
        drawn.append(axes := figure.add_subplot(down, across, place, axes_class=Shown))
        image = _panel(axes, grid, shown, look, wide)
        if len(grids) > 1:
            notes = [] if look.column else shown.notes(grid)
            parts = [part for line in (text, *notes) for part in wrap(line, look.letters(wide))]
            axes.set_title(without_formulas("\n".join(parts)), fontsize=look.small, loc="left")
    lines = [shown.title, label(shown.name)] if look.titled else []
    lines += shown.notes(grid) if len(grids) == 1 and not look.column else []
    if lines:
        title(figure, "\n".join(lines), look)
    _scale_beside(image, drawn, shown, look)
    text = f"{JOINED if shown.joined else ''}{shown.legend_text}".strip()
    if text and look.titled:
        size_of_text = min(8.0, look.small)
        lines = wrap(text, int(120 / size_of_text * figure.get_figwidth()))
        figure.supxlabel("\n".join(lines), fontsize=size_of_text, x=0.02, ha="left")
    return drawn[0]


def _scale_beside(image: QuadMesh, panels: list[Axes], shown: Heat, look: Style) -> None:
    """The scale of colours, with round values; none where there is one value."""
    if shown.shades.single:
        return
    wide, pad = (0.08, 0.03) if len(panels) == 1 or look.column else (0.03, 0.01)
    name = label(shown.name)
    if shown.shades.scale == "error" and look.column:
        name += " (colours: log of the error)"
    # Few steps: matplotlib draws a scale of more than 50 as a picture, in vector graphics too.
    steps = ScalarMappable(image.norm, image.cmap.resampled(_STEPS))
    bar = whole_of(panels[0]).colorbar(steps, ax=panels, fraction=wide, pad=pad)
    bar.ax.collections[0].set_edgecolor("face")  # else there were gaps between the steps
    high = 0.7 * whole_of(panels[0]).get_figheight()
    bar.set_label("\n".join(wrap(without_formulas(name), look.letters(high))), fontsize=look.font)
    places, texts = zip(*shown.shades.ticks(shown.name), strict=True)
    bar.set_ticks([*places], labels=[*texts], minor=False)
    bar.ax.tick_params(labelsize=look.font)
    bar.minorticks_off()


def _panel(axes: Axes, grid: Plane, shown: Heat, look: Style, width: float) -> QuadMesh:
    """The plane of one method on axes of so many inches: its cells with value and total sparsity,
    hatched where there is no run, and lines along its diagonals."""
    rows, columns = grid.values.shape
    colours = colormaps["cividis_r" if shown.shades.turned else "cividis"]
    places = shown.shades.place(grid.values)
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    image = axes.pcolormesh(
        *edges,
        np.ma.masked_invalid(places),
        cmap=colours,
        vmin=0,
        vmax=1,
        edgecolors="face",
        linewidth=0.2,
    )
    axes.set(xlim=edges[0][[0, -1]], ylim=edges[1][[-1, 0]])
    axes.set_xticks(range(columns), [units.plain(p) for p in grid.gradients])
    axes.set_yticks(range(rows), [str(n) for n in grid.temporals])
    axes.set_xlabel(FRACTION, fontsize=look.font)
    delay = "delay n" if look.column else "communication delay n\n(local iterations per round)"
    if grid.symbol != "n":
        delay = delay_axis(grid.symbol).replace(" per round", "" if look.column else " per round")
    axes.set_ylabel(delay, fontsize=look.font)
    if rows == columns == 1 and not look.column:  # no wider than a cell among others
        axes.set_box_aspect(_HIGH / _WIDE)
        axes.set_anchor("W")
    axes.tick_params(length=0, labelsize=look.font)
    axes.spines[:].set_visible(False)
    large = look.small if look.column else min(11.0, 1.3 * look.small)
    room = 72 * width / columns
    for at in np.ndindex(grid.values.shape):
        row, column = at
        value, failed = float(grid.values[at]), int(grid.failed[at])
        corner = (column - 0.5, row - 0.5)
        if not np.isfinite(value):
            hatch = "xxx" if failed else "///"
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch=hatch, ec="#bbbbbb", lw=0))
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            axes.text(
                column,
                row,
                grid.absence(at),
                ha="center",
                va="center",
                fontsize=min(9, look.small),
                bbox=box,
            )
            continue
        ink = shown.shades.ink(value)
        if shown.fewer(grid, at):
            style: Any = {"hatch": "\\\\", "ec": ink, "alpha": 0.2}
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, lw=0, **style))
        # Texts within the axes do not change the layout, which would measure each of them.
        style = {"ha": "center", "color": ink, "in_layout": False}
        text, *spread = shown.lines(grid, at)
        sparsity = f"p/n = {units.fraction(grid.sparsity(row, column))}"
        notes = [*spread, *([sparsity] if grid.symbol == "n" else [])]
        size = min(8.0, look.small - 0.5)
        if look.column:  # there is room for one
            notes = [note for note in spread if 0.55 * size * len(note) < room]
        if not notes:
            axes.text(column, row, text, fontsize=large, va="center", **style)
            continue
        axes.text(column, row, text, fontsize=large, va="bottom", **style)
        note = "\n".join(notes) + (f", {failed} failed" if failed and not look.column else "")
        axes.annotate(
            note,
            at[::-1],
            (0, -1 if look.column else -4),
            textcoords="offset points",
            fontsize=size,
            va="top",
            **style,
        )
    # NaN parts line from line, white on a darker edge.
    parts = [[*line, (np.nan, np.nan)] for line in joints(grid)]
    for colour, wide, alpha in (("black", 2.2, 0.5), ("white", 1.0, 1.0)):
        if parts:
            axes.plot(
                *np.concatenate(parts).T,
                color=colour,
                lw=wide,
                alpha=alpha,
                solid_capstyle="round",
                in_layout=False,
            )
    return image
