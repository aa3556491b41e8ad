"""The best accuracy so far over rounds."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids

from .rows import ROWS, TARGETS


def figure(curves: pd.DataFrame) -> Figure:
    """A thin line per seed, a colour per row, and the targets and the paper's rounds as dots."""
    drawn = canvas(8, 4.5)
    axes = drawn.subplots()
    for place, (name, lines) in enumerate(curves.groupby("name", sort=False)):
        row, colour = ROWS[str(name)], COLOURS[place % len(COLOURS)]
        for seed, run in lines.groupby("seed"):
            label = str(name) if seed == 0 else None
            axes.plot(
                run["round"],
                100 * run["accuracy"].cummax(),
                color=colour,
                linewidth=0.8,
                label=label,
            )
        if row.paper:
            axes.plot(row.paper, 100 * TARGETS[row.task], "o", color=colour, zorder=3)
    axes.set(xlabel="rounds", ylabel="best accuracy so far (%); dots: the paper", xscale="log")
    axes.set_ylim(bottom=90)
    axes.legend(frameon=False)
    grids([axes])
    return drawn
