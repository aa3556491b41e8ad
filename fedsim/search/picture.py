"""The figure of a search: every trial's metric over its bits, the front, the finalists."""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.search.exploration import point_text
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.methods import short
from fedsim.show.chart import GREY, Axis, Chart, Marks
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
    rows = frame.dropna(subset=["bits", "metric"]).sort_values(
        ["bits", "metric"], ascending=[True, not goal.higher]
    )
    losses = rows["metric"].map(goal.worse)
    return rows[losses < losses.cummin().shift(fill_value=float("inf"))]


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
    front = best_so_far(frame, goal)
    if len(front):
        marks.append(front_of(front["bits"], front["metric"], "front of the trials"))
    stars = []
    for place, final in enumerate(finalists, start=1):
        if (mean := final.held.metric()).count:
            half = 0.0 if isnan(mean.half) else mean.half
            score = units.score(mean.value, goal.name)
            stars.append(
                Marks(
                    x=[final.held.bits()],
                    y=np.array([mean.value]),
                    kind="points",
                    size=9,
                    low=np.array([mean.value - half]),
                    high=np.array([mean.value + half]),
                    look=Look("#000000" if final is winner else "#999999", 0, _STAR),
                    name="winner, held-out samples" if final is winner else "",
                    direct_label=False,
                    texts=[
                        f"finalist {place}: {short(final.params['method'])}\nheld-out {goal.name} "
                        f"{score} at {units.bits(final.held.bits())}"
                    ],
                )
            )
    marks += stars[::-1]  # the winner last: it lies on top
    ends = {"trial, validation samples": [False], "trial that was ended early": [True]}
    marks += [
        Marks(kind="points", look=Look(GREY, 0, 0), hollow=hollow, name=name)
        for name, hollow in ends.items()
    ]
    if len(stars) > (winner is not None):
        marks.append(
            Marks(
                kind="points",
                look=Look("#999999", 0, _STAR),
                size=9,
                name="finalist, held-out samples",
            )
        )
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


def _trials(rows: pd.DataFrame, look: Look, name: str, goal: Goal) -> Marks:
    texts = []
    for row in rows.to_dict("records"):
        point = {k: None if pd.isna(setting) else setting for k, setting in row.items()}
        score = units.score(row["metric"], goal.name)
        texts.append(
            f"trial {row['trial']}: {point_text(point)}\n{goal.name} {score} at "
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
