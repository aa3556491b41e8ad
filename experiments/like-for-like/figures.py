"""The metric over the budget, ranks over tasks, and which method beats which."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids
from fedsim.search import mean

from .rows import kind as kind_of
from .tables import duels, places, ranked
from .tasks import TITLES

_MARKS = "o^svDPX"
KINDS = ("dense", "fewer bits", "fewer entries", "both", "low rank", "added")


def figure(task: str, finals: pd.DataFrame) -> Figure:
    """A panel per kind; the methods of all other kinds in grey behind."""
    kinds = [kind for kind in KINDS if any(kind_of(m) == kind for m in finals["method"].unique())]
    rows = -(-len(kinds) // 2)
    drawn = canvas(11, 3.6 * rows)
    every = drawn.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).flatten()
    panels = every[: len(kinds)]
    for axes in every[len(kinds) :]:
        axes.remove()
    means = 100 * finals.groupby(["method", "budget"], sort=False)["metric"].mean()
    for axes, kind in zip(panels, kinds, strict=True):
        looks = _looks()
        for method in finals["method"].unique():
            line = means[method].sort_index()
            look: dict[str, Any] = {"color": "0.85", "linewidth": 0.8, "zorder": 1}
            if kind_of(method) == kind:
                look = next(looks) | {"markersize": 4, "label": method, "zorder": 2}
            axes.plot(line.index, line, **look)
        axes.set(xscale="log", title=kind, xlabel="upstream bits, as a part of dense",
                 ylabel="held-out accuracy (%)")  # fmt: skip
        axes.tick_params(labelbottom=True, labelleft=True)
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    grids(panels)
    drawn.suptitle(f"{TITLES.get(task, task)}: mean of the seeds at each budget")
    return drawn


def _looks() -> Iterator[dict[str, Any]]:
    """Pairs of colour and mark, each once before one comes again."""
    for turn in count():
        for place, colour in enumerate(COLOURS):
            yield {"color": colour, "marker": _MARKS[(place + turn) % len(_MARKS)]}


def ranks(finals: Mapping[str, pd.DataFrame]) -> Figure:
    """The mean rank of every method with its interval, and a mark per task."""
    ranks_of, frame = places(finals), ranked(finals)
    drawn = canvas(7.5, 0.21 * len(ranks_of) + 1.2)
    axes, heights = drawn.subplots(), np.arange(len(ranks_of))[::-1]
    for place, task in enumerate(finals):
        own = frame[frame["task"] == task].groupby("method")["rank"].mean()
        axes.scatter(
            [own[m] for m in ranks_of], heights, s=16, marker="osv"[place % 3], zorder=1,
            alpha=0.6, color=COLOURS[place % len(COLOURS)], label=TITLES.get(task, task),
        )  # fmt: skip
    values = [mean(row) for row in ranks_of.values()]
    axes.errorbar([v.value for v in values], heights, xerr=[v.half for v in values], fmt="D",
                  color="black", markersize=4, linewidth=1, zorder=2, label="all")  # fmt: skip
    axes.set(xlabel="mean rank over tasks and budgets (1: the best)",
             xlim=(0, len(ranks_of) + 1), ylim=(-1, len(ranks_of)))  # fmt: skip
    axes.set_yticks(heights, list(ranks_of), fontsize="small")
    axes.legend(fontsize="small", loc="lower left")
    grids([axes])
    return drawn


def beaten(finals: Mapping[str, pd.DataFrame]) -> Figure:
    """A field per two methods: at how many budgets the row was told better, less told worse."""
    names, told = list(places(finals)), duels(finals)
    net = (told["won"] - told["lost"]).set_axis(pd.MultiIndex.from_frame(told[["one", "other"]]))
    field = net.unstack().reindex(index=names, columns=names).to_numpy(dtype=float)
    drawn = canvas(0.21 * len(names) + 3, 0.21 * len(names) + 2)
    axes = drawn.subplots()
    most = max(1.0, np.nanmax(np.abs(field)))
    image = axes.imshow(field, cmap="PuOr_r", vmin=-most, vmax=most)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize="small")
    axes.set_yticks(range(len(names)), names, fontsize="small")
    drawn.colorbar(image, shrink=0.6, label="tasks and budgets: row better, less column better")
    return drawn
