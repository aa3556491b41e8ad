"""A chart as the page draws it, with plotly."""

from html import escape
from typing import Any

import numpy as np

from fedsim.ground import units
from fedsim.show.chart import Axis, Chart, Marks, Strip, widened
from fedsim.show.report.charts.frame import FONT, Drawn, Trace, chart, scatter

_DASHES = ("solid", "dash", "dashdot", "dot")
_SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star",
)  # fmt: skip
_MOST = 40  # points of a line that has marks


def drawn(shown: Chart, height: int = 500) -> Drawn:
    """`shown`, so many pixels high, its legend below; the pointer on a mark shows its text."""
    banded = [m for m in shown.marks if m.kind == "line" and m.ranges is not None]
    traces = [_trace(marks, together=bool(banded)) for marks in shown.marks]
    traces += [
        scatter(  # goes with its line where the legend hides that
            x=[*m.x, *m.x[::-1]], y=[*np.asarray(m.high), *np.asarray(m.low)[::-1]], fill="toself",
            mode="lines", fillcolor=m.look.colour, opacity=0.15, line={"width": 0},
            hoverinfo="skip", showlegend=False, legendgroup=escape(m.group or m.name),
        )
        for m in banded
    ]  # fmt: skip
    strip = [] if shown.strip is None else _strip(shown.strip)
    figure = chart([*traces, *strip], height, shown.x.title, escape(shown.y.title))
    layout = figure["layout"]
    if shown.y.limits is not None:  # of a single value plotly would show one unit up and down
        low, high = shown.y.limits
        layout["yaxis"]["autorangeoptions"] = {"clipmin": low, "clipmax": high}
    if shown.x.scale != "plain":
        _logarithmic(figure, shown.x, [float(x) for marks in shown.marks for x in marks.x])
    for at, along, across in ((shown.at_x, "x", "y"), (shown.at_y, "y", "x")):
        if at is not None:
            ends = {f"{along}0": at, f"{along}1": at, f"{across}0": 0, f"{across}1": 1}
            line = {"type": "line", f"{across}ref": f"{across} domain", "layer": "below"}
            style = {"line": {"color": "#777777", "width": 1, "dash": "dot"}}
            layout.setdefault("shapes", []).append(line | ends | style)
    if shown.strip is not None:
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis"]["domain"] = [0.14, 1]
        layout["yaxis2"] = {
            "domain": [0, 0.07], "range": [-1, 1], "tickvals": [0], "ticktext": [shown.strip.name],
            "tickfont": FONT, "showgrid": False, "zeroline": False, "fixedrange": True,
        }  # fmt: skip
    return figure


def _trace(marks: Marks, together: bool) -> Trace:
    """A line, or marks; ``together``: whether its entry in the legend shows and hides others."""
    look, size = marks.look, 1.5 * marks.size  # pixels
    trace = scatter(x=marks.x if len(marks.x) else [None], y=marks.y if len(marks.y) else [None])
    trace |= {"name": escape(marks.name or marks.group)}
    trace |= {} if marks.name else {"showlegend": False}
    if marks.group or together:
        trace["legendgroup"] = escape(marks.group or marks.name)
    if marks.texts:
        said = [escape(text).replace("\n", "<br>") for text in marks.texts]
        trace |= {"text": said, "hovertemplate": "%{text}<extra></extra>"}
    else:
        trace["hoverinfo"] = "skip"
    symbol: dict[str, Any] = {"symbol": _SYMBOLS[(look.marker or 0) % len(_SYMBOLS)], "size": size}
    if marks.kind == "points":
        edge = {"color": look.colour if len(marks.hollow) else "black", "width": 1}
        inside = ["#ffffff" if hollow else look.colour for hollow in marks.hollow] or look.colour
        trace |= {"mode": "markers", "marker": symbol | {"color": inside, "line": edge}}
        if marks.ranges is not None:
            below, above = marks.ranges
            trace["error_y"] = {
                "array": above, "arrayminus": below, "symmetric": False, "thickness": 1,
            }  # fmt: skip
        return trace
    steps = marks.kind == "steps"
    if steps:  # the last only ends the line
        symbol["size"] = [size] * (len(marks.x) - 1) + [0]
    line = {"color": look.colour, "width": 1.2 * marks.width, "shape": "hv" if steps else "linear"}
    line["dash"] = _DASHES[look.place % len(_DASHES)]
    bare = look.marker is None or len(marks.x) > _MOST and not steps
    shown = {"mode": "lines"} if bare else {"mode": "lines+markers", "marker": symbol}
    return trace | {"line": line} | shown


def _strip(strip: Strip) -> list[Trace]:
    """A bar in the colour of what leads for so many bits."""
    traces = []
    for start, end, name in strip.spans:
        colour = strip.looks[name].colour
        where = f"from {units.bits(start)} to {units.bits(end)}"
        traces.append(scatter(
            x=[start, end], y=[0, 0], yaxis="y2", mode="lines+markers", showlegend=False,
            line={"color": colour, "width": 14},
            # Ends that are seen where it leads at its last evaluation alone.
            marker={"symbol": "line-ns", "size": 14, "line": {"color": colour, "width": 2}},
            text=2 * [f"{escape(name)} is {strip.name}<br>{where}"],
            hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
    return traces


def _logarithmic(figure: Drawn, axis: Axis, numbers: list[float]) -> None:
    """A logarithmic x axis for `numbers` with the ticks of `axis`.

    plotly's own powers are larger than its other ticks, and between them stand bare 2 and 5.
    """
    marks = [x for x in numbers if x > 0] or [1.0]  # marks at 0 have no place on such an axis
    low, high = widened(min(marks), max(marks))
    layout = figure["layout"]
    ticks = axis.ticks(min(marks), max(marks))
    layout["xaxis"] |= {
        "type": "log", "tickvals": ticks, "ticktext": [axis.tick(value) for value in ticks],
    }  # fmt: skip
    layout["meta"] = {"unit": "bit" if axis.scale == "bits" else ""}  # for what is zoomed into
    if (low, high) != (min(marks), max(marks)):  # so narrow a range would hold no tick
        layout["xaxis"]["range"] = [float(np.log10(low)), float(np.log10(high))]
