"""What a search leaves as rows: its trials, its finalists, and how much each setting matters."""

from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Any

import optuna
import pandas as pd

from fedsim.search import curves
from fedsim.search.exploring import why_told
from fedsim.search.finals import Finalist, Lot
from fedsim.search.goal import Goal
from fedsim.search.methods import short
from fedsim.search.quiet import quiet
from fedsim.search.study import CELL, Study

_FEWEST = 8  # trials of which importance says anything
NAMES = {"method": "method", "temporal": "n", "gradient": "p", "coder": "coder", "lr": "lr",
         "server_lr": "server lr", "downlink": "downlink", "down_gradient": "down p"}  # fmt: skip
"""What the settings of a point are called in tables."""


def trials(study: Study, out: Path) -> pd.DataFrame:
    """A row per trial in order: how it ended, its point as it was run, bits, metric, loss, cell."""
    goal, rows = study.space.goal, []
    for trial in study.trials:
        folder = out / "cells" / str(trial.user_attrs[CELL])
        there = (folder / "summary.json").exists()
        curve = curves.read_curve(folder, goal.budget_of) if there else None
        point = goal.point(curve) if curve else None
        if point is None and curve is not None and curve.bits:
            point = curve.bits[-1], curve.metric[-1]
        loss = goal.loss(curve) if curve else None
        used = study.space.used(trial.params)
        rows.append({
            "trial": trial.number, "state": trial.state.name.lower(), "why": why_told(trial),
            "method": short(used.pop("method")), **used,
            "bits": point[0] if point else None, "metric": point[1] if point else None,
            "loss": loss, "cell": trial.user_attrs[CELL],
        })  # fmt: skip
    frame = pd.DataFrame(rows)
    return frame.astype({name: float for name in ("bits", "metric", "loss") if name in frame})


def finalists(ranked: Sequence[Finalist], goal: Goal) -> pd.DataFrame:
    """A row per finalist in order of rank: its point, what its seeds came to, and its ties."""
    rows = []
    for rank, final in enumerate(ranked, start=1):
        point = dict(final.params)
        rows.append({
            "rank": rank, "tie": final.tie, "trial": final.trial,
            "method": short(point.pop("method")), **point,
            **_columns("validation", final.validated, goal),
            **_columns("held_out", final.held, goal),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _columns(part: str, lot: Lot, goal: Goal) -> dict[str, Any]:
    there = [point for point in lot.points if point]
    metric = lot.metric()
    seeds = {f"{part}_seed{k}": point[1] if point else None for k, point in enumerate(lot.points)}
    columns: dict[str, Any] = {
        f"{part}_seeds": len(there), f"{part}_metric": metric.value, f"{part}_half": metric.half,
        f"{part}_bits": lot.bits(), **seeds,
    }  # fmt: skip
    if goal.target is not None:
        bits = lot.log_bits()
        reached = isfinite(bits.value)
        for end, side in (("low", -1), ("high", 1)):
            bound = 10 ** (bits.value + side * bits.half) if reached else None
            columns[f"{part}_bits_{end}"] = bound
    return columns


def importance(frame: pd.DataFrame, goal: Goal) -> dict[str, dict[str, float]]:
    """How much of what differs between trials each setting explains, in shares of 1.

    Optuna's fANOVA over the ranks of the trials, as they were run: a method that takes no fraction
    has p = 1. Trials that were ended early count as they stood. Empty where there are too few.
    What is the same of all trials is left out.

    Args:
        frame: what ``trials`` gave.
        goal: of the search.

    Returns:
        What is explained (the goal's value; of a front the metric and the bits), then setting ->
        share, the largest first.
    """
    ended = frame[frame["loss"].notna() & frame["loss"].lt(inf)]
    if len(ended) < _FEWEST:
        return {}
    values = {goal.name: ended["loss"], "bits": ended["bits"]} if goal.front else {
        "bits to the target" if goal.target is not None else goal.name: ended["loss"]
    }  # fmt: skip
    return {name: _shares(ended, column) for name, column in values.items() if column.nunique() > 1}


def _shares(ended: pd.DataFrame, column: pd.Series) -> dict[str, float]:
    points = ended.reindex(columns=[name for name in NAMES if name in ended]).copy()
    fractions = [name for name in ("gradient", "down_gradient") if name in points]
    points[fractions] = points[fractions].astype(float).fillna(1.0)
    points = points[[name for name in points if points[name].nunique() > 1]]
    distributions: dict[str, Any] = {}
    for name in points:
        if named := points[name].dtype == object or points[name].dtype.kind not in "if":
            # Whole numbers by the mean rank of their trials: a regression tree finds its best
            # splits of names in this order (Fisher 1958). Optuna gives each name a column of its
            # own, and takes twice the time for every name more.
            means = column.rank().groupby(points[name]).mean().sort_values(kind="stable")
            places = {own: float(place) for place, own in enumerate(means.index)}
            points[name] = points[name].map(places)
        low, high = float(points[name].min()), float(points[name].max())
        distributions[name] = optuna.distributions.FloatDistribution(low, high, log=not named)
    if not distributions:
        return {}
    with quiet():
        study = optuna.create_study(direction="minimize")
        for rank, point in zip(column.rank(), points.to_dict("records"), strict=True):
            params = {k: float(v) for k, v in point.items()}
            study.add_trial(
                optuna.create_trial(value=rank, params=params, distributions=distributions)
            )
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {NAMES[name]: float(share) for name, share in shares.items()}
