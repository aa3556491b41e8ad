"""Learning curves over bits and over simulated time: fixed cells in grey, controllers in colour."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids

AXES = {"up_bits": "bits that a client has sent", "seconds": "simulated seconds"}


def figure(task: str, lines: pd.DataFrame, limits: pd.DataFrame) -> Figure:
    """The mean score over seeds of every method; a dotted line per budget.

    A method that moves n is scored at other iterations with other seeds: its points are those that
    all seeds have.
    """
    drawn = canvas(10, 4.2)
    panels = drawn.subplots(1, 2, sharey=True)
    fixed = {name for name in lines["name"] if name.startswith("n") and "-p" in name}
    for axes, (unit, label) in zip(panels, AXES.items(), strict=True):
        place = 0
        for name, mine in lines.groupby("name", sort=False):
            means = of_all_seeds(mine).groupby("iteration")[[unit, "score"]].mean()
            look = {"color": "0.7", "linewidth": 1.0, "zorder": 1}
            if name not in fixed:
                look = {"color": COLOURS[place % len(COLOURS)], "label": name, "zorder": 2}
                place += 1
            axes.plot(means[unit], 100 * means["score"], **look)
        for most in limits.loc[limits["unit"] == unit, "value"]:
            axes.axvline(most, color="0.4", linestyle=":", linewidth=1)
        axes.set(xlabel=label, xscale="log")
    grids(panels)
    panels[0].set(ylabel="accuracy (%)")
    drawn.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
    )
    drawn.suptitle(f"{task}, fixed cells in grey", fontsize=10, x=0.02, ha="left")
    return drawn


def of_all_seeds(mine: pd.DataFrame) -> pd.DataFrame:
    """The lines of a method at the iterations that all its seeds have."""
    return mine[mine.groupby("iteration")["seed"].transform("nunique") == mine["seed"].nunique()]
