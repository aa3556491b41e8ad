"""The sparsity plane as a heatmap whose cells tell their numbers."""

from html import escape
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.colors import to_hex

from fedsim import units
from fedsim.show.planes import Plane, plane
from fedsim.show.report.charts.frame import FONT, Chart, Trace, chart, fixed
from fedsim.show.style import (
    FRACTION,
    CellKey,
    beside,
    cell_label,
    higher_is_better,
    ink,
    is_logarithmic,
    metric_name,
    spread_text,
    value_text,
)
from fedsim.show.telling import sends_other_shares

# plotly's own Cividis: ten of its colours.
_COLOURS = [[k / 9, to_hex(colormaps["cividis"](k / 9))] for k in range(10)]
_PHONE = 24  # characters of 14 pixels in a row of cells on a narrow screen
_TOLD = (
    "metric", "up_wire_bits", "up_content_bits", "down_wire_bits", "ratio_wire", "ratio_content",
    "seconds", "up_share",
)  # fmt: skip
_POWERS = np.arange(0, 13)
_FINER = np.log10(np.outer(10.0**_POWERS, (1, 2, 5))).ravel()


def heatmap(runs: pd.DataFrame, value: str, limits: tuple[float, float] | None = None) -> Chart:
    """The sparsity plane; the pointer on a cell shows the cell's numbers.

    Args:
        runs: those of one method.
        value: the numeric column to show.
        limits: between which values the colours lie; None: the least and the greatest shown.

    Raises:
        UsageError: as `fedsim.show.planes.plane`.
    """
    grid, own = plane(runs, value), runs[~beside(runs)]
    name = metric_name(runs) if value == "metric" else value
    shown = np.where(np.isfinite(grid.values), grid.values, np.nan)
    image: Trace = {
        "type": "heatmap", "z": np.log10(shown) if is_logarithmic(value) else shown,
        "x": [units.plain(p) for p in grid.gradients], "y": [str(n) for n in grid.temporals],
        "hovertext": _hovers(own, grid), "hoverinfo": "text", "xgap": 2, "ygap": 2,
        "colorscale": _COLOURS,
        "reversescale": value == "metric" and not higher_is_better(runs),
    }  # fmt: skip
    _scale(image, is_logarithmic(value), limits)
    height = 160 + 75 * max(2, len(grid.temporals))
    figure = chart([image], height, FRACTION, "communication delay n")
    layout = figure["layout"]
    layout["xaxis"] |= {"type": "category", "showgrid": False}
    layout["yaxis"] |= {"type": "category", "autorange": "reversed", "showgrid": False}
    layout["annotations"] = [*_numbers(image, grid, name), *_absences(grid)]
    layout["shapes"] = _joints(grid)
    fixed(figure)
    return figure


def _scale(image: Trace, logarithmic: bool, limits: tuple[float, float] | None) -> None:
    numbers = np.unique(image["z"][np.isfinite(image["z"])])
    if limits is not None and limits[0] < limits[1]:
        numbers = np.log10(limits) if logarithmic else np.array(limits)
    if len(numbers):
        image |= {"zmin": numbers[0], "zmax": numbers[-1]}
    bar: dict[str, Any] = {"thickness": 12, "tickfont": FONT}
    if logarithmic:
        ticks = _FINER if len(numbers) and numbers[-1] - numbers[0] < 1.5 else _POWERS
        bar |= {"tickvals": ticks, "ticktext": [units.ratio(10.0**k) for k in ticks]}
    image |= {"colorbar": bar, "showscale": len(numbers) > 1}
    if len(numbers) == 1:  # a single value is drawn bright, not in the middle's grey
        below, above = (1, 3) if image["reversescale"] else (3, 1)
        image |= {"zmin": numbers[0] - below, "zmax": numbers[0] + above}


def _numbers(image: Trace, grid: Plane, name: str) -> list[dict[str, Any]]:
    """The cells' values, black or white by what is behind them: plotly has one ink for all."""
    colours = colormaps["cividis"]
    texts = _grid_texts(grid, lambda at: value_text(float(grid.values[at]), name))
    spreads = _grid_texts(grid, lambda at: _spread(grid, at, name))
    longest = max(len(text) for row in [*texts, *spreads] for text in row)
    size = 14 if longest * len(grid.gradients) <= _PHONE else 12
    values, marks = image["z"], []
    for row, column in zip(*np.nonzero(np.isfinite(values)), strict=True):
        place = (values[row, column] - image["zmin"]) / (image["zmax"] - image["zmin"])
        behind = colours(float(1 - place if image["reversescale"] else place))
        lines = filter(None, (texts[row][column], spreads[row][column]))
        font = {"size": size, "color": ink(behind)}
        marks.append(_mark(int(row), int(column), "<br>".join(lines), font))
    return marks


