"""The law's test: masks less top-k over rounds times the fraction, at equal upstream bits."""

from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest, chi2

from experiments.common.inference import fit
from experiments.common.scores import collapsed, wrong

from .rows import MASK, ROWS, SETTINGS, TOPK

PLACE = ["setting", "iterations", "budget"]
"""Where masks and top-k meet: a task with its clients' shares, a length, a budget."""

DRAWS = 2000
"""Of the bootstrap."""


def shares(finals: pd.DataFrame) -> pd.Series:
    """The share of right answers of every run.

    A run without an evaluation in its budget, or whose weights or loss stopped to be finite, counts
    as one that guesses.
    """
    classes = finals["setting"].map({name: setting.classes for name, setting in SETTINGS.items()})
    return finals["metric"].fillna(1 / classes)


def errors(finals: pd.DataFrame) -> pd.Series:
    """The share of wrong answers of every run, a half added to right and wrong ones."""
    answers = {name: setting.scored * setting.answers for name, setting in SETTINGS.items()}
    return wrong(shares(finals), finals["setting"].map(answers))


def log_odds(error: pd.Series) -> pd.Series:
    """The log-odds of shares of wrong answers."""
    odds: pd.Series = np.log(error / (1 - error))
    return odds


def chosen(trials: pd.DataFrame) -> pd.DataFrame:
    """The method of either kind that has the least validation loss at a place.

    Returns:
        A line per place: ``mask`` and ``topk``; places where a kind has no method are left out.
    """
    asked = trials[trials["kind"].isin([MASK, TOPK])].fillna({"loss": inf})
    # Of equal losses, as where all diverge, the first in ROWS.
    best = asked.sort_values("loss", kind="stable").groupby([*PLACE, "kind"], sort=False).first()
    return best["method"].unstack("kind").dropna().reset_index()


def differences(trials: pd.DataFrame, finals: pd.DataFrame) -> pd.DataFrame:
    """A line per place and seed: by how much the log-odds of an error are lower with the mask.

    ``x`` is the decimal logarithm of rounds times the fraction, which is how often an entry of what
    the mask draws from (the rotated update) is sent in a run. ``bits`` are the mask's over top-k's:
    one of them may leave a part of the budget.
    """
    limited = finals[finals["budget"].notna()]
    told = (
        limited.assign(
            logit=log_odds(errors(limited)),
            often=limited["rounds"] * limited["p"],
            metric=shares(limited),
        )
        .set_index([*PLACE, "method", "seed"])
        .sort_index()
    )
    lines = []
    for place in chosen(trials).itertuples(index=False):
        at = (place.setting, place.iterations, place.budget)
        mask, topk = (told.loc[(*at, method)] for method in (place.mask, place.topk))
        for seed in mask.index:
            lines.append(
                {
                    **dict(zip(PLACE, at, strict=True)),
                    "seed": seed,
                    "mask": place.mask,
                    "topk": place.topk,
                    "x": float(np.log10(mask["often"].iloc[0])),
                    "gain": topk.loc[seed, "logit"] - mask.loc[seed, "logit"],
                    "points": 100 * (mask.loc[seed, "metric"] - topk.loc[seed, "metric"]),
                    "bits": mask.loc[seed, "bits"] / topk.loc[seed, "bits"],
                }
            )
    return pd.DataFrame(lines)


def of_equal_bits(told: pd.DataFrame) -> pd.DataFrame:
    """The lines of places where the mask sent 0.8 to 1.25 of top-k's bits, a mean over seeds."""
    return told[told.groupby(PLACE)["bits"].transform("mean").between(0.8, 1.25)]


