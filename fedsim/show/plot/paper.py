"""Drawing of charts by matplotlib, and writing of figures to files."""

import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from fedsim.show.chart import Axis, Chart, Marks, Strip, widened
from fedsim.show.plot import labels
from fedsim.show.plot.styles import Style, StyleName, style_of

_MARKERS = "osD^vPX*"
_LINES: Sequence[Any] = (
    "-",
    "--",
    "-.",
    ":",
    (0, (3, 4)),
    (0, (6, 1.5, 1, 1.5, 1, 1.5)),
    (0, (1, 4)),
    (0, (4, 1, 4, 1, 1, 1)),
)
_MOST = 40  # marks of a line; of more points, some have one
BAR = 0.75  # of a row
DPI = 300
"""Dots an inch of a picture in a file, as journals ask for."""

# TrueType fonts inside PDF and PostScript, as journals ask for (matplotlib's own default is
# Type 3); letters as outlines in SVG. The salt gives equal figures equal files.
_FILES: Any = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "fedsim",
}
_SETTINGS = threading.Lock()  # matplotlib's are global


@contextmanager
def without_rc() -> Iterator[None]:
    """Inside, matplotlib draws as without a ``matplotlibrc``: what commands and reports write.

    A machine's own may ask for LaTeX (``text.usetex``), which may not be there.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield


class Drawing(Figure):
    """A figure that embeds its fonts in every file that it is saved to, and shows in notebooks."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        with _SETTINGS, matplotlib.rc_context(_FILES):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        return png(self)


class Shown(Axes):
    """Axes that a notebook shows, and `savefig` writes, with their whole figure."""

    name = "fedsim"

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """See ``Figure.savefig``."""
        whole_of(self).savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        return png(self)


def whole_of(axes: Axes) -> Figure:
    """The figure that axes are part of."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def png(figure: Figure | Axes) -> bytes:
    """A figure, or that of axes, as a notebook shows it."""
    file = io.BytesIO()
    (whole_of(figure) if isinstance(figure, Axes) else figure).savefig(file, format="png", dpi=100)
    return file.getvalue()


def drawing(width: float, height: float) -> Drawing:
    """An empty figure of so many inches."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def drawn(
    chart: Chart,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    style: StyleName = "screen",
) -> Axes:
    """Draws `chart` on axes and returns them; arguments as of `fedsim.plot.curves`.

    Names are in a legend: at the side of a figure on a screen or a page, below a figure in a paper,
    and within axes that the caller passes. Many names, and names of lines in a paper, are written
    next to their marks instead; on a page, only names of points are. If a name of a line would
    cover a line or another name, the figure has a legend again.
    """
    axes, clear = _drawn(chart, ax, figsize, style, named=True)
    return axes if clear or ax is not None else _drawn(chart, None, figsize, style, named=False)[0]


