"""A search's rows: its trials, its methods, its finalists; how much each setting matters."""

from collections.abc import Sequence
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from fedsim.results.intervals import tied, wilson
from fedsim.search import curves
from fedsim.search.finals import Finalist, SeedScores, by_value
from fedsim.search.goal import Goal
from fedsim.search.stopping import BEHIND, DEARER
from fedsim.search.study import CELL, WHY, Study, quiet
from fedsim.show.headline import BINOMIAL

FEWEST, FEWEST_IN_ALL = 20, 40
"""Finished trials of every method, and in all, from which importance is named.

Measured on a made-up function of four settings with 40 repetitions: of 2 methods the setting that
matters most came first in 57 % with 10 trials each, and in 92 % with 20.
"""
NAMES = {
    "method": "method",
    "temporal": "n",
    "gradient": "p",
    "coder": "coder",
    "lr": "lr",
    "server_lr": "server lr",
    "downlink": "downlink",
    "down_gradient": "down p",
}
"""The names of a point's settings in tables."""


def trials(study: Study, out: Path) -> pd.DataFrame:
    """A row per trial in order: how it ended, its point as it was run, bits, metric, loss, cell."""
    goal, rows = study.space.goal, []
    for trial in study.trials:
        folder = out / "cells" / str(trial.user_attrs[CELL])
        ended = (folder / "summary.json").exists()
        curve = curves.read_curve(folder, goal.budget_of) if ended else None
        point = goal.shown(curve) if curve else None
        used = study.space.used(trial.params)
        rows.append(
            {
                "trial": trial.number,
                "state": trial.state.name.lower(),
                "why": trial.user_attrs[WHY],
                **used,
                "bits": point[0] if point else None,
                "metric": point[1] if point else None,
                "loss": goal.loss(curve) if curve else None,
                "cell": trial.user_attrs[CELL],
            }
        )
    frame = pd.DataFrame(rows)
    return frame.astype({name: float for name in ("bits", "metric", "loss") if name in frame})


def finalists(ranked: Sequence[Finalist], goal: Goal) -> pd.DataFrame:
    """A row per finalist in order of rank: its point, what its seeds came to, and its ties."""
    return pd.DataFrame(
        [
            {
                "rank": rank,
                "tie": final.tie,
                "trial": final.trial,
                **final.params,
                **_columns("validation", final.validated, goal),
                **_columns("held_out", final.held, goal),
            }
            for rank, final in enumerate(ranked, start=1)
        ]
    )


def _columns(part: str, scores: SeedScores, goal: Goal) -> dict[str, Any]:
    metric = scores.metric()
    columns: dict[str, Any] = {
        "seeds": metric.count,
        "metric": metric.value,
        "half": metric.half,
        "bits": scores.bits(),
        **{f"seed{k}": point[1] if point else None for k, point in enumerate(scores.points)},
    }
    if goal.target is not None:
        bits = scores.log_bits()
        for end, side in (("bits_low", -1), ("bits_high", 1)):
            reached = isfinite(bits.value)
            columns[end] = 10 ** (bits.value + side * bits.half) if reached else None
    return {f"{part}_{name}": value for name, value in columns.items()}


def methods(
    study: Study, frame: pd.DataFrame, ranked: Sequence[Finalist], out: Path
) -> pd.DataFrame:
    """A row per method, the best first: its best setting, its metric with intervals, its trials.

    A finalist is the best setting of its method, else the best trial is; of a front the trial of
    the best metric. ``low`` and ``high`` are Wilson's interval of 95 % of the trial's metric, where
    that is a share of samples; ``fresh_metric`` and ``fresh_half`` are of the final's seeds. A row
    is a ``tie`` where these cannot tell it from the first: by the paired differences of the seeds
    of two finalists, else by the intervals of two trials. ``failed`` counts refused trials, too.
    """
    goal, finals = study.space.goal, {final.trial: final for final in ranked}
    done, pruned = by_themselves(frame), frame["why"].isin((BEHIND, DEARER))
    ends = pd.DataFrame({"trials": 1, "done": done, "pruned": pruned, "failed": ~done & ~pruned})
    counts = ends.groupby(frame["method"]).sum().astype(int)
    counts = counts.reindex(list(study.space.methods), fill_value=0)
    order = [*([] if goal.front else finals), *(t.number for t in by_value(study))]
    best = frame.set_index("trial", drop=False).loc[order].drop_duplicates("method")
    validated = [finals[k].validated if k in finals else SeedScores((), ()) for k in best["trial"]]
    seeds = pd.DataFrame(
        [scores.metric() for scores in validated], best.index, ["value", "half", "count"]
    )
    ends_at = [_interval(row, goal, out) for row in best.to_dict("records")]
    best[["low", "high"]] = np.reshape(ends_at, (-1, 2))
    best[["fresh_metric", "fresh_half", "fresh_seeds"]] = seeds
    best["tie"] = [
        k > 0 and _tie(validated[0], scores, ends_at[0], ends_at[k])
        for k, scores in enumerate(validated)
    ]
    best = best.drop(columns=["state", "why", "cell"]).set_index("method")
    none = [name for name in counts.index if name not in best.index]
    return counts.join(best).loc[[*best.index, *none]].rename_axis("method").reset_index()


