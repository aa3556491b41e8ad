"""Figures as SVG within a page: letters as text, numbers at the pointer, no scripts."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from io import StringIO
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.transforms import Transform

from fedsim.ground import units
from fedsim.show.chart import Chart, Marks
from fedsim.show.heat import Heat
from fedsim.show.plot.matrices import heatmap
from fedsim.show.plot.paper import BAR, drawn, whole_of

_AROUND = 4.5  # points from a mark, within which the pointer is on it
_LEAST_WIDTH = 540  # pixels: a narrower screen scrolls the figure
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_SETTINGS: Any = {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans", "Verdana"]}
_STYLE = re.compile(r"<defs><style.*?</style></defs>")  # the page has it once
_TAG, _DIGITS = re.compile(r"<[^>]+>"), re.compile(r"\d+\.\d{3,}")


_Tip = tuple[np.ndarray, str]
"""Left, low, right and high on the figure, in points, and the page's text there."""


def chart_svg(chart: Chart, salt: str) -> str:
    """Returns a chart as an element of HTML; the pointer on a mark shows its text.

    Equal charts give equal elements, with one version of matplotlib.

    Args:
        chart: what is drawn; its title is left out, since a section has one.
        salt: the figure's name on its page: ids within the element are made with it.

    Example:
        >>> from fedsim.show.chart import Axis
        >>> marks = [Marks(x=[1, 2], y=[3, 4], texts=["one", "two"], name="a")]
        >>> text = chart_svg(Chart(title="", x=Axis("x"), y=Axis("y"), marks=marks), "first")
        >>> text[:5], text.count("<title>")
        ('<svg ', 2)
    """
    with _as_text(salt):
        axes = drawn(replace(chart, title=""), style="page")
        _lay_out(axes)
        return _element(axes, [*_tips(axes, chart)])


def plane_svg(shown: Heat, name: str, texts: np.ndarray, salt: str) -> str:
    """Returns the plane of one method as an element of HTML; the pointer on a cell shows its text.

    Args:
        shown: the planes.
        name: of the method, in `shown.panels`.
        texts: (R, C) the page's text of each cell.
        salt: as for `chart_svg`.
    """
    with _as_text(salt):
        axes = heatmap(shown, style="page", panels=[name])
        _lay_out(axes)
        rows, columns = np.indices(texts.shape)
        boxes = _boxes(axes.transData, columns - 0.5, rows - 0.5, columns + 0.5, rows + 0.5)
        return _element(axes, list(zip(boxes, texts.flat, strict=True)))


@contextmanager
def _as_text(salt: str) -> Iterator[None]:
    """Inside, letters of SVG are text, and its ids go by ``salt``.

    The reader's browser has other fonts for letters that matplotlib's own font lacks.
    """
    settings = {**_SETTINGS, "svg.hashsalt": salt}
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", "Glyph")
        yield


def _lay_out(axes: Axes) -> None:
    """Places all parts of the figure for good, at 72 dots per inch, as SVG counts."""
    figure: Any = whole_of(axes)
    figure.set_dpi(72)
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")


def _tips(axes: Axes, chart: Chart) -> Iterator[_Tip]:
    """The texts of the marks and of the bar above, in the order in which they are drawn."""
    for marks in chart.marks:
        if len(marks.texts):
            shown = _spots(axes, marks) if marks.kind != "bars" else _bars(axes, marks)
            yield from ((box, marks.texts[place]) for place, box in shown)
    if chart.strip is not None:
        for start, end, name in chart.strip.spans:
            (box,) = _boxes(axes.get_xaxis_transform(), start, 1.02, end, 1.055)
            per = "/s" if chart.x.scale == "rates" else ""
            ends = f"from {units.bits(start)}{per} to {units.bits(end)}{per}"
            wider = box + np.array([-1, 0, 1, 0])  # it may lead at a single point
            yield wider, f"{name} is {chart.strip.name}\n{ends}"


def _spots(axes: Axes, marks: Marks) -> Iterator[tuple[int, np.ndarray]]:
    """The places of marks that lie within the axes: of a line's crowded ones, those apart."""
    corners = np.column_stack([marks.x, marks.y]).astype(float)[: len(marks.texts)]
    spots = axes.transData.transform(corners)
    frame, last = axes.bbox.padded(1), None
    for place, (x, y) in enumerate(spots):
        crowded = last is not None and np.hypot(x - last[0], y - last[1]) < _AROUND
        crowded &= marks.kind == "line" and place < len(spots) - 1
        if frame.contains(x, y) and not crowded:
            last = x, y
            yield place, np.array([x - _AROUND, y - _AROUND, x + _AROUND, y + _AROUND])


def _bars(axes: Axes, marks: Marks) -> Iterator[tuple[int, np.ndarray]]:
    rows, half = np.asarray(marks.y, float), BAR / 2
    boxes = _boxes(axes.transData, marks.start, rows - half, marks.x, rows + half)
    return ((place, box) for place, box in enumerate(boxes) if box[2] > box[0])


def _boxes(transform: Transform, left: Any, low: Any, right: Any, high: Any) -> np.ndarray:
    """(N, 4) left, low, right and high on the figure, of N boxes on axes."""
    ends = [np.column_stack([np.ravel(x), np.ravel(y)]) for x, y in ((left, low), (right, high))]
    first, second = (transform.transform(np.asarray(pairs, float)) for pairs in ends)
    return np.column_stack([np.minimum(first, second), np.maximum(first, second)])


def _element(axes: Axes, tips: Sequence[_Tip]) -> str:
    """The figure as an element of HTML, with rectangles that say something at the pointer."""
    figure, file = whole_of(axes), StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata=_NO_METADATA)
    drawing = re.sub(r">\s+<", "><", file.getvalue().strip())
    drawing = re.sub(r'<g id="[^"]*"/>', "", drawing[drawing.index("<svg ") :])
    drawing = re.sub(r'<g id="[^"]*">', "<g>", drawing)  # each figure counts them from 1
    # Two digits behind the point: the last ones differ from machine to machine.
    drawing = _TAG.sub(
        lambda tag: _DIGITS.sub(lambda x: f"{round(float(x[0]), 2):.10g}", tag[0]),
        _STYLE.sub("", drawing, count=1),
    )
    width, height = 72 * figure.get_size_inches()
    least = min(_LEAST_WIDTH, round(width / 0.75))
    boxes = "".join(
        f'<rect x="{left:.1f}" y="{height - high:.1f}" width="{right - left:.1f}" '
        f'height="{high - low:.1f}"><title>{escape(text)}</title></rect>'
        for (left, low, right, high), text in tips
    )
    drawing = drawing.replace("<svg ", f'<svg style="min-width:{least}px" ', 1)
    return f'{drawing.removesuffix("</svg>")}<g class="tips">{boxes}</g></svg>'
