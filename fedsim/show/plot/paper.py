"""Figures on paper: how a chart is drawn by matplotlib, and how figures are written."""

import io
import threading
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Ticked
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from fedsim.ground.errors import UsageError
from fedsim.ground.files import replacing
from fedsim.show.chart import Axis, Chart, Marks, widened

_MARKERS = "osD^vPX*"
_LINES = ("-", "--", "-.", ":")
_MOST = 40  # marks of a line; of more points, some have one

# TrueType fonts inside PDF and PostScript, as journals ask for (matplotlib's own default is
# Type 3); letters as outlines in SVG. The salt gives equal figures equal files.
_FILES: Any = {
    "pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "fedsim",
}  # fmt: skip
_SETTINGS = threading.Lock()  # matplotlib's are global


class Drawing(Figure):
    """A figure that embeds its fonts in whatever file it is saved to, and shows in notebooks."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        with _SETTINGS, matplotlib.rc_context(_FILES):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        """What a notebook shows, without pyplot."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=100)
        return file.getvalue()


def drawing(width: float, height: float) -> Drawing:
    """An empty figure of so many inches."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def drawn(chart: Chart) -> Drawing:
    """`chart`, its legend beside it."""
    names = [plain(marks.name) for marks in chart.marks if marks.name]
    beside = 0.6 + 0.075 * max(map(len, names), default=0)  # inches: the axes keep their size
    figure = drawing(min(10.0, 5.2 + beside), 4.4 + (0.3 if chart.strip else 0))
    ratios = (14, 1) if chart.strip else (1,)
    rows = figure.subplots(len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
    axes, lowest = rows[0], rows[-1]
    for marks in chart.marks:
        _draw(axes, marks)
    for x, y, note in chart.notes:
        axes.annotate(
            plain(note), (x, y), (-5, 5 if chart.higher else -5), textcoords="offset points",
            fontsize=8, ha="right", va="bottom" if chart.higher else "top",
        )  # fmt: skip
    if chart.notes:
        axes.margins(x=0.18, y=0.1)
    for at, line in ((chart.at_x, axes.axvline), (chart.at_y, axes.axhline)):
        if at is not None:
            line(at, color="#777777", lw=1, linestyle=":", zorder=0)
    _scale(axes, "x", chart.x)
    _scale(axes, "y", chart.y)
    axes.set_ylabel(plain(chart.y.title))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(  # two columns where one would be longer than the figure
        loc="outside right center", frameon=False, fontsize=9 if len(names) <= 18 else 7,
        ncols=1 + len(names) // 28,
    )  # fmt: skip
    if chart.strip:
        for start, end, name in chart.strip.spans:
            edge = chart.strip.looks[name].colour  # shows what leads at a single point
            lowest.broken_barh([(start, end - start)], (0, 1), facecolor=edge, edgecolor=edge, lw=1)
        lowest.set_yticks([0.5], [chart.strip.name])
        lowest.tick_params(axis="y", length=0)
        lowest.spines[["top", "right", "left"]].set_visible(False)
    lowest.set_xlabel(plain(chart.x.title))
    title(figure, chart.title)
    return figure


def _draw(axes: Axes, marks: Marks) -> None:
    """A line with its band, or marks with their bars."""
    look, x, y = marks.look, np.asarray(marks.x, float), np.asarray(marks.y, float)
    if not len(x):  # an entry of the legend
        x = y = np.array([np.nan])
    style: Any = {"color": look.colour, "label": plain(marks.name) or "_"}
    symbol = "" if look.marker is None else _MARKERS[look.marker % len(_MARKERS)]
    if marks.kind != "points":
        steps = marks.kind == "steps"
        every: Any = range(len(x) - 1) if steps else max(1, len(x) // 8) if len(x) > _MOST else 1
        axes.plot(
            x, y, drawstyle="steps-post" if steps else "default", lw=marks.width, marker=symbol,
            markersize=marks.size, markevery=every, linestyle=_LINES[look.place % len(_LINES)],
            zorder=2 if symbol else 1, **style,
        )  # fmt: skip
        if (ranges := marks.ranges) is not None:
            ends = y - ranges[0], y + ranges[1]
            axes.fill_between(x, *ends, color=look.colour, alpha=0.15, lw=0)
        return
    bars = np.zeros((2, len(x))) if marks.ranges is None else marks.ranges
    hollow = np.array(marks.hollow or [False] * len(x), bool)
    edge, wide = (look.colour, 1.0) if marks.hollow else ("black", 0.6)
    for here, fill in ((~hollow, look.colour), (hollow, "none")):
        if here.any():  # all by errorbar: the legend has one kind of artist after the other
            axes.errorbar(
                x[here], y[here], bars[:, here], linestyle="", marker=symbol, markersize=marks.size,
                markeredgecolor=edge, markeredgewidth=wide, markerfacecolor=fill, zorder=2,
                **style,
            )  # fmt: skip
            style["label"] = "_"


def _scale(axes: Axes, which: Literal["x", "y"], axis: Axis) -> None:
    """The scale, the ends and the ticks of one axis."""
    ticked = axes.xaxis if which == "x" else axes.yaxis
    if axis.scale != "plain":
        axes.set(**{f"{which}scale": "log"})
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    if axis.limits is not None:
        low, high = max(low, axis.limits[0]), min(high, axis.limits[1])
        axes.set(**{f"{which}lim": (low, high)})
    if axis.scale != "plain":
        low, high = widened(low, high)
        axes.set(**{f"{which}lim": (low, high)})
        ticked.set_major_locator(FixedLocator(axis.ticks(low, high)))
        ticked.set_major_formatter(FuncFormatter(lambda value, _: axis.tick(value)))
        ticked.set_minor_formatter(NullFormatter())
        if axis.scale != "bits":
            ticked.set_minor_locator(NullLocator())


def title(figure: Figure, text: str) -> None:
    """Lines above a figure, each as long as the figure is wide."""
    width = int(13 * figure.get_figwidth())  # about 13 characters an inch at this size
    lines = [part for line in text.split("\n") for part in wrap(line, width)]
    figure.suptitle(plain("\n".join(lines)), fontsize=10, x=0.02, ha="left")


def plain(text: str) -> str:
    """Text in which a dollar is a dollar: to matplotlib it would begin a formula."""
    return text.replace("$", r"\$")


def plain_ticks(axis: Ticked, steps: Sequence[float] = (1, 2, 5)) -> None:
    """Plain numbers along a logarithmic axis, at `steps` and their multiples by powers of ten.

    Example:
        plain_ticks(axes.yaxis, (1, 1.5, 2, 3, 5, 7))
    """
    axis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, path: Path | str) -> None:
    """Writes `figure`, whole or not at all: PNG at 150 dpi, or what the suffix says (pdf, svg).

    Raises:
        UsageError: a suffix that matplotlib cannot write, or a folder that is not there.
    """
    kind = Path(path).suffix.lstrip(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise UsageError(f"figure file {path}: the suffix must be png, pdf, svg or such.")
    if not Path(path).parent.is_dir():
        raise UsageError(f"figure file {path}: there is no folder {Path(path).parent}.")
    dates = {"pdf": "CreationDate", "svg": "Date"}
    metadata = {dates[kind]: None} if kind in dates else None
    layout, dpi = figure.get_layout_engine(), figure.dpi
    if layout is not None and kind == "png":  # else it is drawn twice, once for the layout alone
        figure.set_dpi(150)
        layout.execute(figure)
        figure.set_layout_engine("none")
    try:
        with replacing(path) as file:
            figure.savefig(file, format=kind, dpi=150, metadata=metadata)
    finally:
        figure.set_layout_engine(layout)
        figure.set_dpi(dpi)