def _drawn(
    chart: Chart,
    ax: Axes | None,
    figsize: tuple[float, float] | None,
    style: StyleName,
    named: bool,
) -> tuple[Axes, bool]:
    """Axes with the chart, and whether names next to lines are clear of all lines.

    ``named``: whether names may be written next to lines.
    """
    look, labelled = style_of(style), labels.named(chart)
    lines = all(marks.kind != "points" for marks in labelled)
    look = look.fitted(figsize if ax is None else None, (look.width, look.height))
    many = len(labelled) > (1 if lines and look.column else labels.MAX_LABELS)
    page = style == "page"  # there the pointer tells lines apart
    direct = many and not (lines and (page or not named))
    direct_names = {marks.name for marks in labelled} if direct else set()
    entries = [m.name for m in chart.marks if m.name and m.name not in direct_names]
    if ax is None:
        wide = 0.0 if look.column else 0.6 + 0.08 * max(map(len, entries), default=0)
        room = 0.16 * len(labelled) if direct else 0.0  # inches of so many names
        high = max(look.height, 0.8 + room)
        if chart.y.rows:
            high = 0.9 + chart.y.height * len(chart.y.rows)
        if look.column and entries:
            high += 0.13 * (-(-len(entries) // _columns(entries, look, look.width)) - 1)
        width, height = figsize or (look.width + wide, high)
        axes: Axes = drawing(width, height).add_subplot(axes_class=Shown)
    else:
        axes = ax
    for marks in chart.marks:
        _draw(
            axes,
            marks,
            "" if marks.name in direct_names else without_formulas(marks.name),
            look.scale,
        )
    if chart.notes:
        axes.margins(x=0.18, y=0.1)
    elif direct and any(marks.kind == "points" for marks in labelled):  # names are around them
        axes.margins(x=0.1, y=0.2)
    if chart.at_y is not None:
        axes.axhline(chart.at_y, color="#777777", lw=1, linestyle=":", zorder=0)
    inches = 1 / whole_of(axes).dpi
    _scale(axes, "x", chart.x, look, axes.bbox.width * inches)
    _scale(axes, "y", chart.y, look, axes.bbox.height * inches)
    axes.grid(alpha=0.25)
    if chart.y.rows:  # lines between rows
        axes.grid(False, axis="y")
        axes.grid(alpha=0.5, axis="y", which="minor")
    if any(marks.kind == "bars" for marks in chart.marks):
        axes.margins(x=0)
        axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if chart.strip:
        _lead(axes, chart.strip, look)
    if ax is None and look.titled:
        title(whole_of(axes), chart.title, look)
    if entries:
        _legend(axes, entries, look, ax is None)
    clear = not (direct or chart.notes) or labels.place_labels(axes, chart, look, direct_names)
    return axes, clear or not lines


def _legend(axes: Axes, entries: Sequence[str], look: Style, outside: bool) -> None:
    """The legend: on the figure where the axes have it to themselves (``outside``)."""
    if not outside:
        axes.legend(frameon=False, fontsize=look.small, loc="best")
        return
    handles = axes.get_legend_handles_labels()
    if not look.column:  # two columns where one would be longer than the figure
        whole_of(axes).legend(
            *handles,
            loc="outside right center",
            frameon=False,
            fontsize=min(9 if len(entries) <= 18 else 7, look.small + 0.5),
            ncols=1 + len(entries) // 28,
        )
        return
    columns = _columns(entries, look, whole_of(axes).get_figwidth())
    whole_of(axes).legend(
        *handles,
        loc="outside lower center",
        frameon=False,
        fontsize=look.small,
        ncols=columns,
        handlelength=1.6,
        columnspacing=1.0,
        borderpad=0,
    )


def _columns(entries: Sequence[str], look: Style, inches: float) -> int:
    """How many columns of a legend fit below a figure; matplotlib fills column by column."""
    letters = [len(entry) * 0.56 + 4.5 for entry in entries]  # with the space before and behind
    for columns in range(len(entries), 1, -1):
        high = -(-len(entries) // columns)
        wide = sum(max(letters[k : k + high]) for k in range(0, len(entries), high))
        if wide < 72 * inches / look.small:
            return columns
    return 1


def _lead(axes: Axes, strip: Strip, look: Style) -> None:
    for start, end, name in strip.spans:
        edge = strip.looks[name].colour  # shows what leads at a single point
        axes.broken_barh(
            [(start, end - start)],
            (1.02, 0.035),
            facecolor=edge,
            edgecolor=edge,
            lw=1,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )
    axes.annotate(
        f"{strip.name} ",
        (0, 1.0375),
        xycoords="axes fraction",
        fontsize=look.small,
        ha="right",
        va="center",
        annotation_clip=False,
    )


def _draw(axes: Axes, marks: Marks, name: str, scale: float) -> None:
    """A line with its band, or marks with their bars; ``name``: in the legend, empty: none."""
    look, x, y = marks.look, np.asarray(marks.x, float), np.asarray(marks.y, float)
    style: Any = {"color": look.colour, "label": name or "_"}
    symbol = "" if look.marker is None else _MARKERS[look.marker % len(_MARKERS)]
    if marks.kind == "bars":
        start = np.asarray(marks.start, float)
        axes.barh(y, x - start, BAR, left=start, **style)
        return
    if marks.kind != "points":
        steps = marks.kind == "steps"
        few = len(x) <= _MOST * scale
        step: Any = max(1, len(x) // 8) if not few else range(len(x) - 1) if steps else 1
        axes.plot(
            x,
            y,
            drawstyle="steps-post" if steps else "default",
            lw=scale * marks.width,
            marker=symbol,
            markersize=scale * marks.size,
            markevery=step,
            linestyle=_LINES[look.place % len(_LINES)],
            zorder=2 if symbol else 1,
            **style,
        )
        if (ranges := marks.ranges) is not None:
            ends = y - ranges[0], y + ranges[1]
            axes.fill_between(x, *ends, color=look.colour, alpha=0.15, lw=0)
        return
    if not len(x):  # an entry of the legend
        x = y = np.array([np.nan])
    edge, wide = (look.colour, 1.0) if marks.hollow else ("black", 0.6)
    axes.errorbar(  # all by errorbar: the legend has one kind of artist after the other
        x,
        y,
        marks.ranges,
        linestyle="",
        marker=symbol,
        markersize=scale * marks.size,
        markeredgecolor=edge,
        markeredgewidth=scale * wide,
        markerfacecolor="none" if marks.hollow else look.colour,
        elinewidth=1.5 * scale,
        zorder=2,
        **style,
    )


def _scale(axes: Axes, which: Literal["x", "y"], axis: Axis, look: Style, inches: float) -> None:
    """The scale, the ends, the ticks and the title of one axis, which is so long."""
    ticked = axes.xaxis if which == "x" else axes.yaxis
    if axis.rows:
        ticked.set_ticks(range(len(axis.rows)), [without_formulas(name) for name in axis.rows])
        ticked.set_minor_locator(FixedLocator([row + 0.5 for row in range(len(axis.rows) - 1)]))
        axes.tick_params(axis=which, which="both", length=0, labelsize=look.font)
        axes.set(**{f"{which}lim": (len(axis.rows) - 0.5, -0.5)})
        return
    if axis.scale != "plain":
        axes.set(**{f"{which}scale": "log"})
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    if axis.limits is not None:
        low, high = max(low, axis.limits[0]), min(high, axis.limits[1])
        axes.set(**{f"{which}lim": (low, high)})
    if axis.scale != "plain":
        low, high = widened(low, high)
        axes.set(**{f"{which}lim": (low, high)})
        ticks = [tick for tick in axis.ticks(low, high) if low <= tick <= high]
        letters = max((len(axis.tick(tick)) for tick in ticks), default=0) + 2.5
        room = max(2, int(look.letters(inches) / (letters if which == "x" else 4)))
        ticked.set_major_locator(FixedLocator(ticks[:: -(-len(ticks) // room) or 1]))
        ticked.set_major_formatter(FuncFormatter(lambda value, _: axis.tick(value)))
        ticked.set_minor_formatter(NullFormatter())
        if axis.scale != "bits":
            ticked.set_minor_locator(NullLocator())
    axes.tick_params(axis=which, labelsize=look.font)
    lines = wrap(without_formulas(axis.title), look.letters(inches))
    ticked.set_label_text("\n".join(lines), fontsize=look.font)


def title(figure: Figure, text: str, look: Style) -> None:
    """Lines above a figure, each as long as the figure is wide."""
    width = int(130 / look.font * figure.get_figwidth())  # about 13 characters an inch of size 10
    lines = [part for line in text.split("\n") for part in wrap(line, width)]
    figure.suptitle(without_formulas("\n".join(lines)), fontsize=look.font, x=0.02, ha="left")


def without_formulas(text: str) -> str:
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


def save(figure: Figure | Axes, path: Path | str) -> None:
    """Writes `figure`, or that of axes, whole or not at all: PNG at 300 dpi, or what the suffix
    says (pdf, svg).

    Raises:
        UsageError: a suffix that matplotlib cannot write, or a folder that is not there.
    """
    if isinstance(figure, Axes):
        figure = whole_of(figure)
    kind = Path(path).suffix.lstrip(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise UsageError(f"figure file {path}: the suffix must be png, pdf, svg or such.")
    if not Path(path).parent.is_dir():
        raise UsageError(f"figure file {path}: there is no folder {Path(path).parent}.")
    dates = {"pdf": "CreationDate", "svg": "Date"}
    metadata = {dates[kind]: None} if kind in dates else None
    layout, dpi = figure.get_layout_engine(), figure.dpi
    if layout is not None and kind == "png":  # else it is drawn twice, once for the layout alone
        figure.set_dpi(DPI)
        layout.execute(figure)
        figure.set_layout_engine("none")
    try:
        with replacing(path) as file:
            figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
    finally:
        figure.set_layout_engine(layout)
        figure.set_dpi(dpi)
