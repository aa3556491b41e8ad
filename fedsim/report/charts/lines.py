"""Learning curves, the best within a budget of bits, and the front of metric over bits."""

from html import escape

import pandas as pd
import plotly.graph_objects as go

from fedsim import units
from fedsim.budgets import budgets
from fedsim.looks import LABELS, higher_is_better, label, looks, method_looks, metric_name
from fedsim.report.charts.frame import at, chart, dash, legend, name_of, plain_powers, symbol
from fedsim.series import curve_lines, front, pareto_points


def curves(rounds: pd.DataFrame, x: str, name: str) -> go.Figure:
    """Learning curves, as `fedsim.plot.curves`; `name` is what the metric is called.

    Raises:
        UsageError: there is nothing to draw.
    """
    lines = curve_lines(rounds, x, "metric")
    styles = looks([line.cell for line in lines])
    traces, known = [], set[str]()
    for line in lines:
        look = styles[line.cell]
        traces.append(go.Scatter(
            x=line.x, y=line.y, **legend(line.cell, known),
            mode="lines" if len(line.x) > 40 else "lines+markers",
            line={"color": look.colour, "dash": dash(look), "width": 2},
            marker={"symbol": symbol(look), "size": 6},
            text=[at(line, place, x, name) for place in range(len(line.x))],
            hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
    return _over(traces, x, name)


def budget(rounds: pd.DataFrame, name: str) -> go.Figure:
    """The best metric of each method within a budget of bits, as `fedsim.plot.budget`.

    Raises:
        UsageError: there is nothing to draw.
    """
    found = budgets(rounds, higher_is_better(rounds))
    styles = method_looks([one.method for one in found])
    end = max(float(one.bits[-1]) for one in found)
    traces = []
    for one in found:
        look = styles[one.method]
        texts = [
            f"{name_of(cell._replace(method=one.method))}<br>from {units.bits(bits)} on<br>"
            f"{escape(name)} {units.score(score, name)}"
            for bits, score, cell in zip(one.bits, one.metric, one.cells, strict=True)
        ]
        traces.append(go.Scatter(
            x=[*one.bits, end], y=[*one.metric, one.metric[-1]], name=escape(one.method),
            mode="lines+markers", text=[*texts, texts[-1]], hovertemplate="%{text}<extra></extra>",
            line={"color": look.colour, "width": 2, "shape": "hv"},
            marker={"symbol": symbol(look), "size": [6] * len(texts) + [0]},
        ))  # fmt: skip
    return _over(traces, "up_bits", name)


def pareto(runs: pd.DataFrame) -> go.Figure:
    """Final metric over upstream payload bits, with the front, as `fedsim.plot.pareto`.

    Raises:
        UsageError: no run is done.
    """
    points, name = pareto_points(runs), metric_name(runs)
    styles = looks([point.cell for point in points])
    best = front(points, higher_is_better(runs))
    traces, known = [go.Scatter(
        x=[point.x[0] for point in best], y=[point.y[0] for point in best], mode="lines",
        name="front", line={"color": "#777777", "width": 1, "shape": "hv"}, hoverinfo="skip",
    )], set[str]()  # fmt: skip
    for point in points:
        look = styles[point.cell]
        traces.append(go.Scatter(
            x=point.x, y=point.y, **legend(point.cell, known), mode="markers",
            marker={"color": look.colour, "size": 12, "line": {"color": "black", "width": 1},
                    "symbol": symbol(look)},
            text=[at(point, 0, "up_content_bits", name)], hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
    return _over(traces, "up_content_bits", name)


def _over(traces: list[go.Scatter], x: str, name: str) -> go.Figure:
    """A chart of the metric `name` over the column `x`; bits on a logarithmic axis."""
    figure, bits = chart(traces, 500), x.endswith("_bits")
    figure.update_xaxes(type="log" if bits else "linear", title=LABELS[x])
    figure.update_yaxes(title=escape(label(name)))
    plain_powers(figure, bits)
    return figure
