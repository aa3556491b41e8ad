"""What the interactive figures share: size, legend, markers, and words at the pointer."""

from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from fedsim import units
from fedsim.looks import CellKey, Look, cell_label
from fedsim.series import Series

DASHES = ("solid", "dash", "dashdot", "dot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")


def chart(traces: Sequence[Any], height: int) -> go.Figure:
    """A figure of the page's width, so many pixels high, its legend below."""
    figure = go.Figure(list(traces))
    figure.update_layout(
        template="plotly_white", height=height, autosize=True, dragmode=False,
        margin={"l": 10, "r": 10, "t": 20, "b": 10}, font={"size": 13, "family": "sans-serif"},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        hoverlabel={"align": "left"},
    )  # fmt: skip
    figure.update_xaxes(automargin=True, fixedrange=False)
    figure.update_yaxes(automargin=True, title_standoff=8)
    return figure


def plain_powers(figure: go.Figure, logarithmic: bool) -> None:
    """Whole powers of ten along a logarithmic x axis."""
    if logarithmic:
        figure.update_xaxes(dtick=1, exponentformat="power")


def dash(look: Look) -> str:
    """plotly's line style of a look."""
    return DASHES[look.place % len(DASHES)]


def symbol(look: Look) -> str:
    """plotly's marker of a look."""
    return SYMBOLS[look.marker % len(SYMBOLS)]


def name_of(cell: CellKey) -> str:
    """What a cell is called, escaped."""
    return escape(cell_label(*cell))


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


def at(line: Series, place: int, x: str, name: str) -> str:
    """What the pointer says of one point of a line."""
    value = line.x[place]
    where = f"iteration {value:.0f}" if x == "iteration" else units.bits(value)
    score = escape(units.score(line.y[place], name))
    return f"{name_of(line.cell)}<br>{where}<br>{escape(name)} {score}"
