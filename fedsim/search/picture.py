"""The figure of a search: every trial's metric over its bits, the front, the finalists.

Optuna's ``plot_pareto_front`` leaves out the trials that ended early and the methods' names, and
its ``plot_optimization_history`` leaves out the bits; neither has the finalists' intervals.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.methods import point_text, short
from fedsim.show.chart import GREY, Axis, Chart, Marks
from fedsim.show.curves import front
from fedsim.show.figures import front_of, limit_of
from fedsim.show.style import Look, label, method_looks

_TRIALS = (
    "A mark per trial, hollow where the trial was ended early; scores on the validation part of "
    "the training samples. The line joins the trials that no other beats in both bits and metric. "
    "Stars are finalists on held-out samples, which no trial saw: the mean over fresh seeds with "
    "its 95 % interval; the black one won."
)
_STAR = 7
_BITS = {
    "up": "bits that a client has sent (wire)",
    "total": "bits that a client has sent and received (wire)",
}
NAMED = 9
"""Methods with a colour and a line in the legend of their own."""


def best_so_far(frame: pd.DataFrame, goal: Goal) -> pd.DataFrame:
    """The rows of a table of trials that no other beats in both bits and metric, by bits."""
    return front(frame.dropna(subset=["bits", "metric"]), "bits", "metric", goal.higher)


def coloured(frame: pd.DataFrame, goal: Goal, first: str = "", limit: int = NAMED) -> list[str]:
    """The methods with a colour: ``first``, those of the front, then those of the best trials."""
    rows = frame.dropna(subset=["bits", "metric"])
    ranked = rows.assign(loss=rows["metric"].map(goal.worse)).sort_values("loss")
    names = [first, *best_so_far(frame, goal)["method"][::-1], *ranked["method"]]
    return [name for name in dict.fromkeys(map(str, names)) if name in {*rows["method"]}][:limit]


def chart(
    frame: pd.DataFrame,
    finalists: Sequence[Finalist],
    winner: Finalist | None,
    goal: Goal,
    task: str,
) -> Chart:
    """A mark per trial in its method's colour, hollow where the trial was ended early.

    Of many methods those of the front and of the best trials have colours, the others are grey.

    Args:
        frame: the trials (``fedsim.search.record.trials``).
        finalists: in order of rank: stars, held-out means with their intervals.
        winner: among them; None: none is.
        goal: of the search.
        task: its name.
    """
    rows = frame.dropna(subset=["bits", "metric"])
    named = coloured(frame, goal, "" if winner is None else short(winner.params["method"]))
    others = rows[~rows["method"].isin(named)]
    looks = method_looks({name: name == "raw" for name in rows["method"].unique() if name in named})
    marks = [_trials(rows[rows["method"] == name], looks[name], name, goal) for name in named]
    if len(others):
        name = f"{others['method'].nunique()} other methods"
        marks.insert(
            0, replace(_trials(others, Look("#bbbbbb", 0, 0), name, goal), direct_label=False)
        )
    best = best_so_far(frame, goal)
    if len(best):
        marks.append(front_of(best["bits"], best["metric"], "front of the trials"))
    stars = [(k, f) for k, f in enumerate(finalists, start=1) if f.held.metric().count]
    others_first = [pair for pair in stars if pair[1] is not winner][::-1]
    won = [pair for pair in stars if pair[1] is winner]
    marks += [_stars(others_first, "#999999", "finalist", goal)] if others_first else []
    marks += [_stars(won, "#000000", "winner", goal)] if won else []  # the last lies on top
    ends = {"trial, validation samples": [False], "trial that was ended early": [True]}
    marks += [
        Marks(kind="points", look=Look(GREY, 0, 0), hollow=hollow, name=name)
        for name, hollow in ends.items()
    ]
    if goal.budget is not None:
        marks.append(limit_of(f"budget {units.round_bits(goal.budget)}"))
    if goal.target is not None:
        marks.append(limit_of(f"target {goal.target:g}"))
    title = f"{task}: {goal.words()}"
    if winner is not None:
        title += f"\nfound: {point_text(winner.params)}"
    return Chart(
        title=title,
        caption=_TRIALS,
        x=Axis(_BITS[goal.budget_of], "bits"),
        y=Axis(f"{label(goal.name)} (stars: held-out samples)", metric=goal.name),
        marks=marks,
        at_x=goal.budget,
        at_y=goal.target,
    )


def _stars(finalists: Sequence[tuple[int, Finalist]], colour: str, name: str, goal: Goal) -> Marks:
    """Held-out means of finalists and their intervals; each with its rank."""
    means = [final.held.metric() for _, final in finalists]
    y, half = np.array([m.value for m in means]), np.nan_to_num([m.half for m in means])
    texts = [
        f"finalist {rank}: {short(final.params['method'])}\nheld-out {goal.name} "
        f"{units.score(final.held.metric().value, goal.name)} at {units.bits(final.held.bits())}"
        for rank, final in finalists
    ]
    return Marks(
        x=[final.held.bits() for _, final in finalists],
        y=y,
        kind="points",
        size=9,
        low=y - half,
        high=y + half,
        look=Look(colour, 0, _STAR),
        name=f"{name}, held-out samples",
        direct_label=False,
        texts=texts,
    )


def _trials(rows: pd.DataFrame, look: Look, name: str, goal: Goal) -> Marks:
    texts = []
    for row in rows.to_dict("records"):
        score = units.score(row["metric"], goal.name)
        texts.append(
            f"trial {row['trial']}: {point_text(row)}\n{goal.name} {score} at "
            f"{units.bits(row['bits'])}\n{row['why']}"
        )
    return Marks(
        x=rows["bits"].to_numpy(),
        y=rows["metric"].to_numpy(),
        kind="points",
        look=look,
        size=6,
        name=name,
        texts=texts,
        hollow=list(rows["state"] != "complete"),
    )