def as_limits(trials: pd.DataFrame, finals: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Trials and finals as they are where a method may leave a part of its budget.

    At every place a method has its trials and runs of that budget, of its own and the smaller ones
    of the same length, at which its best trial has the least validation loss.
    """
    case = ["setting", "iterations", "method"]
    found: tuple[list[pd.DataFrame], list[pd.DataFrame]] = [], []
    limited = trials[trials["budget"].notna()].fillna({"loss": inf})
    parts = [dict(iter(frame.groupby([*case, "budget"]))) for frame in (trials, finals)]
    for key, part in limited.groupby(case, sort=False):
        least = part.groupby("budget")["loss"].min()
        for budget in least.index:
            used = (*key, least[least.index <= budget].idxmin())
            for into, by in zip(found, parts, strict=True):
                if used in by:
                    into.append(by[used].assign(budget=budget))
    return pd.concat(found[0]), pd.concat(found[1])


@dataclass(frozen=True)
class Law:
    """What the test found.

    Attributes:
        slope, error: of the gain over x, with its standard error.
        chance: of the likelihood ratio, if there were no slope.
        crossing: x from which on the gain is below 0; NaN where the slope is not below 0.
        low, high: the crossing's 95 % interval over tasks and seeds.
        places, runs: that were compared.
    """

    slope: float
    error: float
    chance: float
    crossing: float
    low: float
    high: float
    places: int
    runs: int


def terms(told: pd.DataFrame, slope: bool) -> tuple[pd.Series, pd.DataFrame, dict[str, pd.Series]]:
    """The mixed model of the gain: outcome, fixed effects, levels of the random ones.

    What is modelled is the mean gain of a place over its seeds; settings have intercepts of their
    own at random.
    """
    means = told.groupby(PLACE, as_index=False)[["x", "gain"]].mean()
    fixed = means[["x"]].assign(level=1.0)[["level", "x"] if slope else ["level"]]
    return means["gain"], fixed, {"setting": means["setting"]}


def law(told: pd.DataFrame) -> Law:
    """The mixed model of ``terms`` with and without the slope, by maximum likelihood."""
    free, bound = (fit(*terms(told, slope), restricted=False) for slope in (True, False))
    slope, level = free.effects["x"], free.effects["level"]
    low, high = interval(told)
    return Law(
        slope=slope,
        error=free.covariance.loc["x", "x"] ** 0.5,
        chance=float(chi2.sf(max(0.0, bound.deviance - free.deviance), 1)),
        crossing=-level / slope if slope < 0 else nan,
        low=low,
        high=high,
        places=told[PLACE].drop_duplicates().shape[0],
        runs=len(told),
    )


def interval(told: pd.DataFrame, draws: int = DRAWS) -> tuple[float, float]:
    """The 95 % interval of the crossing: settings are drawn, then seeds of each.

    The line is that of least squares, with an intercept of every setting's own; the crossing is of
    their mean. Draws without a slope, whose line crosses nowhere, make the interval wider: their
    crossing counts as beyond either end in turn.
    """
    numbers = np.random.default_rng(0)
    cubes = {  # seeds x places, of gains; places' x
        name: (
            part.pivot_table("gain", "seed", PLACE[1:]).to_numpy(),
            part.groupby(PLACE[1:])["x"].first().to_numpy(),
        )  # both by length, then budget
        for name, part in told.groupby("setting")
    }
    names, found = list(cubes), []
    for draw in range(draws):
        xs, gains = [], []
        for name in numbers.choice(names, len(names)):
            cube, x = cubes[name]
            seeds = numbers.integers(0, len(cube), len(cube))
            xs.append(x)
            gains.append(cube[seeds].mean(0))
        own = [(x - x.mean(), gain - gain.mean()) for x, gain in zip(xs, gains, strict=True)]
        slope = sum(x @ gain for x, gain in own) / sum(x @ x for x, _ in own)
        centre, height = np.concatenate(xs).mean(), np.concatenate(gains).mean()
        found.append(centre - height / slope if slope < 0 else (inf if draw % 2 else -inf))
    low, high = np.quantile(found, [0.025, 0.975], method="nearest")
    return float(low), float(high)


def collapses(finals: pd.DataFrame) -> pd.DataFrame:
    """How many runs of a method collapsed, with the exact interval of the share (Clopper-Pearson).

    A run has collapsed that ends more than ten points below the median of its method's seeds at
    that place, or whose weights or loss stopped to be finite.
    """
    finals = finals.assign(fell=collapsed(finals, [*PLACE, "method"]))
    lines: list[dict[str, Any]] = []
    for method in (name for name in ROWS if name in set(finals["method"])):
        fell = finals.loc[finals["method"] == method, "fell"]
        share = binomtest(int(fell.sum()), len(fell)).proportion_ci(method="exact")
        lines.append(
            {
                "method": method,
                "runs": len(fell),
                "collapsed": int(fell.sum()),
                "low": share.low,
                "high": share.high,
            }
        )
    return pd.DataFrame(lines)


def means(finals: pd.DataFrame) -> pd.DataFrame:
    """A line per place and method: mean, median and deviation in per cent, bits, n, p."""
    told = finals.assign(metric=100 * shares(finals))
    grouped = told.groupby([*PLACE, "method"], sort=False, dropna=False)
    return grouped.agg(
        n=("n", "first"),
        p=("p", "first"),
        factor=("factor", "first"),
        mean=("metric", "mean"),
        median=("metric", "median"),
        sd=("metric", "std"),
        bits=("bits", "mean"),
        seeds=("metric", "size"),
    ).reset_index()
