"""Figures: the sparsity plane as a matrix, learning curves, and the front of metric over bits.

Every figure is an object of its own on the Agg canvas; pyplot and its global state are not used,
so that figures can be drawn in threads and in notebooks alike.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter

from fedsim import units
from fedsim.errors import UsageError
from fedsim.files import replacing
from fedsim.looks import (
    LABELS,
    Look,
    cell_label,
    higher_is_better,
    ink,
    is_logarithmic,
    label,
    looks,
    metric_name,
    value_text,
)
from fedsim.plane import Plane, method_text, plane
from fedsim.series import curve_lines, front, pareto_points

_MARKERS = "osD^vPX*"
_LINES = ("-", "--", "-.", ":")
_GREY = "#777777"


def matrix(runs: pd.DataFrame, value: str = "metric") -> Figure:
    """The sparsity plane as a heatmap, as Fig. 3 of Sattler et al., "Sparse Binary Compression",
    2018: a row a communication delay n, a column a gradient sparsity p.

    Seeds are averaged. Thin lines join cells of equal total sparsity p / n. A cell that no run has
    is hatched, one whose runs failed says so. Brighter is better; ratios and bits have a
    logarithmic scale. The dense reference off the grid stands under the title.

    Args:
        runs: the frame of `fedsim.load(...).runs` of one sweep, or some of its rows.
        value: the numeric column to show.

    Raises:
        UsageError: as `fedsim.plane.plane`.

    Example:
        save(matrix(fedsim.load("results/digits").runs, "ratio_content"), "ratio.png")
    """
    grid = plane(runs, value)
    name = metric_name(runs) if value == "metric" else value
    rows, columns = grid.values.shape
    figure, axes = _figure(max(5.0, 2.4 + 1.25 * columns), 2.1 + 0.8 * rows)
    colours, norm = _scale(grid, value, runs)
    image = axes.imshow(grid.values, cmap=colours, norm=norm, aspect="auto")
    axes.set_xticks(range(columns), [units.plain(p) for p in grid.gradients])
    axes.set_yticks(range(rows), [str(n) for n in grid.temporals])
    axes.set_xlabel("gradient sparsity p (fraction of entries sent)")
    axes.set_ylabel("communication delay n\n(local iterations a round)")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for row, column in np.ndindex(grid.values.shape):
        _cell(axes, grid, (row, column), name, colours, norm)
    for cells in grid.diagonals():
        _diagonal(axes, cells)
    _title(figure, runs, [label(name)] + _dense_line(grid, name))
    _colorbar(axes, image, grid, label(name))
    return figure


def curves(
    rounds: pd.DataFrame,
    x: Literal["iteration", "up_bits"] = "iteration",
    y: str = "metric",
    name: str | None = None,
) -> Figure:
    """Learning curves, a line a cell, the mean over its seeds, with the seeds' range as a band.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows.
        x: "iteration": local iterations; "up_bits": payload bits a client has sent so far
            (positions, values, side information; the mean over the cohort of each round), on a
            logarithmic axis.
        y: a column of `rounds`; rounds where it is NaN (no evaluation) are passed over.
        name: what to call `y`, such as the runs' metric name.

    Raises:
        UsageError: an unknown `x` or `y`, or nothing to draw.
    """
    lines = curve_lines(rounds, x, y)
    figure, axes = _figure(7.2, 4.4)
    styles = looks([line.cell for line in lines])
    for line in lines:
        look = styles[line.cell]
        few = len(line.x) <= 25
        axes.plot(
            line.x, line.y, label=cell_label(*line.cell), color=look.colour, linewidth=1.6,
            linestyle=_LINES[look.place % len(_LINES)], marker=_marker(look) if few else "",
            markersize=4,
        )  # fmt: skip
        axes.fill_between(line.x, line.low, line.high, color=look.colour, alpha=0.15, lw=0)
    axes.set_xscale("log" if x == "up_bits" else "linear")
    axes.set_xlabel(LABELS[x])
    axes.set_ylabel(label(name or y))
    axes.grid(alpha=0.25)
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    _title(figure, rounds, [])
    return figure


def pareto(runs: pd.DataFrame) -> Figure:
    """Final metric over upstream payload bits per client, a point a cell, with the front.

    The front joins the cells that no other beats in both, fewer bits and a better metric. Seeds
    are averaged; bars show their range. Failed runs are left out.

    Raises:
        UsageError: no run is done.
    """
    points = pareto_points(runs)
    name = metric_name(runs)
    figure, axes = _figure(7.2, 4.4)
    styles = looks([point.cell for point in points])
    best = front(points, higher=higher_is_better(runs))
    bits = [float(point.x[0]) for point in best]
    heights = [float(point.y[0]) for point in best]
    axes.step(bits, heights, where="post", color=_GREY, lw=1, label="front", zorder=1)
    for point in points:
        look = styles[point.cell]
        axes.errorbar(
            point.x, point.y, [point.y - point.low, point.high - point.y],
            label=cell_label(*point.cell), color=look.colour, marker=_marker(look),
            markersize=8, markeredgecolor="black", markeredgewidth=0.6, linestyle="", zorder=2,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel(LABELS["up_content_bits"])
    axes.set_ylabel(label(name))
    axes.grid(alpha=0.25)
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    _title(figure, runs, [])
    return figure


def save(figure: Figure, path: Path | str) -> None:
    """Writes `figure`, whole or not at all: PNG at 150 dpi, or what the suffix says (pdf, svg).

    Raises:
        UsageError: a suffix that matplotlib cannot write.
    """
    kind = Path(path).suffix.lstrip(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise UsageError(f"figure file {path}: the suffix must be png, pdf, svg or such.")
    with replacing(path) as file:
        figure.savefig(file, format=kind, dpi=150)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _title(figure: Figure, frame: pd.DataFrame, more: Sequence[str]) -> None:
    tasks = ", ".join(frame["task"].unique())
    # About 13 characters an inch at this size. "$" would begin a formula.
    lines = wrap(f"{tasks}: {method_text(frame)}", int(13 * figure.get_figwidth()))
    text = "\n".join([*lines, *more]).replace("$", r"\$")
    figure.suptitle(text, fontsize=10, x=0.02, ha="left")


def _marker(look: Look) -> str:
    return _MARKERS[look.place % len(_MARKERS)]


def _dense_line(grid: Plane, name: str) -> list[str]:
    if grid.dense is None:
        return []
    return [f"dense reference (n = 1, p = 1): {value_text(grid.dense, name)}"]


def _scale(grid: Plane, value: str, runs: pd.DataFrame) -> tuple[Colormap, Normalize]:
    numbers = grid.values[np.isfinite(grid.values)]
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (0.0, 1.0)
    better_low = value.endswith("_bits") or (value == "metric" and not higher_is_better(runs))
    colours = colormaps["cividis_r" if better_low else "cividis"]
    if low == high:  # a single value is drawn bright, not in the middle's grey
        below, above = (1, 3) if better_low else (3, 1)
        return colours, Normalize(low - below, high + above)
    if is_logarithmic(value) and low > 0:
        return colours, LogNorm(low, high)
    return colours, Normalize(low, high)


def _colorbar(axes: Axes, image: AxesImage, grid: Plane, text: str) -> None:
    numbers = grid.values[np.isfinite(grid.values)]
    if len(np.unique(numbers)) < 2:
        return  # one colour needs no scale
    bar = axes.figure.colorbar(image, ax=axes, label=text, fraction=0.08, pad=0.03)
    if isinstance(image.norm, LogNorm):
        plain = FuncFormatter(lambda number, _: f"{number:g}")
        bar.ax.yaxis.set_major_formatter(plain)
        decades = numbers.max() / numbers.min() >= 10
        bar.ax.yaxis.set_minor_formatter(NullFormatter() if decades else plain)


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
    style: Any = {"ha": "center", "color": ink(colours(norm(value)))}
    axes.text(column, row, value_text(value, name), fontsize=11, va="bottom", **style)
    note = f"p/n = {units.plain(grid.sparsity(row, column))}"
    note += f", {failed} failed" if failed else ""
    axes.annotate(note, at[::-1], (0, -4), textcoords="offset points", fontsize=8, va="top",
                  **style)  # fmt: skip


def _diagonal(axes: Axes, cells: list[tuple[int, int]]) -> None:
    for (row, column), (below, left) in zip(cells, cells[1:], strict=False):
        # Only around the cells' common corner, so that no text is crossed.
        ends = np.array([0.36, 0.64])
        xs, ys = column + ends * (left - column), row + ends * (below - row)
        axes.plot(xs, ys, color="black", lw=2.2, alpha=0.5, solid_capstyle="round")
        axes.plot(xs, ys, color="white", lw=1.0, solid_capstyle="round")
