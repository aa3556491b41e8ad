"""A chart as the page draws it, with plotly."""

from html import escape
from typing import Any

import numpy as np

from fedsim.ground import units
from fedsim.show.chart import Chart, Marks, Strip, widened
from fedsim.show.report.charts.frame import FONT, Drawn, Trace, chart, scatter

_DASHES = (
    "solid", "dash", "dashdot", "dot", "6px,8px", "12px,3px,2px,3px,2px,3px", "2px,8px",
    "8px,2px,8px,2px,2px,2px",
)  # fmt: skip
_SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star",
)  # fmt: skip
_MOST = 40  # points of a line that has marks


def drawn(shown: Chart, height: int = 500) -> Drawn:
    """`shown`, so many pixels high, its legend below; the pointer on a mark shows its text."""
    banded = [m for m in shown.marks if m.kind == "line" and m.ranges is not None]
    traces = [_trace(marks, shared=bool(banded)) for marks in shown.marks]
    traces += [
        scatter(  # goes with its line where the legend hides that
            x=[*m.x, *m.x[::-1]], y=[*np.asarray(m.high), *np.asarray(m.low)[::-1]], fill="toself",
            mode="lines", fillcolor=m.look.colour, opacity=0.15, line={"width": 0},
            hoverinfo="skip", showlegend=False, legendgroup=escape(m.group or m.name),
        )
        for m in banded
    ]  # fmt: skip
    strip = shown.strip or Strip("", (), {})
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
    figure = chart(traces, height, shown.x.title, escape(shown.y.title))
    layout = figure["layout"]
    if shown.y.limits is not None:  # of a single value plotly would show one unit up and down
        low, high = shown.y.limits
        layout["yaxis"]["autorangeoptions"] = {"clipmin": low, "clipmax": high}
    if shown.x.scale != "plain":
        # plotly's own powers are larger than its other ticks, and between them stand bare 2 and 5.
        numbers = [float(x) for marks in shown.marks for x in marks.x]
        numbers = [x for x in numbers if x > 0] or [1.0]  # 0 has no place on such an axis
        low, high = ends = min(numbers), max(numbers)
        ticks = shown.x.ticks(low, high)
        layout["xaxis"] |= {
            "type": "log", "tickvals": ticks, "ticktext": [shown.x.tick(value) for value in ticks],
        }  # fmt: skip
        layout["meta"] = {"unit": "bit" if shown.x.scale == "bits" else ""}  # for a part of it
        if (wide := widened(low, high)) != ends:  # so narrow a range would hold no tick
            layout["xaxis"]["range"] = [float(np.log10(end)) for end in wide]
    for at, along, across in ((shown.at_x, "x", "y"), (shown.at_y, "y", "x")):
        if at is not None:
            across_all = {f"{along}0": at, f"{along}1": at, f"{across}0": 0, f"{across}1": 1}
            line = {"type": "line", f"{across}ref": f"{across} domain", "layer": "below"}
            style = {"line": {"color": "#777777", "width": 1, "dash": "dot"}}
            layout.setdefault("shapes", []).append(line | across_all | style)
    if shown.strip is not None:
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis"]["domain"] = [0.14, 1]
        layout["yaxis2"] = {
            "domain": [0, 0.07], "range": [-1, 1], "tickvals": [0], "ticktext": [strip.name],
            "tickfont": FONT, "showgrid": False, "zeroline": False, "fixedrange": True,
        }  # fmt: skip
    return figure


def _trace(marks: Marks, shared: bool) -> Trace:
    """A line, or marks; ``shared``: whether its entry in the legend shows and hides others."""
    look, size = marks.look, 1.5 * marks.size  # pixels
    trace = scatter(x=marks.x if len(marks.x) else [None], y=marks.y if len(marks.y) else [None])
    trace |= {"name": escape(marks.name or marks.group)}
    trace |= {} if marks.name else {"showlegend": False}
    if marks.group or shared:
        trace["legendgroup"] = escape(marks.group or marks.name)
    if marks.texts:
        said = [escape(text).replace("\n", "<br>") for text in marks.texts]
        trace |= {"text": said, "hovertemplate": "%{text}<extra></extra>"}
    else:
        trace["hoverinfo"] = "skip"
    symbol: dict[str, Any] = {"symbol": _SYMBOLS[(look.marker or 0) % len(_SYMBOLS)], "size": size}
    if marks.kind == "points":
        edge = {"color": look.colour if len(marks.hollow) else "black", "width": 1}
        fill = ["#ffffff" if hollow else look.colour for hollow in marks.hollow] or look.colour
        trace |= {"mode": "markers", "marker": symbol | {"color": fill, "line": edge}}
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
