"""The metric over the budget: a line per method, coloured by what it does to an update."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids

from .rows import ROWS

KINDS = ("dense", "fewer bits", "fewer entries", "both", "low rank", "added")


def figure(task: str, finals: pd.DataFrame) -> Figure:
    """A panel per kind; the methods of all other kinds in grey behind."""
    kinds = [kind for kind in KINDS if any(_kind(m) == kind for m in finals["method"].unique())]
    drawn = canvas(4.2 * len(kinds), 4.4)
    panels = drawn.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    means = 100 * finals.groupby(["method", "budget"], sort=False)["metric"].mean()
    for axes, kind in zip(panels, kinds, strict=True):
        place = 0
        for method in finals["method"].unique():
            line = means[method].sort_index()
            mine = _kind(method) == kind
            look = {"color": "0.85", "linewidth": 0.8, "zorder": 1}
            if mine:
                look = {"color": COLOURS[place % len(COLOURS)], "marker": "o^svDPX"[place % 7],
                        "markersize": 4, "label": method, "zorder": 2}  # fmt: skip
                place += 1
            axes.plot(line.index, line, **look)
        axes.set(xscale="log", title=kind, xlabel="upstream bits, as a part of dense")
        axes.legend(fontsize="x-small", loc="lower right")
    grids(panels)
    panels[0].set(ylabel="held-out accuracy (%)")
    drawn.suptitle(f"{task}: mean of the seeds at each budget")
    return drawn


def _kind(method: str) -> str:
    return ROWS[method].kind if method in ROWS else "added"
