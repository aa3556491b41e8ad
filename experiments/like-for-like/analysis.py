"""What the final runs say of the methods, by the plan that the README has."""

from math import inf, sqrt

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, norm, studentized_range, t

from experiments.common.inference import fit, holm
from experiments.common.scores import collapsed, wrong

from .rows import RANKED, ROWS, TASKS

PLACE = ["task", "budget"]
EQUAL = 1.0
"""Points: two methods are practically equal whose difference is shown to be smaller."""

LEVEL = 0.05


def shares(finals: pd.DataFrame) -> pd.Series:
    """The share of right answers of every run; one without a metric counts as one that guesses."""
    classes = finals["task"].map({name: task.classes for name, task in TASKS.items()})
    return finals["metric"].fillna(1 / classes)


def ranked(finals: pd.DataFrame) -> pd.DataFrame:
    """The runs of the tasks over which methods are ranked."""
    return finals[finals["task"].isin(RANKED)].reset_index(drop=True)


def scored(finals: pd.DataFrame) -> pd.DataFrame:
    """The runs within a budget, with the log-odds of an error and the metric in points."""
    told = finals[finals["budget"] < 1].reset_index(drop=True)
    answers = {name: task.scored * task.answers for name, task in TASKS.items()}
    error = wrong(shares(told), told["task"].map(answers))
    return told.assign(
        logit=np.log(error / (1 - error)),
        points=100 * shares(told),
        place=told["task"] + " " + told["budget"].astype(str),
    )


def terms(
    told: pd.DataFrame, other_places: bool = False
) -> tuple[pd.Series, pd.DataFrame, dict[str, pd.Series]]:
    """The mixed model of the log-odds of an error: outcome, fixed effects, levels of random ones.

    Methods are fixed; places (a task and a budget) and the seeds at a place are random.

    Args:
        told: from ``scored``.
        other_places: whether what a method has at a place for itself is random too: then the test
            speaks of places that were not run.
    """
    groups = {"place": told["place"], "seed": told["place"] + " " + told["seed"].astype(str)}
    if other_places:
        groups["method"] = told["place"] + " " + told["method"]
    return told["logit"], pd.get_dummies(told["method"], dtype=float), groups


def effects(told: pd.DataFrame, other_places: bool = False) -> pd.DataFrame:
    """A method's log-odds of an error less those of the best.

    The model is that of ``terms``, by restricted maximum likelihood.

    Returns:
        A line per method, the best first: ``effect``, ``error`` (the standard error) and
        ``chance``, the two-sided p-value against the best by Holm's correction.
    """
    fitted = fit(*terms(told, other_places))
    level, spread = fitted.effects.sort_values(), fitted.covariance
    best = level.index[0]
    own = pd.Series(np.diag(spread), spread.index)
    error = np.sqrt(np.maximum(own + own[best] - 2 * spread[best], 0.0))
    frame = pd.DataFrame({"effect": level - level[best], "error": error[level.index]})
    frame = frame.rename_axis("method").reset_index().assign(chance=np.nan)
    chances = 2 * norm.sf(frame["effect"][1:] / frame["error"][1:])
    frame.loc[1:, "chance"] = holm(chances)
    return frame


def apart(told: pd.DataFrame, top: str) -> pd.DataFrame:
    """By how many points a method is behind the best, over the places and seeds that both have.

    ``low`` and ``high`` are the 90 % interval (two tests of 5 % each); ``equal``: it lies within
    ``EQUAL`` to either side.
    """
    paired = told.pivot_table("points", [*PLACE, "seed"], "method")
    lines = []
    for name in paired:
        less = (paired[top] - paired[name]).dropna()
        half = t.ppf(1 - LEVEL, len(less) - 1) * less.std() / sqrt(len(less)) if name != top else 0
        low, high = less.mean() - half, less.mean() + half
        lines.append(
            {
                "method": name,
                "behind": less.mean(),
                "low": low,
                "high": high,
                "equal": low > -EQUAL and high < EQUAL,
                "runs": len(less),
            }
        )
    return pd.DataFrame(lines)


def ranks(told: pd.DataFrame) -> pd.DataFrame:
    """The rank of every method at every place by its mean metric: 1 is the best.

    Means that are equal to a thousandth of a point share the mean of their ranks; methods without
    a run at a place share the last ones. Tasks to which an added method was not put are left out.
    """
    added = told[~told["method"].isin(ROWS)].groupby("method")["task"].unique()
    shared = told[told["task"].isin(set(told["task"]).intersection(*added))]
    means = shared.pivot_table("points", PLACE, "method").fillna(-inf)
    return means.round(3).rank(axis=1, ascending=False)


