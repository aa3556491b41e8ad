"""Learning curves, the best within a budget of bits, and the front of metric over bits."""

from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd

from fedsim import units
from fedsim.show.budgets import Budget, budgets, leaders
from fedsim.show.curves import Series, curve_lines, front, pareto_points
from fedsim.show.report.charts.frame import (
    FONT,
    Chart,
    Trace,
    at,
    chart,
    dash,
    legend,
    logarithmic,
    name_of,
    reading,
    scatter,
    symbol,
)
from fedsim.show.style import (
    LABELS,
    Look,
    higher_is_better,
    label,
    looks,
    method_looks,
    metric_name,
)


def curves(rounds: pd.DataFrame, x: str, name: str) -> Chart:
    """Learning curves, as `fedsim.plot.curves`; `name` is what the metric is called.

    Raises:
        UsageError: there is nothing to draw.
    """
    lines = curve_lines(rounds, x, "metric")
    styles = looks([line.cell for line in lines])
    traces, known = [], set[str]()
    bands = [line for line in lines if (line.high > line.low).any()]
    for line in lines:
        look = styles[line.cell]
        own = {"legendgroup": name_of(line.cell)} if bands else {}
        traces.append(scatter(
            x=line.x, y=line.y, **(own | legend(line.cell, known)),
            mode="lines" if len(line.x) > 40 else "lines+markers",
            line={"color": look.colour, "dash": dash(look), "width": 2},
            marker={"symbol": symbol(look), "size": 6},
            text=[at(line, place, x, name) for place in range(len(line.x))],
            hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
    traces += [_band(line, styles[line.cell]) for line in bands]
    return _over([*traces, *reading(styles, lines=True)], x, name)


def _band(line: Series, look: Look) -> Trace:
    """The range of a line's seeds; it goes with its line where the legend hides that."""
    return scatter(
        x=[*line.x, *line.x[::-1]], y=[*line.high, *line.low[::-1]], fill="toself", mode="lines",
        fillcolor=look.colour, opacity=0.15, line={"width": 0}, hoverinfo="skip", showlegend=False,
        legendgroup=escape(line.cell.method) or name_of(line.cell),
    )  # fmt: skip


def budget(rounds: pd.DataFrame, name: str) -> Chart:
    """The best metric of each method within a budget of bits, as `fedsim.plot.budget`.

    Below, which method is best there.

    Raises:
        UsageError: there is nothing to draw.
    """
    methods = budgets(rounds, higher := higher_is_better(rounds))
    styles = method_looks({best.method: best.dense for best in methods})
    traces = []
    for best in methods:
        look = styles[best.method]
        texts = [
            f"{name_of(cell._replace(method=best.method, dense=best.dense))}<br>"
            f"from {units.bits(bits)} on<br>"
            f"{escape(name)} {units.score(score, name)}"
            for bits, score, cell in zip(best.bits, best.metric, best.cells, strict=True)
        ]
        traces.append(scatter(
            x=[*best.bits, best.end], y=[*best.metric, best.metric[-1]], name=escape(best.method),
            mode="lines+markers", text=[*texts, texts[-1]], hovertemplate="%{text}<extra></extra>",
            line={"color": look.colour, "width": 2, "shape": "hv"},
            marker={"symbol": symbol(look), "size": [6] * len(texts) + [0]},
        ))  # fmt: skip
    figure = _over([*traces, *_strip(methods, styles, higher)], "up_bits", name)
    layout = figure["layout"]
    layout["xaxis"]["anchor"] = "y2"
    layout["yaxis"]["domain"] = [0.14, 1]
    layout["yaxis2"] = {
        "domain": [0, 0.07], "range": [-1, 1], "tickvals": [0], "ticktext": ["best"],
        "tickfont": FONT, "showgrid": False, "zeroline": False, "fixedrange": True,
    }  # fmt: skip
    return figure


def pareto(runs: pd.DataFrame) -> Chart:
    """Final metric over the upstream bits of the wire, with the front, as `fedsim.plot.pareto`.

    Points that a single one beats have no front to draw.

    Raises:
        UsageError: no run is done.
    """
    points, name = pareto_points(runs), metric_name(runs)
    styles = looks([point.cell for point in points])
    best = front(points, higher_is_better(runs))
    line = scatter(
        x=[point.x[0] for point in best], y=[point.y[0] for point in best], mode="lines",
        name="front", line={"color": "#777777", "width": 1, "shape": "hv"}, hoverinfo="skip",
    )  # fmt: skip
    traces, known = [line] if len(best) > 1 else [], set[str]()
    for point in points:
        look = styles[point.cell]
        traces.append(scatter(
            x=point.x, y=point.y, **legend(point.cell, known), mode="markers",
            error_y=_range(point), marker={
                "color": look.colour, "size": 12, "line": {"color": "black", "width": 1},
                "symbol": symbol(look),
            },
            text=[at(point, 0, "up_wire_bits", name)], hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
    return _over([*traces, *reading(styles, lines=False)], "up_wire_bits", name)


def _range(point: Series) -> dict[str, Any] | None:
    """A bar from the least to the greatest of a point's seeds."""
    if not (point.high > point.low).any():
        return None
    above, below = point.high - point.y, point.y - point.low
    return {"array": above, "arrayminus": below, "symmetric": False, "thickness": 1}


def _strip(methods: Sequence[Budget], styles: dict[str, Look], higher: bool) -> list[Trace]:
    """A bar in the colour of the method that is best for so many bits."""
    return [
        scatter(
            x=[start, end], y=[0, 0], yaxis="y2", mode="lines+markers", showlegend=False,
            line={"color": styles[method].colour, "width": 14},
            # Ends that are seen where a method leads at its last evaluation alone.
            marker={"symbol": "line-ns", "size": 14, "line": {
                "color": styles[method].colour, "width": 2}},
            text=2 * [f"{escape(method)} is best<br>from {units.bits(start)} to {units.bits(end)}"],
            hovertemplate="%{text}<extra></extra>",
        )
        for start, end, method in leaders(methods, higher)
    ]  # fmt: skip


def _over(traces: list[Trace], x: str, name: str) -> Chart:
    """A chart of the metric `name` over the column `x`; bits on a logarithmic axis."""
    figure = chart(
        traces, 500, LABELS["up_wire_bits" if x == "up_bits" else x], escape(label(name))
    )
    if name in units.FRACTIONS:  # of a single value plotly would show one unit up and down
        figure["layout"]["yaxis"]["autorangeoptions"] = {"clipmin": -0.02, "clipmax": 1.02}
    if x.endswith("_bits"):
        logarithmic(figure, (b for trace in traces for b in trace["x"] if b is not None))
    return figure
