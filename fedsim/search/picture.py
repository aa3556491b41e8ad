"""The picture of a search: every trial's metric over its bits, the front, the winner."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fedsim import units
from fedsim.analysis.style import Look, label, method_looks
from fedsim.plot.canvas import drawing, finish, logarithmic, marker, plain, within
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.methods import short


def styles(frame: pd.DataFrame) -> dict[str, Look]:
    """How the methods of a table of trials look, by name."""
    return method_looks({name: name == "raw" for name in frame["method"].unique()})


def best_so_far(frame: pd.DataFrame, goal: Goal) -> pd.DataFrame:
    """The rows of a table of trials that no other beats in both bits and metric, by bits."""
    rows = frame.dropna(subset=["bits", "metric"]).sort_values(
        ["bits", "metric"], ascending=[True, not goal.higher]
    )
    losses = rows["metric"].map(goal.worse)
    return rows[losses < losses.cummin().shift(fill_value=float("inf"))]


def picture(frame: pd.DataFrame, winner: Finalist | None, goal: Goal, task: str) -> Figure:
    """A mark per trial in its method's colour, hollow where the trial was ended early.

    Args:
        frame: the trials (``fedsim.search.record.trials``).
        winner: drawn as a star, its held-out mean with the interval; None: none is.
        goal: of the search.
        task: its name.
    """
    figure = drawing(8.6, 4.2)
    axes = figure.add_subplot()
    looks = styles(frame)
    for name, rows in frame.dropna(subset=["bits", "metric"]).groupby("method"):
        look, ended = looks[str(name)], rows["state"] != "complete"
        kind: dict[str, Any] = {"marker": marker(look), "linestyle": "", "markersize": 5}
        kind["color"] = look.colour
        early = kind | {"markerfacecolor": "none", "alpha": 0.6}
        axes.plot(rows["bits"][~ended], rows["metric"][~ended], label=plain(str(name)), **kind)
        axes.plot(rows["bits"][ended], rows["metric"][ended], **early)
    front = best_so_far(frame, goal)
    axes.step(front["bits"], front["metric"], where="post", color="#777777", lw=1, zorder=0)
    if goal.budget is not None:
        axes.axvline(goal.budget, color="#999999", ls=":", lw=1)
    if goal.target is not None:
        axes.axhline(goal.target, color="#999999", ls=":", lw=1)
    if winner is not None and (point := winner.held.metric()).count:
        half = 0.0 if point.half != point.half else point.half
        axes.errorbar(
            winner.held.bits(), point.value, yerr=half, color="black", marker="*", markersize=13,
            label="winner, held-out samples", linestyle="", capsize=3,
        )  # fmt: skip
    logarithmic(axes)
    finish(axes, "bits that a client has sent (wire)", label(goal.name))
    within(axes, goal.name)
    figure.suptitle(plain(_title(winner, goal, task)), fontsize=10, x=0.02, ha="left")
    return figure


def _title(winner: Finalist | None, goal: Goal, task: str) -> str:
    text = f"{task}: {goal.told()}"
    if winner is None:
        return text
    params = winner.params
    p = "" if params["gradient"] is None else f", p = {units.plain(params['gradient'])}"
    rate = units.plain(params["lr"])
    return f"{text}\nfound: {short(params['method'])}, n = {params['temporal']}{p}, lr = {rate}"
