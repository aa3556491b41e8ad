"""What the interactive figures share: size, legend, markers, and words at the pointer."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from math import log10
from typing import Any

import plotly.graph_objects as go

from fedsim import units
from fedsim.analysis.curves import Series
from fedsim.analysis.style import CellKey, Look, cell_label

Trace = dict[str, Any]
"""A line, bar or set of marks, as plotly has it."""

DASHES = ("solid", "dash", "dashdot", "dot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
FONT = {"size": 13, "family": "sans-serif", "color": "#1a1a1a"}
_GREY, _PALE = "#777777", "#cccccc"
_DECADES = 50  # a range so wide holds powers of ten enough
_LEAST = 4.0  # a logarithmic axis is no narrower: there are always 1, 2 or 5 within


def chart(traces: Sequence[Any], height: int) -> go.Figure:
    """A figure of the page's width, so many pixels high, its legend below."""
    axis = {"automargin": True, "tickfont": FONT, "title": {"font": FONT}}
    return go.Figure(list(traces), {
        "template": "plotly_white", "height": height, "autosize": True, "dragmode": "zoom",
        "margin": {"l": 10, "r": 16, "t": 20, "b": 10}, "font": FONT,
        "legend": {
            "orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "font": FONT,
        },
        "hoverlabel": {"align": "left"},
        "xaxis": axis | {"fixedrange": False},
        "yaxis": axis | {"title": {"font": FONT, "standoff": 8}},
    })  # fmt: skip


def scatter(**settings: Any) -> Trace:
    """A trace of marks or lines; as a dict plotly checks it once, within its figure."""
    return {"type": "scatter", **settings}


def logarithmic(
    figure: go.Figure, numbers: Iterable[float], text: Callable[[int, int], str] | None = None
) -> None:
    """A logarithmic x axis for `numbers`: a tick a power of ten, of few decades at 2 and 5 too.

    plotly's own powers are larger than its other ticks, and between them stand bare 2 and 5.

    Args:
        figure: which.
        numbers: what lies along it, above 0.
        text: what a tick is called, by its digit and its power of ten; None: bits with their unit.
    """
    found = list(numbers) or [1.0]  # of marks at 0 alone none has a place on such an axis
    low, high = min(found), max(found)
    digits = (1,) if high > _DECADES * low else (1, 2, 5)
    ticks = [(digit, power) for power in range(-9, 16) for digit in digits]
    figure.update_xaxes(
        type="log", tickvals=[digit * 10.0**power for digit, power in ticks],
        ticktext=[(text or _bits)(*tick) for tick in ticks],
    )  # fmt: skip
    figure.update_layout(meta={"unit": "" if text else "bit"})  # for ticks of what is zoomed into
    if high < _LEAST * low:  # so narrow a range would hold no tick
        middle, half = log10(low * high) / 2, log10(_LEAST) / 2
        figure.update_xaxes(range=[middle - half, middle + half])


def _bits(digit: int, power: int) -> str:
    """A tick's bits as tables print them, without the digits that are all 0: `2 Mbit`."""
    return units.round_bits(digit * 10.0**power)


def fixed(figure: go.Figure) -> None:
    """Takes zooming from a figure whose axes are names or shares."""
    figure.update_layout(dragmode=False)
    figure.update_xaxes(fixedrange=True)
    figure.update_yaxes(fixedrange=True)


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
    """A line's entry in the legend: its cell; of several methods one a method, for all its cells.

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
    where = f"iteration {value:.0f}" if x == "iteration" else units.bits(value)
    score = escape(units.score(line.y[place], name))
    return f"{name_of(line.cell)}<br>{where}<br>{escape(name)} {score}"