def _interval(row: dict[str, Any], goal: Goal, out: Path) -> tuple[float, float]:
    """That of a trial's metric, where it is a share of samples; NaN where chance is not levels."""
    samples = (curves.ended(out / "cells" / row["cell"]) or {}).get("scored_samples")
    is_share = goal.name in BINOMIAL and 0 <= row["metric"] <= 1  # one's own may be in percent
    if goal.target is not None or not is_share or not samples:
        return nan, nan
    return wilson(row["metric"], samples)


def _tie(
    first: SeedScores, other: SeedScores, best: tuple[float, float], interval: tuple[float, float]
) -> bool:
    """Whether a method cannot be told from the first: by their seeds, else by their intervals."""
    if first.points and other.points:
        return tied(first.losses, other.losses)
    return not (interval[0] > best[1] or interval[1] < best[0])


def too_few(frame: pd.DataFrame, names: Sequence[str]) -> str:
    """Why the trials are too few to name an importance; empty where they are enough."""
    ended = _ended(frame)
    counts = ended["method"].value_counts().reindex(list(names), fill_value=0)
    if counts.min() >= FEWEST and len(ended) >= FEWEST_IN_ALL:
        return ""
    return (
        f"Importance needs {FEWEST} finished trials of every method and {FEWEST_IN_ALL} in all: "
        f"{counts.idxmin()} has {counts.min()}, all methods have {len(ended)}."
    )


def importance(frame: pd.DataFrame, goal: Goal) -> dict[str, dict[str, float]]:
    """How much each setting matters for whether a trial is among the best tenth, in shares of 1.

    PED-ANOVA (Watanabe et al. 2023) over the trials that ended by themselves, as they were run.
    Settings that all trials share are left out.

    Returns:
        What is explained (the goal's value; of a front the metric and the bits), then setting ->
        share, the largest first.
    """
    shares = optuna.importance.get_param_importances
    with quiet():
        return {
            name: {k: float(share) for k, share in shares(study, evaluator=evaluator()).items()}
            for name, study in explained(frame, goal).items()
        }


def evaluator() -> optuna.importance.PedAnovaImportanceEvaluator:
    """PED-ANOVA as Optuna has it."""
    return optuna.importance.PedAnovaImportanceEvaluator()


def explained(frame: pd.DataFrame, goal: Goal) -> dict[str, optuna.Study]:
    """Explained values by name, each as a study of the trials as they were run.

    Values and settings that all trials share are left out.
    """
    ended = _ended(frame)
    values = (
        {goal.name: "loss", "bits": "bits"}
        if goal.front
        else {"bits to the target" if goal.target is not None else goal.name: "loss"}
    )
    return {k: _study_of(ended, v) for k, v in values.items() if ended[v].nunique() > 1}


def by_themselves(frame: pd.DataFrame) -> pd.Series:
    """Which trials ended by themselves or at the target; on a front others are complete, too."""
    return (frame["state"] == "complete") & ~frame["why"].isin((BEHIND, DEARER))


def _ended(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[by_themselves(frame) & frame["loss"].lt(inf)]


def _study_of(ended: pd.DataFrame, column: str) -> optuna.Study:
    """A study in memory that minimizes a column; a method without a fraction has no p."""
    points = ended[[name for name in NAMES if name in ended and ended[name].nunique() > 1]]
    spaces: dict[str, BaseDistribution] = {}
    for name, values in points.rename(columns=NAMES).items():
        levels = sorted(values.dropna().unique().tolist())
        numbers = not isinstance(levels[0], str)
        spaces[str(name)] = (
            FloatDistribution(levels[0], levels[-1], log=True)
            if numbers
            else CategoricalDistribution(levels)
        )
    with quiet():
        study = optuna.create_study(direction="minimize")
        for value, row in zip(ended[column], points.to_dict("records"), strict=True):
            params = {NAMES[k]: setting for k, setting in row.items() if not pd.isna(setting)}
            study.add_trial(
                optuna.create_trial(
                    value=float(value), params=params, distributions={k: spaces[k] for k in params}
                )
            )
    return study
