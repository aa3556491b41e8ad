"""What the plan of the README asks: ranks by nu and by error, and intervals over tasks."""

from importlib import import_module
from math import nan, sqrt

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, t

from .messages import PLACE, UNBIASED

like = import_module("experiments.like-for-like.analysis")

SAME_DATA = {"digits_skewed": "digits", "digits_iid": "digits"}
"""Tasks that share a data set."""

STATISTICS = {
    "tau": "tau: nu as run",
    "tau_distortion": "tau: D alone",
    "tau_rounds": "tau: 1 / R alone",
    "tau_over_rounds": "tau: nu less 1 / R",
    "tau_halves": "tau: one half of the seeds by the other",
    "tau_untrained": "tau: least nu that the budget allows",
    "tau_elsewhere": "tau: the method's error at other tasks",
    "behind": "points behind the best: least nu as run",
    "behind_untrained": "points behind the best: least nu that the budget allows",
    "behind_elsewhere": "points behind the best: best at other tasks",
    "behind_random": "points behind the best: a method at random",
    "slope_unbiased": "slope of log-odds in log10 nu: unbiased",
    "slope_memory": "slope of log-odds in log10 nu: with memory",
    "slope_less": "slope: with memory less unbiased",
    "tau_curves": "tau, fifteen methods: two curves of the other tasks",
    "tau_fifteen": "tau, fifteen methods: the method's error at other tasks",
    "tau_curves_less": "tau, fifteen methods: two curves less the other tasks' errors",
}
"""What is computed, in the order of the table; ``tau`` is the primary statistic."""


def outcomes(finals: pd.DataFrame) -> pd.DataFrame:
    """The log-odds of an error and the points of every place and method: means over seeds.

    ``odd`` and ``even`` are the log-odds over one half of the seeds.
    """
    runs = like.scored(finals)
    by = [*PLACE, "method"]
    means = runs.groupby(by)[["logit", "points"]].mean()
    odd = runs["seed"] % 2 == 1
    halves = {"odd": runs[odd], "even": runs[~odd]}
    parts = {name: part.groupby(by)["logit"].mean() for name, part in halves.items()}
    return means.assign(**parts).reset_index()


def tau(score: pd.Series, error: pd.Series) -> float:
    """Kendall's tau-b of a score and an error; 0 where one of them is constant.

    Example:
        >>> tau(pd.Series([1, 2, 3]), pd.Series([0.1, 0.3, 0.2])).__round__(3)
        0.333
    """
    value = float(kendalltau(score.to_numpy(), error.to_numpy()).statistic)
    return 0.0 if np.isnan(value) else value


def elsewhere(frame: pd.DataFrame) -> pd.Series:
    """The mean log-odds of a line's method at the other tasks with the same budget.

    Each place's mean is taken off first. NaN where there is no other task.
    """
    level = frame["logit"] - frame.groupby(PLACE)["logit"].transform("mean")
    values = []
    for line in frame.itertuples():
        others = (frame["task"] != line.task) & (frame["method"] == line.method)
        values.append(level[others & (frame["budget"] == line.budget)].mean())
    return pd.Series(values, frame.index)


def places(lines: pd.DataFrame, untrained: pd.DataFrame) -> pd.DataFrame:
    """A line per place, of the unbiased methods: taus, what each score picks, points behind.

    Args:
        lines: ``messages.noise`` of the final runs with ``outcomes``.
        untrained: ``messages.least`` of what the budgets allow.
    """
    on = [*PLACE, "method"]
    few = lines[lines["method"].isin(UNBIASED)].reset_index(drop=True)
    free = untrained[[*on, "nu"]].rename(columns={"nu": "untrained"})
    few = few.merge(free, on=on, how="left", validate="one_to_one")
    few["elsewhere"] = elsewhere(few)
    made = []
    for (task, budget), group in few.groupby(PLACE, sort=False):
        at = group.set_index("method")
        best, points = at["points"].max(), at["points"]
        scores = {"": at["nu"], "_untrained": at["untrained"], "_elsewhere": at["elsewhere"]}
        line = {"task": task, "budget": budget, "methods": len(at), "best": points.idxmax()}
        more = {"_distortion": at["error"], "_rounds": 1 / at["rounds"]}
        for name, score in (scores | more).items():
            line[f"tau{name}"] = tau(score, at["logit"])
        line["tau_over_rounds"] = line["tau"] - line["tau_rounds"]
        line["tau_halves"] = tau(at["odd"], at["even"])
        for name, score in scores.items():
            pick = score.idxmin() if score.notna().all() else None
            line[f"pick{name}"] = pick
            line[f"behind{name}"] = nan if pick is None else best - points[pick]
        made.append(line | {"behind_random": best - points.mean()})
    return pd.DataFrame(made)