def _mark(row: int, column: int, text: str, font: dict[str, Any]) -> dict[str, Any]:
    """A text in the middle of a cell."""
    return {"x": column, "y": row, "text": text, "showarrow": False, "font": font}


def _spread(grid: Plane, at: tuple[int, int], name: str) -> str:
    """The deviation of a cell's seeds; empty of a single one."""
    value = float(grid.spread[at])
    return spread_text(value, int(grid.done[at]), name) if np.isfinite(value) else ""


def _grid_texts(grid: Plane, text: Any) -> list[list[str]]:
    rows, columns = grid.values.shape
    return [[text((row, column)) for column in range(columns)] for row in range(rows)]


def _hovers(runs: pd.DataFrame, grid: Plane) -> list[list[str]]:
    """What the pointer says of each cell: its place, the means of its runs, and how many there are.

    Args:
        runs: those of the plane.
        grid: the plane.
    """
    name, done = metric_name(runs), runs[runs["status"] == "done"]
    told = [column for column in _TOLD if column in done.columns]
    by_cell = done.assign(_other=sends_other_shares(done)).groupby(["temporal", "gradient"])
    means = by_cell[told].mean().to_dict("index")
    spreads, others = by_cell["metric"].std(ddof=1).to_dict(), by_cell["_other"].any().to_dict()

    def hover(at: tuple[int, int]) -> str:
        key = grid.temporals[at[0]], grid.gradients[at[1]]
        sparsity = units.plain(grid.sparsity(*at))
        lines = [cell_label(CellKey(*key)), f"total sparsity p/n = {sparsity}"]
        if key in means:
            spread = spread_text(spreads[key], int(grid.done[at]), name)
            lines += _means(means[key], name, spread if grid.done[at] > 1 else "", others[key])
        counts = f"{grid.done[at]} done"
        counts += f", {grid.failed[at]} failed" if grid.failed[at] else ""
        return "<br>".join([*lines, f"runs: {counts}"])

    return _grid_texts(grid, hover)


def _means(means: dict[str, float], name: str, spread: str, other_share: bool) -> list[str]:
    """The lines of a cell's means; ``spread``: the deviation of its seeds."""
    share = [f"share of entries that travelled: {units.fraction(means.get('up_share'))}"]
    return [
        *(share if other_share else []),
        f"{escape(name)} {units.score(means['metric'], name)} {spread}".strip(),
        f"up {units.bits(means['up_wire_bits'])} (wire), "
        f"{units.bits(means['up_content_bits'])} (content)",
        f"down {units.bits(means['down_wire_bits'])} (wire)",
        f"ratio {units.ratio(means['ratio_wire'])} (wire), "
        f"{units.ratio(means['ratio_content'])} (content)",
        f"{units.seconds(means['seconds'])} s",
    ]


def _absences(grid: Plane) -> list[dict[str, Any]]:
    """Words in the cells without a value."""
    empty = zip(*np.nonzero(~np.isfinite(grid.values)), strict=True)
    absences = {(int(row), int(column)): grid.absence((row, column)) for row, column in empty}
    return [
        _mark(*at, f"<i>{absence}</i>", {"color": "#aa3333" if absence == "failed" else "#777777"})
        for at, absence in absences.items()
    ]


def _joints(grid: Plane) -> list[dict[str, Any]]:
    """The lines between cells of equal total sparsity, white on a darker edge."""
    shapes = []
    for cells in grid.diagonals():
        for (row, column), (below, left) in zip(cells, cells[1:], strict=False):
            (x0, y0), (x1, y1) = (
                (column + t * (left - column), row + t * (below - row)) for t in (0.33, 0.67)
            )
            ends = {"type": "line", "x0": x0, "y0": y0, "x1": x1, "y1": y1}
            for colour, width in (("#444444", 4), ("white", 2)):
                shapes.append(ends | {"line": {"color": colour, "width": width}})
    return shapes
