"""How figures look: colours that the colour-blind tell apart, the same in all experiments."""

from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim.ground.units import FRACTIONS
from fedsim.show import GREYS, METHODS, ink

__all__ = ["COLOURS", "GREYS", "SBC_LINES", "canvas", "grids", "ink", "score_label"]

COLOURS = METHODS[:7]
"""Okabe and Ito's colours, the first of fedsim.plot's; marks tell more methods apart."""

SBC_LINES = {
    "Baseline": ("black", "-"),
    "Gradient dropping": ("#e69f00", "-"),
    "Federated averaging": ("#9467bd", "-"),
    "SBC (1)": ("#0072b2", "-"),
    "SBC (2)": ("#56b4e9", "-"),
    "SBC (3)": ("#009e73", "-"),
    "SBC (2), biases 30 %": ("#56b4e9", "--"),
    "SBC (3), biases 30 %": ("#009e73", "--"),
}
"""Colour and line of the methods of SBC's Table II, in every figure of that paper."""


def canvas(width: float, height: float) -> Figure:
    """An empty figure whose parts keep clear of each other; width and height in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def grids(panels: Iterable[Axes]) -> None:
    """Gives panels their faint grid."""
    for axes in panels:
        axes.grid(alpha=0.25)


def score_label(frame: pd.DataFrame) -> str:
    """The label of an axis of scores, from the column ``metric``."""
    metric = str(frame["metric"].iloc[0])
    return f"{metric} (%)" if metric in FRACTIONS else f"{metric} (lower is better)"
