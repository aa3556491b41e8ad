"""The sparsity plane as a heatmap is described: cells, their texts, and one scale of colours."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Literal

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.results.aliases import column_of
from fedsim.results.labels import of_method
from fedsim.show.columns import sends_other_shares
from fedsim.show.figures import titled
from fedsim.show.headline import interval_width, samples_of
from fedsim.show.inputs import check_frame
from fedsim.show.planes import Plane, planes
from fedsim.show.style import (
    CellKey,
    cell_label,
    higher_is_better,
    ink,
    metric_name,
    shared_reference,
)

_FAR = 3.0  # times the middle half's width beyond it: Tukey's "far out"
_LEAST_ERROR = 1e-4
_APART = 0.07  # of the scale: a line of text in a column of a paper
_COSTS = ("loss", "failures", "lost", "client_metric_spread")  # and all bits and seconds
_METRICS = ("metric", "client_metric_mean", "client_metric_worst")
JOINED = "Short lines join cells of equal total sparsity p/n."


@dataclass(frozen=True)
class Shades:
    """Which of cividis' colours a value has: brighter is better.

    A value far from all others takes the colour of the scale's end: else they would all look the
    same.

    Attributes:
        low, high: the values at the ends.
        scale: "plain" has even steps; "ratios": equal ratios are equal steps, of ratios and bits;
            "error": so are those of 1 - value, of a metric that is a fraction.
        turned: whether low values are the bright ones.
        single: whether there is at most one value: a single colour needs no scale.
        beyond: whether some value is below `low`, and some above `high`.
        widened: whether all values are within a typical cell's interval, which the scale spans.
    """

    low: float
    high: float
    scale: Literal["plain", "ratios", "error"]
    turned: bool
    single: bool
    beyond: tuple[bool, bool] = (False, False)
    widened: bool = False

    @classmethod
    def of(cls, values: np.ndarray, name: str, turned: bool, least: float = 0.0) -> "Shades":
        """The scale of known values of a column or metric, which spans ``least`` or more."""
        scale: Literal["plain", "ratios", "error"] = "plain"
        if name in units.FRACTIONS and not turned:
            scale = "error"
        elif (name.startswith("ratio") or name.endswith(units.OF_BITS)) and (values > 0).all():
            scale = "ratios"
        if len(np.unique(values)) < 2:  # a single value is drawn bright, not in the middle's grey
            value = float(values[0]) if len(values) else 0.5
            below, above = (1, 3) if turned else (3, 1)
            if scale == "ratios":
                return cls(value / 10**below, value * 10**above, scale, turned, True)
            return cls(value - below, value + above, "plain", turned, True)
        if len(np.unique(_steps(values, scale))) < 2:  # errors too small to tell apart
            scale = "plain"
        steps = _steps(values, scale)
        first, third = np.quantile(steps, (0.25, 0.75))
        reach = _FAR * max(third - first, 1e-12)
        near = values[(steps >= first - reach) & (steps <= third + reach)]
        if len(np.unique(_steps(near, scale))) < 2:  # what differs is what there is to see
            near = values
        low, high = float(near.min()), float(near.max())
        if widened := high - low < least:
            middle = (low + high) / 2
            low, high = middle - least / 2, middle + least / 2
            if name in units.FRACTIONS:
                low, high = max(low, 0.0), min(high, 1.0)
        beyond = (bool(values.min() < low), bool(values.max() > high))
        return cls(low, high, scale, turned, False, beyond, widened)

    def place(self, values: np.ndarray) -> np.ndarray:
        """The places of values on the scale: 0 at `low`, 1 at `high`; NaN stays."""
        low, high = _steps(np.array([self.low, self.high]), self.scale)
        places: np.ndarray = np.clip((_steps(values, self.scale) - low) / (high - low), 0, 1)
        return places

    def round_values(self) -> list[float]:
        """Round values along the scale, few enough for it, and some beyond."""
        low, high, scale = self.low, self.high, self.scale
        if scale == "plain":
            step = 10.0 ** floor(log10((high - low) / 2))
            step *= next(k for k in (5, 2, 1) if (high - low) / (k * step) >= 2)
            return [k * step for k in range(ceil(low / step), floor(high / step) + 1)]
        if scale == "error":
            return [1 - d * 10.0**-k for k in range(1, 5) for d in (9, 7, 5, 3, 2, 1)]
        wide = range(floor(log10(low)), ceil(log10(high)) + 1)
        finer = (1,) if log10(high / low) > 1.5 else (1, 2, 5)
        return [digit * 10.0**power for power in wide for digit in finer]

    def ticks(self, name: str) -> list[tuple[float, str]]:
        """Places on the scale of round values of the column `name`, with their texts, ascending."""
        rounded = self.round_values()
        text_of = (
            (lambda x: f"{x:.10g}") if self.scale == "plain" else (lambda x: tick_text(x, name))
        )
        marks = {x: text_of(x) for x in rounded if self.low <= x <= self.high}
        if len(marks) < 2:
            marks = {x: shade_text(x, name) for x in (self.low, self.high)}
        for end, outside, sign in zip((self.low, self.high), self.beyond, "≤≥", strict=True):
            if outside:
                span = abs(self.place(np.array([*marks, end])))
                near = {x for x, at in zip(marks, span, strict=False) if abs(at - span[-1]) < 0.08}
                marks = {x: text for x, text in marks.items() if x not in near}
                marks[end] = f"{sign} {shade_text(end, name)}"
        spaced: list[tuple[float, str]] = []
        for at, text in sorted((float(self.place(np.array(x))), t) for x, t in marks.items()):
            if (
                not spaced or at - spaced[-1][0] > _APART
            ):  # else one would be written over the other
                spaced.append((at, text))
        return spaced

    def ink(self, value: float) -> str:
        """The colour of a text on that of a value: black or white."""
        from matplotlib import colormaps  # half a second that only figures should wait

        place = float(self.place(np.array(value)))
        return ink(colormaps["cividis"](1 - place if self.turned else place))


@dataclass(frozen=True)
class Heat:
    """The planes of methods, on one scale of colours.

    Attributes:
        title: task and method.
        name: the metric or the column that is shown.
        panels: a plane per method, by its label.
        shades: the scale.
    """

    title: str
    name: str
    panels: Mapping[str, Plane]
    shades: Shades

    @property
    def joined(self) -> bool:
        """Whether cells of some plane are joined by lines."""
        return any(grid.diagonals() for grid in self.panels.values())

    @property
    def legend_text(self) -> str:
        """Sentences that explain colours and hatching; empty where there is nothing to add."""
        texts = {
            "error": f" Colours go by the logarithm of the error, 1 - {self.name}.",
            "ratios": " Colours are logarithmic.",
        }
        text = texts.get(self.shades.scale, "")
        if any(self.shades.beyond):
            text += " A value far from all others has the colour of the scale's end."
        if self.shades.widened:
            text += " The scale spans a typical cell's 95 % interval: differences may be chance."
        places = ((grid, at) for grid in self.panels.values() for at in np.ndindex(grid.done.shape))
        if any(self.fewer(*place) for place in places):
            text += " Hatched: fewer seeds than other cells."
        return text

    @property
    def seeds(self) -> int:
        """The most seeds of any cell."""
        return max(int(grid.done.max()) for grid in self.panels.values())

    def fewer(self, grid: Plane, at: tuple[int, int]) -> bool:
        """Whether a cell has a value, of fewer seeds than another."""
        return bool(np.isfinite(grid.values[at]) and grid.done[at] < self.seeds)

    def lines(self, grid: Plane, at: tuple[int, int]) -> list[str]:
        """The texts of a cell: its value, and of several seeds their deviation and number."""
        value, spread = shade_text(float(grid.values[at]), self.name), float(grid.spread[at])
        count = f"{grid.done[at]} of {self.seeds}" if self.fewer(grid, at) else f"{grid.done[at]}"
        if spread == spread:
            if not self.name.startswith("ratio") and not self.name.endswith(units.OF_BITS):
                value = units.averaged(float(grid.values[at]), spread, self.name).split(" ±")[0]
            return [value, spread_text(spread, count, self.name)]
        return [value, f"({count})"] if self.fewer(grid, at) else [value]

    def notes(self, grid: Plane) -> list[str]:
        """The lines above a plane, next to its title: the dense reference that is off the grid."""
        dense = () if grid.dense is None else (grid.dense,)
        symbol = next(iter(self.panels.values())).symbol
        return [f"dense reference ({symbol} = 1, p = 1): {shade_text(x, self.name)}" for x in dense]


def spread_text(value: float, seeds: int | str, name: str) -> str:
    """A sample standard deviation of so many seeds as a cell shows it: `± 0.0361 (3)`."""
    if name.startswith("ratio"):
        return f"± {units.digits(value)} ({seeds})"
    decimals = units.decimal_places(value, name)
    text = units.bits(value) if name.endswith(units.OF_BITS) else f"{value:.{decimals}f}"
    return f"± {text} ({seeds})"


def shade_text(value: float, name: str) -> str:
    """A value of the column or metric `name` as a cell shows it."""
    if name.startswith("ratio"):
        return units.ratio(value)
    return units.bits(value) if name.endswith(units.OF_BITS) else units.score(value, name)


def heat(runs: pd.DataFrame, value: str = "metric", method: str | None = None) -> Heat:
    """The planes of `runs`; arguments and errors as of `fedsim.plot.matrix`."""
    check_frame(runs, "runs", "matrix()")
    value = column_of(value, runs.columns, {*runs.get("metric_name", ())})
    grids = planes(runs, value, method)
    shown = of_method(runs, method) if method is not None else runs
    name = metric_name(shown) if value == "metric" else value
    values = np.concatenate([grid.values.ravel() for grid in grids.values()])
    turned = value in _COSTS or value.endswith((*units.OF_BITS, "seconds"))
    turned |= value in _METRICS and not higher_is_better(shown)
    finite = values[np.isfinite(values)]
    least = _noise(grids, finite, samples_of(shown)) if value == "metric" else 0.0
    return Heat(titled(shown), name, grids, Shades.of(finite, name, turned, least))


def _noise(grids: Mapping[str, Plane], values: np.ndarray, samples: int | None) -> float:
    if not len(values):
        return 0.0
    spread, done = (
        np.concatenate([part.ravel() for part in parts]).tolist()
        for parts in ([g.spread for g in grids.values()], [g.done for g in grids.values()])
    )
    return interval_width(spread, done, float(np.median(values)), samples)


def _steps(values: np.ndarray, scale: str) -> np.ndarray:
    """`values` so that equal steps look equal, rising with them."""
    if scale == "error":
        return -np.log10(np.maximum(1 - values, _LEAST_ERROR))
    return np.log10(values) if scale == "ratios" else values


def tick_text(value: float, name: str) -> str:
    """A round value of the column or metric `name`: `0.99`, `×100`, `2 Mbit`."""
    if name.startswith("ratio"):
        return f"×{value:.6g}"
    return units.round_bits(value) if name.endswith(units.OF_BITS) else f"{value:.6g}"


def joints(grid: Plane) -> list[tuple[tuple[float, float], ...]]:
    """The ends (column, row) of the lines between neighbours on a diagonal of the plane.

    They lie around the cells' common corner, so that no text is crossed.
    """
    return [
        tuple((column + t * (left - column), row + t * (below - row)) for t in (0.32, 0.68))
        for cells in grid.diagonals()
        for (row, column), (below, left) in zip(cells, cells[1:], strict=False)
    ]


def cell_texts(runs: pd.DataFrame, grid: Plane) -> np.ndarray:
    """(R, C) the page's text of each cell: its n and p, the means of its runs, their number."""
    runs = runs[~shared_reference(runs)]
    name, done = metric_name(runs), runs[runs["status"] == "done"]
    by_cell = done.assign(_other=sends_other_shares(done)).groupby(["temporal", "gradient"])
    means = by_cell.mean(numeric_only=True).to_dict("index")
    texts = np.empty(grid.values.shape, object)
    for at in np.ndindex(grid.values.shape):
        n, p = grid.temporals[at[0]], grid.gradients[at[1]]
        lines = [cell_label(CellKey(n, p, symbol=grid.symbol))]
        if grid.symbol == "n":  # of epochs only the data tell n
            lines.append(f"total sparsity p/n = {units.fraction(p / n)}")
        if (n, p) in means:
            means_of, seeds = means[n, p], int(grid.done[at])
            spread = by_cell["metric"].get_group((n, p)).std(ddof=1)
            deviation = spread_text(spread, seeds, name) if seeds > 1 else ""
            share = f"share of entries that travelled: {units.fraction(means_of.get('up_share'))}"
            lines += [
                *([share] if means_of["_other"] else []),
                f"{name} {units.score(means_of['metric'], name)} {deviation}".strip(),
                f"up {units.bits(means_of['up_wire_bits'])} (wire), "
                f"{units.bits(means_of['up_content_bits'])} (content)",
                f"down {units.bits(means_of['down_wire_bits'])} (wire)",
                f"ratio {units.ratio(means_of['ratio_wire'])} (wire), "
                f"{units.ratio(means_of['ratio_content'])} (content)",
                f"{units.seconds(means_of['seconds'])} s",
            ]
        failed = f", {grid.failed[at]} failed" if grid.failed[at] else ""
        texts[at] = "\n".join([*lines, f"runs: {grid.done[at]} done{failed}"])
    return texts
