"""What the interactive figures share: size, legend, markers, and words at the pointer."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from math import isfinite, log10
from typing import Any

import numpy as np

from fedsim import units
from fedsim.show.curves import TIME, Series
from fedsim.show.style import CellKey, Look, cell_label

Trace = dict[str, Any]
"""A line, bar or set of marks, as plotly.js has it."""

Chart = dict[str, Any]
"""A figure as plotly.js has it: `data`, its traces, and `layout`. plotly's own classes check every
property of every trace, which takes longer than all else on the page; the tests do that."""

DASHES = ("solid", "dash", "dashdot", "dot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
FONT = {"size": 13, "family": "sans-serif", "color": "#1a1a1a"}
_GREY, _PALE = "#777777", "#cccccc"
_DECADES = 50  # a range so wide holds powers of ten enough
_LEAST = 4.0  # a logarithmic axis is no narrower: there are always 1, 2 or 5 within


def chart(traces: Sequence[Trace], height: int, x: str, y: str = "") -> Chart:
    """A figure of the page's width, so many pixels high, its legend below.

    Args:
        traces: what it shows.
        height: in pixels.
        x, y: the titles of its axes; an empty y has none.
    """
    axis = {"automargin": True, "tickfont": FONT}
    layout = {
        "template": _template(), "height": height, "autosize": True, "dragmode": "zoom",
        "margin": {"l": 10, "r": 16, "t": 20, "b": 10}, "font": FONT,
        "legend": {
            "orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "font": FONT,
        },
        "hoverlabel": {"align": "left"},
        "xaxis": axis | {"title": {"font": FONT, "text": x}, "fixedrange": False},
        "yaxis": axis | {"title": {"font": FONT, "standoff": 8} | ({"text": y} if y else {})},
    }  # fmt: skip
    return {"data": list(traces), "layout": layout}


@cache
def _template() -> dict[str, Any]:
    """plotly's template `plotly_white`."""
    return dict(json.loads(plotly_file("templates/plotly_white.json")))


def plotly_file(name: str) -> str:
    """The text of a file that comes with plotly, without the second that plotly takes to import."""
    return (files("plotly") / "package_data" / name).read_text(encoding="utf-8")


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


def logarithmic(
    figure: Chart, numbers: Iterable[float], text: Callable[[int, int], str] | None = None
) -> None:
    """A logarithmic x axis for `numbers`: a tick per power of ten, of few decades at 2 and 5 too.

    plotly's own powers are larger than its other ticks, and between them stand bare 2 and 5.

    Args:
        figure: which.
        numbers: what lies along it, above 0.
        text: what a tick is called, by its digit and its power of ten; None: bits with their unit.
    """
    marks = list(numbers) or [1.0]  # of marks at 0 alone none has a place on such an axis
    low, high = min(marks), max(marks)
    digits = (1,) if high > _DECADES * low else (1, 2, 5)
    ticks = [(digit, power) for power in range(-9, 16) for digit in digits]
    layout = figure["layout"]
    layout["xaxis"] |= {
        "type": "log", "tickvals": [digit * 10.0**power for digit, power in ticks],
        "ticktext": [(text or _bits)(*tick) for tick in ticks],
    }  # fmt: skip
    layout["meta"] = {"unit": "" if text else "bit"}  # for ticks of what is zoomed into
    if high < _LEAST * low:  # so narrow a range would hold no tick
        middle, half = log10(low * high) / 2, log10(_LEAST) / 2
        layout["xaxis"]["range"] = [middle - half, middle + half]


def _bits(digit: int, power: int) -> str:
    """A tick's bits as tables print them, without the digits that are all 0: `2 Mbit`."""
    return units.round_bits(digit * 10.0**power)


def fixed(figure: Chart) -> None:
    """Takes zooming from a figure whose axes are names or shares."""
    layout = figure["layout"]
    layout["dragmode"] = False
    for axis in ("xaxis", "yaxis"):
        layout[axis]["fixedrange"] = True


def dash(look: Look) -> str:
    """plotly's line style of a look."""
    return DASHES[look.place % len(DASHES)]


def symbol(look: Look) -> str:
    """plotly's marker of a look."""
    return SYMBOLS[look.marker % len(SYMBOLS)]


def name_of(cell: CellKey) -> str:
    """What a cell is called, escaped."""
    return escape(cell_label(cell))


def legend(cell: CellKey, known: set[str]) -> dict[str, Any]:
    """A line's entry in the legend: its cell; of several methods one per method, for all its cells.

    ``known`` holds the methods that have their entry and takes this one.
    """
    if not cell.method:
        return {"name": name_of(cell)}
    first = cell.method not in known
    known.add(cell.method)
    name = escape(cell.method)
    return {"name": name, "legendgroup": name, "showlegend": first}


def reading(styles: dict[CellKey, Look], lines: bool) -> list[Trace]:
    """Entries of a legend of several methods that tell how their cells differ.

    Args:
        styles: how the cells look; of one method each has an entry of its own.
        lines: whether they are lines, whose style tells n.
    """
    if not any(cell.method for cell in styles):
        return []
    kinds = [
        {"name": f"n = {n}", "mode": "lines", "line": {"color": _GREY, "dash": style}}
        for n, style in sorted({cell.temporal: dash(look) for cell, look in styles.items()}.items())
    ]
    kinds = kinds if lines and len(kinds) > 1 else []
    if len({(cell.method, cell.gradient) for cell in styles}) > len({c.method for c in styles}):
        pale = {"color": _PALE, "size": 9, "line": {"color": _GREY, "width": 0.5}}
        kinds.append({"name": "paler: smaller p", "mode": "markers", "marker": pale})
    return [scatter(x=[None], y=[None], hoverinfo="skip", **kind) for kind in kinds]


def at(line: Series, place: int, x: str, name: str) -> str:
    """What the pointer says of one point of a line."""
    value = line.x[place]
    told = {"iteration": f"iteration {value:.0f}", TIME: units.duration(value)}
    where = told.get(x) or units.bits(value)
    score = escape(units.score(line.y[place], name))
    return f"{name_of(line.cell)}<br>{where}<br>{escape(name)} {score}"
