"""The sparsity plane as a heatmap."""

from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter

from fedsim import units
from fedsim.results.labels import of_method
from fedsim.show.inputs import check_frame
from fedsim.show.planes import Plane, planes
from fedsim.show.plot.canvas import drawing, plain, title
from fedsim.show.style import (
    FRACTION,
    higher_is_better,
    ink,
    is_logarithmic,
    label,
    metric_name,
    spread_text,
    value_text,
)

_ACROSS = 3  # panels
_WIDE, _HIGH = 1.25, 0.8  # a cell, inches
_JOINED = "Short lines join cells of equal total sparsity p/n."


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
    check_frame(runs, "runs", "matrix()")
    grids = planes(runs, value, method)
    shown = of_method(runs, method) if method is not None else runs
    name = metric_name(shown) if value == "metric" else value
    colours, norm = _scale(grids, value, shown)
    figure, panels = _panels(grids)
    for axes, (text, grid) in zip(panels, grids.items(), strict=True):
        image = _panel(axes, grid, name, colours, norm)
        if len(grids) > 1:
            note = "\n".join([text, *_dense_line(grid, name)])
            axes.set_title(plain(note), fontsize=9, loc="left")
    below = _dense_line(grid, name) if len(grids) == 1 else []
    title(figure, shown, [label(name), *below])
    _colorbar(figure, panels, image, _numbers(grids), label(name))
    if any(grid.diagonals() for grid in grids.values()):
        figure.supxlabel(_JOINED, fontsize=8, x=0.02, ha="left")
    return figure


def _panels(grids: dict[str, Plane]) -> tuple[Figure, list[Axes]]:
    rows = max(grid.values.shape[0] for grid in grids.values())
    columns = max(grid.values.shape[1] for grid in grids.values())
    across = min(_ACROSS, len(grids))
    down = ceil(len(grids) / across)
    width, height = 2.4 + _WIDE * columns, 2.1 + _HIGH * rows
    figure = drawing(max(5.0, width) if across == 1 else 1 + across * width, down * height)
    panels = [figure.add_subplot(down, across, k + 1) for k in range(len(grids))]
    return figure, panels


def _panel(axes: Axes, grid: Plane, name: str, colours: Colormap, norm: Normalize) -> AxesImage:
    rows, columns = grid.values.shape
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
    for row, column in np.ndindex(grid.values.shape):
        _cell(axes, grid, (row, column), name, colours, norm)
    _diagonals(axes, grid)
    return image


def _dense_line(grid: Plane, name: str) -> list[str]:
    if grid.dense is None:
        return []
    return [f"dense reference (n = 1, p = 1): {value_text(grid.dense, name)}"]


def _numbers(grids: dict[str, Plane]) -> np.ndarray:
    values = np.concatenate([grid.values.ravel() for grid in grids.values()])
    return values[np.isfinite(values)]


def _scale(grids: dict[str, Plane], value: str, runs: pd.DataFrame) -> tuple[Colormap, Normalize]:
    numbers = _numbers(grids)
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (0.0, 1.0)
    better_low = value.endswith("_bits") or (value == "metric" and not higher_is_better(runs))
    colours = colormaps["cividis_r" if better_low else "cividis"]
    if low == high:  # a single value is drawn bright, not in the middle's grey
        below, above = (1, 3) if better_low else (3, 1)
        return colours, Normalize(low - below, high + above)
    if is_logarithmic(value) and low > 0:
        return colours, LogNorm(low, high)
    return colours, Normalize(low, high)


def _colorbar(
    figure: Figure, panels: list[Axes], image: AxesImage, numbers: np.ndarray, text: str
) -> None:
    if len(np.unique(numbers)) < 2:
        return  # one colour needs no scale
    single = len(panels) == 1
    bar = figure.colorbar(
        image,
        ax=panels,
        label=plain(text),
        fraction=0.08 if single else 0.03,
        pad=0.03 if single else 0.01,
    )
    if isinstance(image.norm, LogNorm):
        whole = FuncFormatter(lambda number, _: f"{number:g}")
        bar.ax.yaxis.set_major_formatter(whole)
        decades = numbers.max() / numbers.min() >= 10
        bar.ax.yaxis.set_minor_formatter(NullFormatter() if decades else whole)


def _cell(
    axes: Axes, grid: Plane, at: tuple[int, int], name: str, colours: Colormap, norm: Normalize
) -> None:
    """The text of a cell: its value and total sparsity; hatched where there is no run."""
    row, column = at
    value, failed = grid.values[at], int(grid.failed[at])
    if not np.isfinite(value):
        corner = (column - 0.5, row - 0.5)
        hatch = "xxx" if failed else "///"
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch=hatch, ec="#bbbbbb", lw=0))
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(column, row, grid.absence(at), ha="center", va="center", fontsize=9, bbox=box)
        return
    # Texts within the axes do not change the layout, which would measure each of them.
    style: Any = {"ha": "center", "color": ink(colours(norm(value))), "in_layout": False}
    axes.text(column, row, value_text(value, name), fontsize=11, va="bottom", **style)
    note = f"p/n = {units.plain(grid.sparsity(row, column))}"
    if np.isfinite(grid.spread[at]):
        note = f"{spread_text(grid.spread[at], grid.done[at], name)}\n{note}"
    note += f", {failed} failed" if failed else ""
    axes.annotate(note, at[::-1], (0, -4), textcoords="offset points", fontsize=8, va="top",
                  **style)  # fmt: skip


def _diagonals(axes: Axes, grid: Plane) -> None:
    """The lines between cells of equal total sparsity, white on a darker edge."""
    # Only around the cells' common corner, so that no text is crossed; NaN parts line from line.
    along = np.array([0.32, 0.68, np.nan])
    joints = [
        (column + along * (left - column), row + along * (below - row))
        for cells in grid.diagonals()
        for (row, column), (below, left) in zip(cells, cells[1:], strict=False)
    ]
    if joints:
        xs, ys = np.concatenate(joints, axis=1)
        style: Any = {"solid_capstyle": "round", "in_layout": False}
        axes.plot(xs, ys, color="black", lw=2.2, alpha=0.5, **style)
        axes.plot(xs, ys, color="white", lw=1.0, **style)
