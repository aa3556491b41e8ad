"""The report's interactive figures. User text is escaped: plotly reads tags in its labels."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from fedsim import units
from fedsim.looks import (
    LABELS,
    beside,
    cell_label,
    higher_is_better,
    is_logarithmic,
    label,
    looks,
    metric_name,
    value_text,
)
from fedsim.plane import Plane, plane
from fedsim.series import Series, curve_lines, front, pareto_points

_DASHES = ("solid", "dash", "dashdot", "dot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
# Paul Tol's "bright" scheme, safe for the colour-blind.
_PARTS = {"header": "#bbbbbb", "position": "#4477aa", "value": "#ccbb44", "side": "#ee6677"}
_POWERS = np.arange(0, 13)


def heatmap(runs: pd.DataFrame, value: str) -> go.Figure:
    """The sparsity plane; the pointer on a cell shows the cell's numbers.

    Raises:
        UsageError: as `fedsim.plane.plane`.
    """
    grid = plane(runs, value)
    name = metric_name(runs) if value == "metric" else value
    shown = np.where(np.isfinite(grid.values), grid.values, np.nan)
    chart = go.Heatmap(
        z=np.log10(shown) if is_logarithmic(value) else shown,
        x=[units.plain(p) for p in grid.gradients],
        y=[str(n) for n in grid.temporals],
        text=_grid_texts(grid, lambda at: value_text(float(shown[at]), name)),
        hovertext=_grid_texts(grid, lambda at: _hover(runs, grid, at)),
        texttemplate="%{text}", textfont={"size": 14}, hoverinfo="text", xgap=2, ygap=2,
        colorscale="Cividis", reversescale=value == "metric" and not higher_is_better(runs),
    )  # fmt: skip
    _scale(chart, is_logarithmic(value))
    figure = _figure([chart], 160 + 75 * max(2, len(grid.temporals)))
    figure.update_xaxes(type="category", title="gradient sparsity p", showgrid=False)
    figure.update_yaxes(
        type="category", title="communication delay n", autorange="reversed", showgrid=False
    )
    _marks(figure, grid)
    return figure


def curves(rounds: pd.DataFrame, x: str, name: str) -> go.Figure:
    """Learning curves, as `fedsim.plot.curves`; `name` is what the metric is called.

    Raises:
        UsageError: there is nothing to draw.
    """
    lines = curve_lines(rounds, x, "metric")
    styles = looks([line.cell for line in lines])
    traces = []
    for line in lines:
        look = styles[line.cell]
        traces.append(go.Scatter(
            x=line.x, y=line.y, name=cell_label(*line.cell),
            mode="lines" if len(line.x) > 25 else "lines+markers",
            line={"color": look.colour, "dash": _DASHES[look.place % len(_DASHES)], "width": 2},
            marker={"symbol": _SYMBOLS[look.place % len(_SYMBOLS)], "size": 6},
            text=[_at(line, place, x, name) for place in range(len(line.x))],
            hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
    figure = _figure(traces, 500)
    figure.update_xaxes(type="log" if x == "up_bits" else "linear", title=LABELS[x])
    figure.update_yaxes(title=escape(label(name)))
    _plain_powers(figure, x == "up_bits")
    return figure


def pareto(runs: pd.DataFrame) -> go.Figure:
    """Final metric over upstream payload bits, with the front, as `fedsim.plot.pareto`.

    Raises:
        UsageError: no run is done.
    """
    points, name = pareto_points(runs), metric_name(runs)
    styles = looks([point.cell for point in points])
    best = front(points, higher_is_better(runs))
    traces = [go.Scatter(
        x=[point.x[0] for point in best], y=[point.y[0] for point in best], mode="lines",
        name="front", line={"color": "#777777", "width": 1, "shape": "hv"}, hoverinfo="skip",
    )]  # fmt: skip
    for point in points:
        look = styles[point.cell]
        traces.append(go.Scatter(
            x=point.x, y=point.y, name=cell_label(*point.cell), mode="markers",
            marker={"color": look.colour, "size": 12, "line": {"color": "black", "width": 1},
                    "symbol": _SYMBOLS[look.place % len(_SYMBOLS)]},
            text=[_at(point, 0, "up_content_bits", name)], hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
    figure = _figure(traces, 500)
    figure.update_xaxes(type="log", title=LABELS["up_content_bits"])
    figure.update_yaxes(title=escape(label(name)))
    _plain_powers(figure, True)
    return figure


def split(runs: pd.DataFrame) -> go.Figure:
    """What a client's upstream messages consist of: a bar a cell, its parts in percent."""
    names = [f"up_{part}_bits" for part in _PARTS]
    done = runs[runs["status"] == "done"]
    keys = ["temporal", "gradient", "reference"]
    means = done.assign(reference=beside(done).to_numpy()).groupby(keys)[names].mean()
    means = means.sort_index(ascending=[True, False, False])
    bars = [cell_label(int(n), float(p), bool(dense)) for n, p, dense in means.index]
    whole = means.sum(axis=1)
    traces = []
    for (part, colour), name in zip(_PARTS.items(), names, strict=True):
        share = 100 * means[name] / whole
        texts = [
            f"{bar}<br>{part}: {units.bits(bits)} of {units.bits(total)}, {percent:.1f} %"
            for bar, bits, total, percent in zip(bars, means[name], whole, share, strict=True)
        ]
        traces.append(go.Bar(
            x=share, y=bars, orientation="h", name=part, marker_color=colour, text=texts,
            textposition="none", hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
    figure = _figure(traces, 150 + 32 * len(bars))
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_xaxes(title="share of the upstream bits (%)", range=[0, 100])
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure


def _scale(chart: go.Heatmap, logarithmic: bool) -> None:
    numbers = np.unique(chart.z[np.isfinite(chart.z)])
    bar: dict[str, Any] = {"thickness": 12}
    if logarithmic:
        bar |= {"tickvals": _POWERS, "ticktext": [units.ratio(10.0**k) for k in _POWERS]}
    chart.update(colorbar=bar, showscale=len(numbers) > 1)
    if len(numbers) == 1:  # a single value is drawn bright, not in the middle's grey
        below, above = (1, 3) if chart.reversescale else (3, 1)
        chart.update(zmin=numbers[0] - below, zmax=numbers[0] + above)


def _figure(traces: Sequence[Any], height: int) -> go.Figure:
    figure = go.Figure(list(traces))
    figure.update_layout(
        template="plotly_white", height=height, autosize=True, dragmode=False,
        margin={"l": 10, "r": 10, "t": 20, "b": 10}, font={"size": 13, "family": "sans-serif"},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
    )  # fmt: skip
    figure.update_xaxes(automargin=True, fixedrange=False)
    figure.update_yaxes(automargin=True, title_standoff=8)
    return figure


def _plain_powers(figure: go.Figure, logarithmic: bool) -> None:
    if logarithmic:
        figure.update_xaxes(dtick=1, exponentformat="power")


def _at(line: Series, place: int, x: str, name: str) -> str:
    value = line.x[place]
    where = f"iteration {value:.0f}" if x == "iteration" else units.bits(value)
    return f"{cell_label(*line.cell)}<br>{where}<br>{escape(name)} " + escape(
        units.score(line.y[place], name)
    )


def _grid_texts(grid: Plane, text: Any) -> list[list[str]]:
    rows, columns = grid.values.shape
    return [[text((row, column)) for column in range(columns)] for row in range(rows)]


def _hover(runs: pd.DataFrame, grid: Plane, at: tuple[int, int]) -> str:
    n, p = grid.temporals[at[0]], grid.gradients[at[1]]
    cell = runs[(runs["temporal"] == n) & (runs["gradient"] == p) & (runs["status"] == "done")]
    lines = [cell_label(n, p), f"total sparsity p/n = {units.plain(grid.sparsity(*at))}"]
    counts = f"{grid.done[at]} done" + (f", {grid.failed[at]} failed" if grid.failed[at] else "")
    if len(cell):
        name = metric_name(runs)
        means = cell.select_dtypes("number").astype("float64").mean()
        lines += [
            f"{escape(name)} {units.score(means['metric'], name)}",
            f"up {units.bits(means['up_wire_bits'])} (wire), "
            f"{units.bits(means['up_content_bits'])} (payload)",
            f"down {units.bits(means['down_wire_bits'])} (wire)",
            f"ratio {units.ratio(means['ratio_content'])} (payload), "
            f"{units.ratio(means['ratio_wire'])} (wire)",
            f"{units.seconds(means['seconds'])} s",
        ]
    return "<br>".join([*lines, f"runs: {counts}"])


def _marks(figure: go.Figure, grid: Plane) -> None:
    """Words where there is no value, and the lines between cells of equal total sparsity."""
    for row, column in zip(*np.nonzero(~np.isfinite(grid.values)), strict=True):
        word = grid.absence((int(row), int(column)))
        figure.add_annotation(
            x=int(column), y=int(row), text=f"<i>{word}</i>", showarrow=False,
            font={"color": "#aa3333" if word == "failed" else "#777777"},
        )  # fmt: skip
    for cells in grid.diagonals():
        for (row, column), (below, left) in zip(cells, cells[1:], strict=False):
            ends = [(c + t * (left - c), r + t * (below - r)) for r, c, t in
                    ((row, column, 0.37), (row, column, 0.63))]  # fmt: skip
            (x0, y0), (x1, y1) = ends
            for colour, width in (("#444444", 4), ("white", 2)):
                figure.add_shape(
                    type="line", x0=x0, y0=y0, x1=x1, y1=y1, line={"color": colour, "width": width}
                )
