"""What all figures share: size, title, legend, and how they are written."""

import io
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import sqrt
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from fedsim import units
from fedsim.errors import UsageError
from fedsim.files import replacing
from fedsim.show.planes import method_text
from fedsim.show.style import Look

MARKERS = "osD^vPX*"
LINES = ("-", "--", "-.", ":")
GREY = "#777777"
_LEAST = 4.0
_DECADES = 50  # a range so wide holds powers of ten enough

# TrueType fonts inside PDF and PostScript, as journals ask for (matplotlib's own default is
# Type 3); letters as outlines in SVG. The salt gives equal figures equal files.
_FILES: Any = {
    "pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "fedsim",
}  # fmt: skip
_SETTINGS = threading.Lock()  # matplotlib's are global


class Drawing(Figure):
    """A figure that embeds its fonts in whatever file it is saved to, and shows in notebooks."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """See ``matplotlib.figure.Figure.savefig``."""
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
    with replacing(path) as file, _laid_out(figure, 150 if kind == "png" else None):
        figure.savefig(file, format=kind, dpi=150, metadata=metadata)


@contextmanager
def _laid_out(figure: Figure, dpi: float | None) -> Iterator[None]:
    """Solves the layout of `figure` at so many dots per inch. Else matplotlib would draw the figure
    twice, once for the layout alone. None: leaves that to matplotlib."""
    layout, before = figure.get_layout_engine(), figure.dpi
    if layout is None or dpi is None:
        yield
        return
    figure.set_dpi(dpi)
    layout.execute(figure)
    figure.set_layout_engine("none")
    try:
        yield
    finally:
        figure.set_layout_engine(layout)
        figure.set_dpi(before)


def title(figure: Figure, frame: pd.DataFrame, more: Sequence[str] = ()) -> None:
    """Task and method, and the lines of `more`, above a figure."""
    tasks = ", ".join(frame["task"].unique())
    # About 13 characters an inch at this size. "$" would begin a formula.
    lines = wrap(f"{tasks}: {method_text(frame)}", int(13 * figure.get_figwidth()))
    text = plain("\n".join([*lines, *more]))
    figure.suptitle(text, fontsize=10, x=0.02, ha="left")


def finish(axes: Axes, x: str, y: str) -> None:
    """Axes' names, grid and frame, and the legend beside them."""
    axes.set_xlabel(x)
    axes.set_ylabel(plain(y))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    entries = len(axes.get_legend_handles_labels()[0])
    axes.figure.legend(  # two columns where one would be longer than the figure
        loc="outside right center", frameon=False, fontsize=9 if entries <= 18 else 7,
        ncols=1 + entries // 28,
    )  # fmt: skip


def strip(
    axes: Axes, spans: Iterable[tuple[float, float, str]], looks: Mapping[str, Look], name: str
) -> None:
    """A bar below a figure in the colour of the method that leads where, called `name`.

    Args:
        axes: the bar's own, below the figure's.
        spans: from, to and label of each method that leads.
        looks: how the methods look, by label.
        name: what leading is called: `best`, `fastest`.
    """
    for start, end, method in spans:
        colour = looks[method].colour  # the edge shows a method that leads at a single point
        axes.broken_barh([(start, end - start)], (0, 1), facecolor=colour, edgecolor=colour, lw=1)
    axes.set_yticks([0.5], [name])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def plain_ticks(axis: Axis, steps: Sequence[float] = (1, 2, 5)) -> None:
    """Plain numbers along a logarithmic axis, at `steps` and their multiples by powers of ten.

    Example:
        plain_ticks(axes.yaxis, (1, 1.5, 2, 3, 5, 7))
    """
    axis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axis.set_minor_formatter(NullFormatter())


def logarithmic(axes: Axes) -> None:
    """A logarithmic x axis of bits, a factor of 4 wide or more: in less the ticks' names overlap.

    Ticks have the tables' units, and stand at powers of ten, of few decades at 2 and 5 too.
    """
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    if high < _LEAST * low:
        middle = sqrt(low * high)
        low, high = middle / sqrt(_LEAST), middle * sqrt(_LEAST)
        axes.set_xlim(low, high)
    plain_ticks(axes.xaxis, (1,) if high > _DECADES * low else (1, 2, 5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda bits, _: units.round_bits(bits)))


def within(axes: Axes, name: str) -> None:
    """Of a metric that is a fraction, no axis beyond 0 and 1, but for a marker's breadth."""
    if name in units.FRACTIONS:
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -0.02), min(high, 1.02))


def marker(look: Look) -> str:
    """matplotlib's marker of a look."""
    return MARKERS[look.marker % len(MARKERS)]


def plain(text: str) -> str:
    """Text in which a dollar is a dollar and no formula."""
    return text.replace("$", r"\$")
