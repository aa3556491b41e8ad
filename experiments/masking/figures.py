"""Points gained by masking over u."""

from math import log10

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids

from .tables import LIMIT, hinge


def figure(places: pd.DataFrame) -> Figure:
    """A point per place with its interval, a colour per momentum, the hinge, and ``LIMIT``."""
    drawn = canvas(6.4, 4.0)
    axes = drawn.subplots()
    for colour, (beta, part) in zip(COLOURS, places.groupby("beta"), strict=False):
        axes.errorbar(
            part["u"],
            part["points"],
            yerr=part["interval"],
            fmt="o",
            markersize=4,
            linewidth=0.8,
            color=colour,
            label=f"momentum {beta:g}",
        )
    c, a, limit = hinge(places["u"].to_numpy(), places["points"].to_numpy())
    least, most = places["u"].min(), max(places["u"].max(), limit)
    axes.plot([least, limit, most], [c, c, c - a * log10(most / limit)], color="black", linewidth=1)
    axes.set_xscale("log")
    axes.axvline(LIMIT, linewidth=0.8, linestyle=":", color="0.3")
    axes.annotate(f" u = {LIMIT:g}", (LIMIT, 1), xycoords=("data", "axes fraction"), va="top")
    axes.set_xlabel("u = p / (n (1 - momentum)), the share forgotten per iteration")
    axes.set_ylabel("accuracy gained by masking (points)")
    axes.legend(frameon=False, loc="lower left")
    grids([axes])
    return drawn
