"""The page's sentences with numbers, from the CSV files."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm, ttest_1samp

from experiments.common.inference import holm
from experiments.common.prose import bullets, listed, quoted, wrap

from . import analysis
from .masking import FOLDER
from .rows import DENSE, RANKED, ROWS

CASE = ["task", "method", "budget"]
NAMES = {
    "digits_skewed": "Digits with skewed labels",
    "mnist": "MNIST",
    "chars": "Characters",
    "cifar": "CIFAR-10",
}
"""How sentences call the tasks that are ranked."""


def answers(results: Path) -> dict[str, str]:
    """The page's texts by name.

    Args:
        results: the folder with ``verdict.csv``, ``places.csv`` and a folder per task.
    """
    finals = pd.concat([pd.read_csv(results / task / "finals.csv") for task in RANKED])
    means = pd.concat(
        [pd.read_csv(results / task / "means.csv").assign(task=task) for task in RANKED]
    )
    verdict, places = (
        pd.read_csv(results / f"{name}.csv").set_index("method") for name in ("verdict", "places")
    )
    scores = analysis.scored(finals.reset_index(drop=True))
    return {
        "headline": headline(places),
        "note": note(results / FOLDER),
        "tests": bullets(
            planned(verdict, scores),
            each_place_once(places, scores),
            choice(verdict, scores),
            ranks(scores),
            reused(finals),
            chosen(finals),
        ),
        "orders": bullets(*(task(name, means) for name in RANKED), worst(means, places)),
    }


def headline(places: pd.DataFrame) -> str:
    """What is told from the best over places, which are the unit of repetition."""
    rest = places.iloc[1:]
    near, far = (rest.index[which] for which in (rest["chance"] >= 0.05, rest["chance"] < 0.05))
    top, second = places.index[0], rest.iloc[0]
    if len(near) > len(far):
        place = "ahead" if second["behind"] < 0 else "behind"
        low, high = sorted(second[["low", "high"]] * (-1 if place == "ahead" else 1))
        claim = (
            f"Which of the best methods is best cannot be told: at the {places['places'].max()} "
            f"places, `{second.name}` errs {second['effect']:.2f} more than `{top}` in log-odds "
            f"and is {abs(second['behind']):.1f} points {place} (90 % interval {low:.1f} to "
            f"{high:.1f})."
        )
    else:
        claim = (
            f"`{top}` errs least, and {listed(near)} {'is' if len(near) == 1 else 'are'} not told "
            "from it."
        )
    return wrap(
        f"**{claim}** The unit of repetition is the place, a task with a budget: three for each of "
        f"{len(RANKED)} tasks. `digits_iid` was run, too, and is not ranked."
    )


def note(folder: Path) -> str:
    """How the methods that were masked before are to be read.

    Args:
        folder: of the masked runs; ``spent.csv`` has the hours of those without masking.
    """
    if not (folder / "spent.csv").exists():
        return quoted(
            "**To be run again: `topk`, `stc` and `sparseloco` were measured with momentum "
            "masking, which their papers do not have.** These runs have `--momentum-masking auto`. "
            "It masked every method with error feedback when they were made. Now it masks for "
            "`sbc` alone, because among these methods only SBC's paper masks. `ef_sign`, "
            "`powersgd` and `scalars` keep their numbers: they have error feedback, and they send "
            "whole tensors, of which nothing is masked. Methods without error feedback (EDEN, "
            "QSGD, EF21, random masks) were never masked.",
            "Running them again, as published, takes 3.3 core hours by the dry run's steps: 0.1 "
            "for `digits_skewed`, 0.9 for `mnist`, 1.2 for `chars` and 1.0 for `cifar`, without "
            "what edges ask for.",
        )
    hours = pd.read_csv(folder / "spent.csv")["core_seconds"].sum() / 3600
    return quoted(
        "**`topk`, `stc` and `sparseloco` ran again without momentum masking, which their papers "
        f"do not have.** Core hours: {hours:.1f} (planned: 3.5). SBC's paper masks, and so does "
        "`sbc` here. [What masking did](#what-masking-did) has both."
    )


def planned(verdict: pd.DataFrame, scores: pd.DataFrame) -> str:
    """The mixed models of the plan."""
    chances, top = verdict["chance"].iloc[1:], verdict.index[0]
    near, far = chances[chances > analysis.LEVEL], chances[chances <= analysis.LEVEL]
    equal = [name for name in verdict.index[1:] if verdict.loc[name, "equal"]]
    other = verdict.index[verdict["elsewhere"] <= analysis.LEVEL]
    return (
        f"**The planned test.** Over {scores['place'].nunique()} places `{top}` errs least, and "
        f"{len(near)} methods are not told from it: {listed(near.index)} (Holm's p is at least "
        f"{near.min():.2g}). The {len(far)} others err more (Holm's p is at most {far.max():.2g}). "
        f"Practically equal to it: {listed(equal)}. The planned model for other places tells "
        f"{listed(other)} from it. Methods differ by place {by_place(scores):.0f} times as much as "
        "by seed (mean squares), and the test takes its standard error from both together, so that "
        "the error describes neither these places nor others."
    )


def by_place(scores: pd.DataFrame) -> float:
    """The mean square of methods at places, beyond methods, over that of seeds."""
    seeds = pd.get_dummies(scores["place"] + " " + scores["seed"].astype(str), dtype=float)
    squares = []
    for levels in (scores["method"], scores["place"] + " " + scores["method"]):
        terms = np.hstack([seeds, pd.get_dummies(levels, dtype=float)])
        fitted, _, rank, _ = np.linalg.lstsq(terms, scores["logit"].to_numpy(), rcond=None)
        residual = scores["logit"].to_numpy() - terms @ fitted
        squares.append((float(residual @ residual), len(scores) - rank))
    (alike, freedom), (left, rest) = squares
    return (alike - left) / (freedom - rest) / (left / rest)


def each_place_once(places: pd.DataFrame, scores: pd.DataFrame) -> str:
    """Places that weigh once each."""
    top, rest = places.index[0], places.iloc[1:]
    mean = scores.pivot_table("logit", "place", "method")
    ahead = mean.lt(mean[top], axis=0).sum().sort_values(ascending=False, kind="stable")
    most = ahead.index[ahead == ahead.iloc[0]]
    near = rest.index[rest["seeds"] >= analysis.LEVEL]
    return (
        f"**Each place once**, which was not planned. `{top}` leads. Where the places are given "
        f"and seeds alone vary, all others are told from it"
        f"{f' but {listed(near)}' if len(near) else ''}. Where places vary, "
        f"{listed(rest.index[rest['chance'] < analysis.LEVEL])} and no other. It errs more than "
        f"{listed(most)} at {ahead.iloc[0]} of the {len(mean)} places. Twelve places of four data "
        "sets contain little about others."
    )


def choice(verdict: pd.DataFrame, scores: pd.DataFrame) -> str:
    """What stays told from the best once its choice among all is corrected for, too."""
    top, others = verdict.index[0], verdict.index[1:]
    pairs = len(verdict) * (len(verdict) - 1) // 2
    rest = verdict.loc[others]
    planned_p = 2 * norm.sf(rest["effect"] / rest["error"])
    mean = scores.pivot_table("logit", "place", "method")
    less = mean[others].sub(mean[top], axis=0)
    places_p = ttest_1samp(less, 0, nan_policy="omit").pvalue
    more = np.ones(pairs - len(others))  # the other pairs, of which none has a smaller p
    planned_p, places_p = (holm(np.append(p, more))[: len(others)] for p in (planned_p, places_p))
    told = [
        listed(name for name, p in zip(others, chances, strict=True) if p <= analysis.LEVEL)
        for chances in (planned_p, places_p)
    ]
    return (
        f"**The choice of the best.** The same runs choose it, and the tests above correct for the "
        f"{len(others)} comparisons with it alone. Corrected for all {pairs} pairs of methods, "
        f"the planned test tells {told[0]} from it, and with places as the unit {told[1]} "
        f"(the least p is {min(places_p):.2g})."
    )


def ranks(scores: pd.DataFrame) -> str:
    """Mean ranks, and what the critical difference separates."""
    ranked = analysis.ranks(scores)
    width, chance = analysis.difference(ranked)
    mean = ranked.mean().sort_values(kind="stable")
    far = (mean > mean.iloc[0] + width).sum()
    return (
        f"**Mean ranks** put {listed(mean.index[:3])} first, within "
        f"{mean.iloc[2] - mean.iloc[0]:.1f} of each other (Friedman's p {chance:.2g}). The planned "
        f"critical difference (Nemenyi, {width:.1f}) separates {far} of the {len(mean)} methods "
        "from the first."
    )


def reused(finals: pd.DataFrame) -> str:
    """Cases that have the runs of a smaller budget."""
    runs = cases(finals)
    shared = runs.duplicated(["task", "method", "runs"])
    smaller = (runs["tuned_at"] < runs["budget"]).sum()
    return (
        f"**Runs that count twice.** {shared.sum()} of the {len(runs)} cases have the runs of a "
        f"smaller budget, which count at both. At {smaller} of them the choice of the smaller "
        "budget was better; at the others both budgets chose the same settings. Seeds of a task "
        "are the same at its three budgets. Intervals and tests take them as independent."
    )


def chosen(finals: pd.DataFrame) -> str:
    """How often one draw, or the end of a knob, was chosen."""
    runs = cases(finals)
    factor = runs["factor"].round(2).value_counts()
    knobs = runs[runs["strength"].notna()]
    most = knobs["method"].map(lambda name: str(ROWS[name].strengths[-1]))
    at_end = knobs["strength"].astype(str).str.removesuffix(".0") == most
    ends = at_end.groupby(knobs["method"]).sum().sort_values(ascending=False, kind="stable")
    first = ", ".join(f"`{name}` {count}" for name, count in ends[:3].items())
    return (
        f"**What tuning chose.** {factor.iloc[0]} of the {len(runs)} cases chose the same one of "
        f"the 16 draws, with {factor.index[0]:g} times the task's rate. At {at_end.sum()} of "
        f"{len(knobs)} cases with a knob its greatest strength was chosen, so that more may be "
        f"better there ({first}). No interval contains what tuning on one seed adds."
    )


def cases(finals: pd.DataFrame) -> pd.DataFrame:
    """A line per case within a budget: its runs and what was chosen."""
    first = {name: (name, "first") for name in ("tuned_at", "factor", "strength")}
    within = finals[finals["budget"] < 1].groupby(CASE)
    return within.agg(runs=("run", tuple), **first).reset_index()


def task(name: str, means: pd.DataFrame) -> str:
    """Which methods have the greatest mean at each budget, to 0.1, and the range at the least."""
    table = means[means["task"] == name].pivot(index="budget", columns="method", values="mean")
    within = table[table.index < 1]
    best = []
    for budget, line in within.iterrows():
        shown, most = line.map("{:.1f}".format), f"{line.max():.1f}"
        part = float(f"{1 / budget:.2g}")
        best.append(f"1/{part:.0f} {listed(line.index[shown == most])} {most}")
    least = within.iloc[0].dropna()
    return (
        f"**{NAMES[name]}.** The greatest means, in per cent: {'; '.join(best)}; dense messages "
        f"without a budget have {table.loc[1.0, DENSE]:.1f}. At 1/3000 methods lie between "
        f"{least.min():.1f} and {least.max():.1f} %."
    )


def worst(means: pd.DataFrame, places: pd.DataFrame) -> str:
    """How far methods are behind the best at their worst place."""
    table = means[means["budget"] < 1].pivot(
        index=["task", "budget"], columns="method", values="mean"
    )
    behind = table.rsub(table.max(axis=1), axis=0)
    everywhere = [name for name in places.index if table[name].notna().all()]
    far = behind[everywhere].max().sort_values(kind="stable")
    parts = ", ".join(f"`{name}` {points:.1f}" for name, points in far[:5].items())
    return (
        "**No method is near the best at all places.** At its worst place it is so many points "
        f"behind the best: {parts}, all others more. No test was taken of this."
    )