def design(lines: pd.DataFrame) -> pd.DataFrame:
    """Columns of the two curves: a constant for memory, and log10 nu of each family."""
    memory = (~lines["method"].isin(UNBIASED)).astype(float)
    power = np.log10(lines["nu"])
    return pd.DataFrame(
        {"memory": memory, "unbiased": power * (1 - memory), "held": power * memory}
    )


def curves(lines: pd.DataFrame) -> pd.Series:
    """The least-squares curves of log-odds by ``design``, with a constant for each place."""
    columns = design(lines)
    label = lines["task"] + " " + lines["budget"].astype(str)
    constants = pd.get_dummies(label).to_numpy(float)
    system = np.hstack([columns.to_numpy(), constants])
    fitted = np.linalg.lstsq(system, lines["logit"].to_numpy(), rcond=None)[0]
    return pd.Series(fitted[: columns.shape[1]], columns.columns)


def families(lines: pd.DataFrame) -> pd.DataFrame:
    """A line per task, of all fifteen methods: its slopes, and taus of the other tasks' curves."""
    scores = lines.assign(elsewhere=elsewhere(lines))
    made = []
    for task in lines["task"].unique():
        mine, others = scores[scores["task"] == task], scores[scores["task"] != task]
        own = curves(mine)
        line = {
            "task": task,
            "slope_unbiased": own["unbiased"],
            "slope_memory": own["held"],
            "slope_less": own["held"] - own["unbiased"],
        }
        if len(others):
            score = design(mine) @ curves(others)
            groups = mine.assign(score=score).groupby("budget")
            line["tau_curves"] = np.mean([tau(g["score"], g["logit"]) for _, g in groups])
            line["tau_fifteen"] = np.mean([tau(g["elsewhere"], g["logit"]) for _, g in groups])
            line["tau_curves_less"] = line["tau_curves"] - line["tau_fifteen"]
        made.append(line)
    return pd.DataFrame(made)


def by_task(at_places: pd.DataFrame, of_families: pd.DataFrame) -> pd.DataFrame:
    """A line per task: every statistic of ``STATISTICS``, a mean over the task's places."""
    names = [name for name in STATISTICS if name in at_places]
    means = at_places.groupby("task", sort=False)[names].mean().reset_index()
    return means.merge(of_families, on="task").reindex(columns=["task", *STATISTICS])


def summary(tasks: pd.DataFrame) -> pd.DataFrame:
    """A line per statistic: mean and 95 % interval over tasks, and over data sets."""
    data = tasks["task"].replace(SAME_DATA).rename("data")
    sets = tasks.groupby(data, sort=False)[[*STATISTICS]].mean()
    lines = []
    for name, title in STATISTICS.items():
        over, wide = interval(tasks[name]), interval(sets[name])
        line = {"statistic": name, "title": title, "tasks": len(tasks)}
        line |= dict(zip(("mean", "low", "high"), over, strict=True)) | {"sets": len(sets)}
        lines.append(line | dict(zip(("set_mean", "set_low", "set_high"), wide, strict=True)))
    return pd.DataFrame(lines)


def interval(values: pd.Series) -> tuple[float, float, float]:
    """Mean, lower and upper end of Student's 95 % interval; NaN ends of a single value."""
    mean = float(values.mean())
    if len(values) < 2:
        return mean, nan, nan
    half = float(t.ppf(0.975, len(values) - 1) * values.std() / sqrt(len(values)))
    return mean, mean - half, mean + half
