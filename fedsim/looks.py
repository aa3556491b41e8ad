"""How figures name and colour things: the same in the PNG figures and in the report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb

from fedsim import units

LABELS = {
    "ratio_content": "compression ratio (payload)",
    "ratio_wire": "compression ratio (wire)",
    "up_content_bits": "upstream payload per client (bit)",
    "up_wire_bits": "upstream messages per client (bit)",
    "up_bits": "upstream payload per client so far (bit)",
    "iteration": "local iterations",
}


@dataclass(frozen=True)
class Look:
    """How a cell's line or point looks: `#rrggbb`, and its place among the delays (0, 1, ...)."""

    colour: str
    place: int


class CellKey(NamedTuple):
    """A cell; ``reference``: float32 at n = 1, p = 1 beside a method that sends all."""

    temporal: int
    gradient: float
    reference: bool = False


def reference(runs: pd.DataFrame) -> pd.Series:
    """Which rows are of the dense reference: every entry as float32 after every iteration."""
    at = (runs["temporal"] == 1) & (runs["gradient"] == 1)
    return at & (runs["method"] == "raw")


def beside(runs: pd.DataFrame) -> pd.Series:
    """The rows of the dense reference where another method has its cell too; else none."""
    dense = reference(runs)
    shared = (runs["temporal"] == 1) & (runs["gradient"] == 1) & ~dense
    return dense & bool(shared.any())


def looks(cells: Sequence[tuple[int, float] | CellKey]) -> dict[CellKey, Look]:
    """Colour by gradient sparsity, marker and line style by delay; the dense cell is black.

    Args:
        cells: communication delay n and gradient sparsity p of each.
    """
    keys = [CellKey(*cell) for cell in cells]
    black = CellKey(1, 1, any(key.reference for key in keys))
    temporals = sorted({key.temporal for key in keys})
    gradients = sorted({key.gradient for key in keys}, reverse=True)
    shades = [to_hex(shade) for shade in colormaps["viridis"](np.linspace(0, 0.85, len(gradients)))]
    return {
        key: Look(
            "#000000" if key == black else shades[gradients.index(key.gradient)],
            temporals.index(key.temporal),
        )
        for key in keys
    }


def metric_name(runs: pd.DataFrame) -> str:
    """What the runs' metric is called; "metric" where no run says it, or they differ."""
    names = runs["metric_name"].dropna().unique()
    return str(names[0]) if len(names) == 1 else "metric"


def higher_is_better(runs: pd.DataFrame) -> bool:
    """Whether a higher metric is better; true where no run says it."""
    known = runs["higher_is_better"].dropna()
    return bool(known.iloc[0]) if len(known) else True


def label(name: str) -> str:
    """How an axis calls a column or a metric."""
    return LABELS.get(name, name.replace("_", " "))


def cell_label(temporal: int, gradient: float, reference: bool = False) -> str:
    """How a legend calls a cell of the plane."""
    dense = " (float32)" if reference else " (dense)" if (temporal, gradient) == (1, 1) else ""
    return f"n = {temporal}, p = {units.plain(gradient)}{dense}"


def value_text(value: float, name: str) -> str:
    """A value of the column or metric `name` as the matrix shows it."""
    if name.startswith("ratio"):
        return units.ratio(value)
    return units.bits(value) if name.endswith("_bits") else units.score(value, name)


def is_logarithmic(value: str) -> bool:
    """Whether a column is shown on a logarithmic scale: ratios and bits."""
    return value.startswith("ratio") or value.endswith("_bits")


def ink(background: tuple[float, float, float, float]) -> str:
    """Black or white, whichever is easier to read on a colour (WCAG 2 relative luminance)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in
              to_rgb(background)]  # fmt: skip
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Equal contrast with black and white: (L + 0.05)^2 = 1.05 * 0.05.
    return "black" if luminance > 0.179 else "white"
