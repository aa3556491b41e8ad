"""The picture of a search: every trial's metric over its bits, the front, the winner."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim import units
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.methods import short
from fedsim.show.plot.canvas import drawing, finish, logarithmic, marker, plain, within
from fedsim.show.style import Look, label, method_looks

NAMED = 9
"""Methods with a colour and a line in the legend of their own."""


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


def coloured(frame: pd.DataFrame, goal: Goal, first: str = "", most: int = NAMED) -> list[str]:
    """The methods with a colour: ``first``, those of the front, then those of the best trials."""
    rows = frame.dropna(subset=["bits", "metric"])
    ranked = rows.assign(loss=rows["metric"].map(goal.worse)).sort_values("loss")
    names = [first, *best_so_far(frame, goal)["method"][::-1], *ranked["method"]]
    return [name for name in dict.fromkeys(map(str, names)) if name in {*rows["method"]}][:most]


def picture(frame: pd.DataFrame, winner: Finalist | None, goal: Goal, task: str) -> Figure:
    """A mark per trial in its method's colour, hollow where the trial was ended early.

    Of many methods those of the front and of the best trials have colours, the others are grey.

    Args:
        frame: the trials (``fedsim.search.record.trials``).
        winner: drawn as a star, its held-out mean with the interval; None: none is.
        goal: of the search.
        task: its name.
    """
    figure = drawing(8.6, 4.2)
    axes = figure.add_subplot()
    found = "" if winner is None else short(winner.params["method"])
    _marks(axes, frame, coloured(frame, goal, found))
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
    axes.plot([], [], marker="o", markerfacecolor="none", color="#777777", linestyle="",
              markersize=5, label="hollow: ended early")  # fmt: skip
    logarithmic(axes)
    finish(axes, "bits that a client has sent (wire)", f"{label(goal.name)} (validation part)")
    within(axes, goal.name)
    figure.suptitle(plain(_title(winner, goal, task)), fontsize=10, x=0.02, ha="left")
    return figure


def _marks(axes: Axes, frame: pd.DataFrame, named: list[str]) -> None:
    """A mark per trial; those of methods without a name lie behind, in grey."""
    rows = frame.dropna(subset=["bits", "metric"])
    others = rows[~rows["method"].isin(named)]
    looks = styles(rows[rows["method"].isin(named)])
    groups = [(name, looks[name], rows[rows["method"] == name]) for name in named]
    for name, look, own in groups:
        kind: dict[str, Any] = {"color": look.colour, "marker": marker(look), "label": plain(name)}
        _both(axes, own, kind)
    if len(others):
        told = f"{others['method'].nunique()} other methods"
        _both(axes, others, {"color": "#bbbbbb", "marker": "o", "label": told, "zorder": 1})


def _both(axes: Axes, rows: pd.DataFrame, kind: dict[str, Any]) -> None:
    """Trials that ran to their end, and hollow those that were ended early."""
    ended = rows["state"] != "complete"
    plainly: dict[str, Any] = {"linestyle": "", "markersize": 5, **kind}
    early: dict[str, Any] = {**plainly, "markerfacecolor": "none", "alpha": 0.6, "label": None}
    axes.plot(rows["bits"][~ended], rows["metric"][~ended], **plainly)
    axes.plot(rows["bits"][ended], rows["metric"][ended], **early)


def _title(winner: Finalist | None, goal: Goal, task: str) -> str:
    text = f"{task}: {goal.told()}"
    if winner is None:
        return text
    params = winner.params
    p = "" if params["gradient"] is None else f", p = {units.plain(params['gradient'])}"
    rate = units.plain(params["lr"])
    return f"{text}\nfound: {short(params['method'])}, n = {params['temporal']}{p}, lr = {rate}"
