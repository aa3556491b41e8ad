"""The figures of a search, which Optuna draws: the front of the trials, and what mattered."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import optuna
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, NullFormatter
from optuna.visualization import matplotlib as pictures

from fedsim.ground import units
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.methods import at_rate, point_text
from fedsim.search.record import evaluator
from fedsim.search.study import quiet
from fedsim.show.plot.paper import whole_of
from fedsim.show.style import label

TRIALS = (
    "Drawn by Optuna: a mark per trial, pale where the trial was ended early; scores on the "
    "validation part of the training samples. No other trial beats those of the front in both bits "
    "and metric. Stars are finalists on held-out samples, which no trial saw: the mean over fresh "
    "seeds with its 95 % interval; the black one won."
)
_BITS = {
    "up": "bits that a client has sent (wire)",
    "total": "bits that a client has sent and received (wire)",
}
_NAMES = {
    "Infeasible Trial": "trial that was ended early",
    "Feasible Trial": "trial, validation samples",
    "Trial": "trial, validation samples",
    "Best Trial": "front of the trials",
}
"""Optuna's words in the legend, and ours."""

_NAME: Any = {
    "xytext": (-5, 5), "textcoords": "offset points", "ha": "right", "fontsize": 8, "color": "C3",
    "rotation": -20, "rotation_mode": "anchor",
}  # fmt: skip


def draw_trials(
    frame: pd.DataFrame,
    finalists: Sequence[Finalist],
    winner: Finalist | None,
    goal: Goal,
    task: str,
) -> Axes:
    """Every trial's metric over its bits; names of methods next to the front."""
    rows = frame.dropna(subset=["bits", "metric"])
    study = _study(rows, goal)
    names = [_BITS[goal.budget_of], f"{label(goal.name)} (stars: held-out samples)"]
    axes = _drawn(pictures.plot_pareto_front, study, target_names=names)
    for marks in axes.collections:
        marks.set_label(_NAMES[str(marks.get_label())])
    before = ""
    for trial in sorted(study.best_trials, key=lambda t: t.values[0]):
        row = rows.iloc[trial.number]
        if row["method"] != before:
            method = at_rate(row["method"], row["lr"])
            axes.annotate(
                method.replace("{p}", units.plain(row["gradient"])), trial.values, **_NAME
            )
        before = row["method"]
    for final in finalists:
        if (metric := final.held.metric()).count:
            won, interval = final is winner, np.nan_to_num(metric.half)
            look: Any = {"color": "black" if won else "#999999", "markeredgecolor": "black"}
            name = f"{'winner' if won else 'finalist'}, held-out samples"
            look["label"] = "" if name in names else name
            names.append(name)
            bars = axes.errorbar(final.held.bits(), metric.value, interval, fmt="*", **look)
            bars.lines[0].set(markersize=11, zorder=3 + won)
    if goal.budget is not None:
        axes.axvline(
            goal.budget, color="#777777", ls=":", label=f"budget {units.round_bits(goal.budget)}"
        )
    if goal.target is not None:
        axes.axhline(goal.target, color="#777777", ls=":", label=f"target {goal.target:g}")
    axes.margins(y=0.12)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(unit="bit"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    winning = "" if winner is None else f"\nfound: {point_text(winner.params)}"
    axes.set_title(f"{task}: {goal.words()}{winning}", loc="left", fontsize=11)
    figure = whole_of(axes)
    figure.set_size_inches(9.6, 5.2)
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    return axes


def draw_importance(name: str, study: optuna.Study) -> Axes:
    """How much each setting matters for a value, of a study of ``record.explained``."""
    axes = _drawn(pictures.plot_param_importances, study, evaluator=evaluator(), target_name=name)
    axes.set(xlabel=f"importance for {name}", ylabel="")
    return axes


def _drawn(plot: Any, study: optuna.Study, **options: Any) -> Axes:
    """One of Optuna's plots, which sets a style and leaves its figure to pyplot."""
    with quiet(), matplotlib.rc_context():
        axes: Axes = plot(study, **options)
    axes.set_title("")
    axes.set_title("", loc="left")
    if legend := axes.get_legend():
        legend.remove()
    plt.close(whole_of(axes))
    whole_of(axes).set_layout_engine("constrained")
    return axes


def _study(rows: pd.DataFrame, goal: Goal) -> optuna.Study:
    """The trials with bits and metric as values; those ended early are not on its front."""
    with quiet():
        study = optuna.create_study(
            directions=["minimize", "maximize" if goal.higher else "minimize"]
        )
        study.add_trials(
            [
                optuna.create_trial(
                    values=[row["bits"], row["metric"]],
                    constraints={"ended early": float(row["state"] != "complete")},
                )
                for row in rows.to_dict("records")
            ]
        )
    return study
