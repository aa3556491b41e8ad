"""The sparsity plane as a heatmap is described: cells, their texts, and one scale of colours."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log10

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.results.labels import of_method
from fedsim.show.figures import titled
from fedsim.show.inputs import check_frame
from fedsim.show.planes import Plane, planes
from fedsim.show.style import higher_is_better, ink, metric_name

JOINED = "Short lines join cells of equal total sparsity p/n."


@dataclass(frozen=True)
class Shades:
    """Which of cividis' colours a value has: brighter is better.

    Attributes:
        low, high: the values at the ends.
        logarithmic: whether equal ratios are equal steps: of ratios and bits.
        turned: whether low values are the bright ones.
        single: whether there is but one value, or none: one colour needs no scale beside it.
    """

    low: float
    high: float
    logarithmic: bool
    turned: bool
    single: bool

    def ink(self, value: float) -> str:
        """The colour of a text on that of a value: black or white."""
        from matplotlib import colormaps  # half a second that only figures should wait

        low, value, high = (
            log10(x) if self.logarithmic else x for x in (self.low, value, self.high)
        )
        place = (value - low) / (high - low)
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

    def lines(self, grid: Plane, at: tuple[int, int]) -> list[str]:
        """The texts of a cell: its value, and of several seeds their deviation and number."""
        value, spread = value_text(float(grid.values[at]), self.name), float(grid.spread[at])
        more = [spread_text(spread, int(grid.done[at]), self.name)] if spread == spread else []
        return [value, *more]

    def notes(self, grid: Plane) -> list[str]:
        """What stands above a plane beside its title: the dense reference off the grid."""
        dense = () if grid.dense is None else (grid.dense,)
        return [f"dense reference (n = 1, p = 1): {value_text(x, self.name)}" for x in dense]


def spread_text(value: float, seeds: int, name: str) -> str:
    """A sample standard deviation of so many seeds as a cell shows it: `± 0.0361 (3)`."""
    if name.startswith("ratio"):
        return f"± {units.digits(value)} ({seeds})"
    decimals = units.places(value, name)
    text = units.bits(value) if name.endswith("_bits") else f"{value:.{decimals}f}"
    return f"± {text} ({seeds})"


def value_text(value: float, name: str) -> str:
    """A value of the column or metric `name` as a cell shows it."""
    if name.startswith("ratio"):
        return units.ratio(value)
    return units.bits(value) if name.endswith("_bits") else units.score(value, name)


def heat(runs: pd.DataFrame, value: str = "metric", method: str | None = None) -> Heat:
    """The planes of `runs`; arguments and errors as of `fedsim.plot.matrix`."""
    check_frame(runs, "runs", "matrix()")
    grids = planes(runs, value, method)
    shown = of_method(runs, method) if method is not None else runs
    name = metric_name(shown) if value == "metric" else value
    values = np.concatenate([grid.values.ravel() for grid in grids.values()])
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    turned = value.endswith("_bits") or (value == "metric" and not higher_is_better(shown))
    logarithmic = value.startswith("ratio") or value.endswith("_bits")
    logarithmic, single = logarithmic and low > 0, len(np.unique(known)) < 2
    if low == high:  # a single value is drawn bright, not in the middle's grey
        below, above = (1, 3) if turned else (3, 1)
        low, high = (low / 10**below, high * 10**above) if logarithmic else (
            low - below, high + above)  # fmt: skip
    return Heat(titled(shown), name, grids, Shades(low, high, logarithmic, turned, single))


def joints(grid: Plane) -> list[tuple[tuple[float, float], ...]]:
    """The ends (column, row) of the lines between neighbours on a diagonal of the plane.

    They lie around the cells' common corner, so that no text is crossed.
    """
    return [
        tuple((column + t * (left - column), row + t * (below - row)) for t in (0.32, 0.68))
        for cells in grid.diagonals()
        for (row, column), (below, left) in zip(cells, cells[1:], strict=False)
    ]
