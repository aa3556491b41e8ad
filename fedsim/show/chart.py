"""A figure as it is described: what is drawn, on which axes, in which words.

`fedsim.show.plot` draws it for screens, papers and the page. Texts are plain here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10, sqrt
from typing import Literal

import numpy as np

from fedsim.ground import units
from fedsim.show.style import Look

GREY = "#777777"
_DECADES = 50  # a range so wide holds powers of ten enough
_LEAST = 4.0  # the least range of a logarithmic axis: in less, the names of ticks overlap
_TIMES = (
    0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400 * 2, 86_400 * 20, 86_400 * 200,
    86_400 * 2000,
)  # fmt: skip
_FINE = tuple(
    digit * unit
    for unit, digits in (
        (0.001, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1, (1, 2, 5, 10, 20, 30)),
        (60, (1, 2, 5, 10, 20, 30)),
        (3600, (1, 2, 5, 10, 24)),
        (86_400, (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)),
    )
    for digit in digits
)
_ONE = {"60 s": "1 min", "60 min": "1 h"}


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        title: what is along it, with the unit.
        scale: "plain" has even steps; every other is logarithmic, with the unit at its ticks.
        metric: the metric along it, if it is one: a fraction is not drawn beyond 0 and 1.
        rows: (R,) names of rows from the top down, row k at k; empty: the axis has numbers.
        height: of a row, in inches.
    """

    title: str = ""
    scale: Literal["plain", "bits", "rates", "seconds", "percent"] = "plain"
    metric: str = ""
    rows: Sequence[str] = ()
    height: float = 0.3

    @property
    def limits(self) -> tuple[float, float] | None:
        """Where the axis of a fraction ends, with a mark's breadth; None of anything else."""
        return (-0.02, 1.02) if self.metric in units.FRACTIONS else None

    def tick(self, value: float) -> str:
        """The text of a round value: `2 Mbit`, `10 min`, `100 kbit/s`."""
        if self.scale == "seconds":
            number, unit = units.duration(value * 1.000001).split()
            return _ONE.get(text := f"{float(number):g} {unit}", text)
        if self.scale == "percent":
            return units.plain(value)
        return units.round_bits(value) + ("/s" if self.scale == "rates" else "")

    def ticks(self, low: float, high: float) -> list[float]:
        """Round values from below `low` to above `high`; of few decades more, as at 2 and 5."""
        if self.scale == "seconds":
            return list(_TIMES if high > _DECADES * low else _FINE)
        powers = range(floor(log10(low)) - 2, ceil(log10(high)) + 3)
        if self.scale == "rates":  # at every power of ten their names would overlap
            return [10.0**power for power in powers if power % 2]
        digits = (1,) if high > _DECADES * low else (1, 2, 5)
        return [digit * 10.0**power for power in powers for digit in digits]


def widened(low: float, high: float) -> tuple[float, float]:
    """The ends of a logarithmic axis from `low` to `high`, a factor of 4 apart or more.

    Example:
        >>> widened(1, 100), widened(9, 16)
        ((1, 100), (6.0, 24.0))
    """
    if high >= _LEAST * low:
        return low, high
    middle = sqrt(low * high)
    return middle / sqrt(_LEAST), middle * sqrt(_LEAST)


@dataclass(frozen=True, kw_only=True)
class Marks:
    """A line, or marks that none joins, of one look.

    Attributes:
        x, y: (N,) where they are; if empty, there is only the entry in the legend.
        look: colour, line style and marker.
        name: the entry in the legend; empty: none.
        kind: "line" joins the points, "steps" keeps each y as far as the next x, "bars" lie along
            x in row y.
        texts: the text that the page shows for each at the pointer; empty: none.
        low, high: (N,) the range of each: a line has a band, other marks have bars.
        start: (N,) where bars begin; they end at x.
        hollow: whether marks are, in place of a black edge.
        direct_label: whether its name may be written next to it instead of in the legend.
        size: of a mark, in points.
        width: of a line, in points.
    """

    x: np.ndarray | Sequence[float] = ()
    y: np.ndarray | Sequence[float] = ()
    look: Look = Look(GREY, 0, None)
    name: str = ""
    kind: Literal["line", "steps", "points", "bars"] = "line"
    texts: Sequence[str] = ()
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    start: np.ndarray | Sequence[float] = ()
    hollow: bool = False
    direct_label: bool = True
    size: float = 4
    width: float = 1.7

    @property
    def ranges(self) -> np.ndarray | None:
        """(2, N) from the least to y, and from y to the greatest; None where there is no range."""
        if self.low is None or self.high is None or not (self.high > self.low).any():
            return None
        return np.stack([self.y - self.low, self.high - self.y])

    @property
    def corners(self) -> np.ndarray:
        """(N, 2) the points, and of steps the corners between them."""
        pairs = np.column_stack([self.x, self.y]).astype(float)
        if self.kind != "steps":
            return pairs
        turns = np.column_stack([pairs[1:, 0], pairs[:-1, 1]])
        return np.insert(pairs, range(1, len(pairs)), turns, axis=0)

    def end(self, higher: bool) -> tuple[float, float]:
        """The point next to which the name is written: a line's end, or the best of other marks."""
        scores = np.asarray(self.y, float)
        best = int(scores.argmax() if higher else scores.argmin())
        place = best if self.kind == "points" else -1
        return float(self.x[place]), float(scores[place])


@dataclass(frozen=True)
class Strip:
    """A bar above a figure, in the colour of what leads where.

    Attributes:
        name: what leading is called: "best", "fastest".
        spans: from, to and what leads.
        looks: how that looks.
    """

    name: str
    spans: Sequence[tuple[float, float, str]]
    looks: Mapping[str, Look]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure of lines and marks.

    Attributes:
        title: above it; the page has its section's heading instead.
        caption: what it shows, for the page.
        x, y: its axes.
        marks: in the order of the legend.
        strip: the bar along it; None: there is none.
        notes: texts next to points (x, y), on the empty side: towards low x, and towards the
            better y.
        higher: whether a higher y is the better.
        at_y: where a dotted line crosses the figure.
    """

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Marks]
    caption: str = ""
    strip: Strip | None = None
    notes: Sequence[tuple[float, float, str]] = ()
    higher: bool = True
    at_y: float | None = None


def stacked(
    parts: Mapping[str, tuple[str, np.ndarray, Sequence[str]]], rows: Sequence[str], x: Axis
) -> Chart:
    """Returns a chart of one bar per row, each made of parts that follow each other.

    Args:
        parts: by its name each part's colour, its (R,) lengths, and its (R,) texts at the pointer.
        rows: (R,) names of the bars, from the top down.
        x: the axis along them.

    Example:
        >>> parts = {"a": ("#000000", np.ones(2), "ab"), "b": ("#ffffff", np.ones(2), "cd")}
        >>> [bar.start.tolist() for bar in stacked(parts, ["first", "second"], Axis()).marks]
        [[0.0, 0.0], [1.0, 1.0]]
    """
    start, marks = np.zeros(len(rows)), []
    for name, (colour, lengths, texts) in parts.items():
        marks.append(
            Marks(
                x=start + lengths,
                y=np.arange(len(rows)),
                start=start,
                kind="bars",
                texts=texts,
                look=Look(colour, 0, None),
                name=name if len(parts) > 1 else "",
                direct_label=False,
            )
        )
        start = start + lengths
    return Chart(title="", x=x, y=Axis(rows=rows), marks=marks)
