"""What the interactive figures share: size, legend, bars, and how they are written into a page."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from math import isfinite
from typing import Any

import numpy as np

Trace = dict[str, Any]
"""A line, bar or set of marks, as plotly.js has it."""

Drawn = dict[str, Any]
"""A figure as plotly.js has it: `data`, its traces, and `layout`. plotly's own classes check every
property of every trace, which takes longer than all else on the page; the tests do that."""

_GRID = "#ebf0f8"
FONT = {"size": 13, "family": "sans-serif", "color": "#1a1a1a"}


def chart(traces: Sequence[Trace], height: int, x: str, y: str = "") -> Drawn:
    """A figure of the page's width, so many pixels high, its legend below.

    Args:
        traces: what it shows.
        height: in pixels.
        x, y: the titles of its axes; an empty y has none.
    """
    axis = {
        "automargin": True, "tickfont": FONT, "gridcolor": _GRID, "zerolinecolor": _GRID,
        "linecolor": _GRID, "zerolinewidth": 2,
    }  # fmt: skip
    layout = {
        "height": height, "autosize": True, "dragmode": "zoom",
        "margin": {"l": 10, "r": 16, "t": 20, "b": 10}, "font": FONT,
        "legend": {
            "orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "font": FONT,
        },
        "hoverlabel": {"align": "left"},
        "xaxis": axis | {"title": {"font": FONT, "text": x, "standoff": 15}, "fixedrange": False},
        "yaxis": axis | {"title": {"font": FONT, "standoff": 8} | ({"text": y} if y else {})},
    }  # fmt: skip
    return {"data": list(traces), "layout": layout}


def bars(
    parts: Mapping[str, tuple[str, Sequence[float], Sequence[str]]], names: Sequence[str],
    height: int, x: str,
) -> Drawn:  # fmt: skip
    """A bar per name, the first at the top, each made of parts that follow each other.

    Args:
        parts: by its name each part's colour, how long it is in each bar, and what the page says
            of it there.
        names: of the bars.
        height: in pixels.
        x: the title of the axis.
    """
    shown = [escape(name) for name in names]
    figure = chart([
        {
            "type": "bar", "x": list(lengths), "y": shown, "orientation": "h", "name": part,
            "marker": {"color": colour}, "textposition": "none",
            "text": [escape(text).replace("\n", "<br>") for text in texts],
            "hovertemplate": "%{text}<extra></extra>",
        }
        for part, (colour, lengths, texts) in parts.items()
    ], height, x)  # fmt: skip
    figure["layout"]["barmode"] = "stack"
    figure["layout"]["legend"]["traceorder"] = "normal"
    figure["layout"]["yaxis"] |= {"autorange": "reversed", "type": "category"}
    fixed(figure)
    return figure


@cache
def library() -> str:
    """plotly.js 3.1.0, its cartesian bundle, as npm's `plotly.js-cartesian-dist-min` has it: lines,
    bars and heatmaps, at a quarter of the size of all of plotly."""
    file = files("fedsim.show.report") / "plotly-cartesian.min.js"
    return file.read_text(encoding="utf-8")


def as_json(value: Any) -> str:
    """`value` as JSON that may stand in a script of a page: arrays as lists, NaN as null."""
    text = json.dumps(_plain(value), separators=(",", ":"))
    for mark in "<>/":  # what would end the script
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _plain(value: Any) -> Any:
    """`value` in Python's own types."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def scatter(**settings: Any) -> Trace:
    """A trace of marks or lines."""
    return {"type": "scatter", **settings}


def fixed(figure: Drawn) -> None:
    """Takes zooming from a figure whose axes are names or shares."""
    layout = figure["layout"]
    layout["dragmode"] = False
    for axis in ("xaxis", "yaxis"):
        layout[axis]["fixedrange"] = True
