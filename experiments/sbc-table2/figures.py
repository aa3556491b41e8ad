"""Table II as curves: the metric over local iterations, and over the bits of a client."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import SBC_LINES as LINES
from experiments.common.figures import canvas, grids
from fedsim.show.plot import plain_ticks
from fedsim.tasks import get_task

_STEPS = (1, 2, 3, 4, 5, 7)


def figure(task: str, lines: pd.DataFrame) -> Figure:
    """Two panels of the frame that ``curves`` gives: over iterations, and over bits.

    An error (1 - metric) where more is better, on logarithmic axes on the right.
    """
    drawn = canvas(9.5, 4.2)
    left, right = drawn.subplots(1, 2)
    name, rises = get_task(task).metric_name, get_task(task).higher_is_better
    for title, mine in lines.groupby("method", sort=False):
        colour, style = LINES[str(title)]
        shown = 1 - mine["metric"] if rises else mine["metric"]
        left.plot(mine["iteration"], mine["metric"], color=colour, ls=style, label=title)
        right.loglog(mine["up_bits"], shown, color=colour, ls=style, marker=".")
    left.set(xlabel="local iterations", ylabel=f"{name} on held-out samples")
    right.set(xlabel="upstream payload per client so far (bit)")
    right.set_ylabel(f"error (1 - {name})" if rises else name)
    plain_ticks(right.yaxis, _STEPS)
    if task.startswith("mnist"):  # curves are told apart here; what begins far off enters later
        left.set_ylim(0.95, 1)
    if not rises:
        least, most = float(lines["metric"].min()), float(lines["metric"].max())
        left.set_yscale("log")
        plain_ticks(left.yaxis, _STEPS)
        beyond = "" if most <= 5 * least else f", higher ones up to {most:.2g}"
        for axes in (left, right):
            axes.set_ylim(0.95 * least, 5 * least)
            axes.set_title(f"shown up to {5 * least:.3g}{beyond}", fontsize=9)
    grids((left, right))
    drawn.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return drawn