def difference(ranked: pd.DataFrame) -> tuple[float, float]:
    """The critical difference of two mean ranks (Nemenyi), and Friedman's p-value."""
    places, methods = ranked.shape
    width = studentized_range.ppf(1 - LEVEL, methods, inf) / sqrt(2)
    several = places > 1 and methods > 2
    chance = friedmanchisquare(*ranked.to_numpy().T).pvalue if several else 1.0
    return float(width * sqrt(methods * (methods + 1) / (6 * places))), float(chance)


def verdict(finals: pd.DataFrame) -> pd.DataFrame:
    """A line per method: the model's effect, points behind the best, the mean rank.

    ``elsewhere``: as ``chance``, of places that were not run, against their best.
    """
    told = scored(finals)
    planned, wide = effects(told), effects(told, other_places=True)
    planned = planned.merge(wide[["method", "chance"]].rename(columns={"chance": "elsewhere"}))
    mean = ranks(told).mean().rename("rank").rename_axis("method").reset_index()
    return planned.merge(apart(told, planned["method"].iloc[0])).merge(mean, how="left")


def each_place_once(told: pd.DataFrame) -> pd.DataFrame:
    """What the plan does not have: every place weighs alike, however many seeds it has.

    Args:
        told: from ``scored``.

    Returns:
        A line per method, the best of those that ran everywhere first: ``places``, those that both
        have; ``effect``, the log-odds of an error less the best's, a mean over places; ``seeds``
        and ``chance``, p-values against the best by Holm's correction, where places are given and
        seeds vary, and where places vary (paired t); ``behind``, ``low`` and ``high``, by how many
        points, and the 90 % interval over places.
    """
    at = told.groupby(["method", "place"])[["logit", "points"]].agg(["mean", "var", "size"])
    mean = at["logit", "mean"].unstack()
    noise = (at["logit", "var"] / at["logit", "size"]).unstack()
    points = at["points", "mean"].unstack()
    everywhere = mean.dropna()
    top = (everywhere if len(everywhere) else mean).mean(axis=1).idxmin()
    less, behind = mean - mean.loc[top], points.loc[top] - points
    count = less.count(axis=1)
    frame = pd.DataFrame({"places": count, "effect": less.mean(axis=1)})
    frame = pd.concat([frame.loc[[top]], frame.drop(top).sort_values("effect")])
    rest = frame.index[1:]
    error = (noise + noise.loc[top]).where(less.notna()).sum(axis=1) ** 0.5 / count
    spread = less.std(axis=1) / count**0.5
    effect = frame.loc[rest, "effect"]
    alone, over = ((effect / e[rest]).abs() for e in (error, spread))
    both = {"seeds": 2 * norm.sf(alone), "chance": 2 * t.sf(over, count[rest] - 1)}
    for name, chances in both.items():
        known = pd.Series(chances, rest).dropna()  # a single place has no spread
        frame[name] = np.nan
        if len(known):
            frame.loc[known.index, name] = holm(known.to_numpy())
    half = t.ppf(1 - LEVEL, count - 1) * behind.std(axis=1) / count**0.5
    middle = behind.mean(axis=1)
    frame = frame.assign(behind=middle, low=middle - half, high=middle + half)
    return frame.rename_axis("method").reset_index()


def leaving_out(told: pd.DataFrame) -> pd.DataFrame:
    """What the primary test says without a task, which is not in the plan.

    Args:
        told: from ``scored``.

    Returns:
        A line per task: ``without``, it; ``best``, the method; ``near``, those not told from it.
    """
    lines = []
    for task in (name for name in TASKS if name in set(told["task"])):
        frame = effects(told[told["task"] != task])
        near = frame.loc[frame["chance"] > LEVEL, "method"]
        lines.append({"without": task, "best": frame["method"].iloc[0], "near": ", ".join(near)})
    return pd.DataFrame(lines)


def means(finals: pd.DataFrame) -> pd.DataFrame:
    """A line per method and budget: metric in per cent, collapses, bits and seconds: means."""
    place = ["method", "budget"]
    told = finals.assign(metric=100 * shares(finals), fell=collapsed(finals, place))
    grouped = told.groupby(place, sort=False)
    first = grouped[["tuned_at", "rounds", "n", "factor", "strength"]].first()
    metric = grouped["metric"].agg(["mean", "median", "std", "size"])
    columns = ["bits_up", "bits_down", "used", "encode_ms", "4g_seconds", "wifi_seconds"]
    spent, fell = grouped[columns].mean(), grouped["fell"].sum()
    return pd.concat([first, metric, fell, spent], axis=1).reset_index()
