"""How figures name and colour things: the same in the PNG figures and in the report."""

from collections.abc import Sequence
from dataclasses import dataclass

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


def looks(cells: Sequence[tuple[int, float]]) -> dict[tuple[int, float], Look]:
    """Colour by gradient sparsity, marker and line style by delay; the dense cell is black.

    Args:
        cells: communication delay n and gradient sparsity p of each.
    """
    temporals = sorted({n for n, _ in cells})
    gradients = sorted({p for _, p in cells}, reverse=True)
    shades = [to_hex(shade) for shade in colormaps["viridis"](np.linspace(0, 0.85, len(gradients)))]
    return {
        (n, p): Look(
            "#000000" if (n, p) == (1, 1) else shades[gradients.index(p)], temporals.index(n)
        )
        for n, p in cells
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


def cell_label(temporal: int, gradient: float) -> str:
    """How a legend calls a cell of the plane."""
    dense = " (dense)" if (temporal, gradient) == (1, 1) else ""
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
