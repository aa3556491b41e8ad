"""What masking costs at each place, and whether u = p / (n (1 - beta)) says where it harms."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import f as f_distribution
from scipy.stats import spearmanr, ttest_1samp

from experiments.common.scores import half_width
from experiments.common.tables import table

PLACE = ["n", "p", "beta"]
LIMIT = 0.2
"""The value of u above which ``fedsim`` warns, from a pilot before these runs."""

PAIRS = (("masked", "off"), ("rescaled", "off"), ("masked", "rescaled"))
"""Arms that are compared."""

DRAWS, DRAW_SEED = 10_000, 0
"""Permutations and bootstrap samples, and their seed."""


def gains(finals: pd.DataFrame, chance: float) -> pd.DataFrame:
    """A line per place: points of accuracy that masking gains, the mean over paired seeds.

    ``interval`` is half the 95 % interval of the mean (Student's t over seeds). A run without an
    accuracy counts with ``chance``.

    Example:
        >>> line = {"n": 1, "p": 0.1, "beta": 0.9, "u": 1.0, "seed": 0}
        >>> scores = {"masked": 0.5, "off": 0.6}
        >>> runs = [line | {"arm": arm, "accuracy": score} for arm, score in scores.items()]
        >>> gains(pd.DataFrame(runs), 0.1)["points"].round(6).tolist()
        [-10.0]
    """
    scored = finals.assign(accuracy=finals["accuracy"].fillna(chance))
    wide = scored.pivot(index=[*PLACE, "u", "seed"], columns="arm", values="accuracy")
    points = (100 * (wide["masked"] - wide["off"])).rename("points").reset_index()
    grouped = points.groupby([*PLACE, "u"])["points"]
    means = 100 * wide.groupby([*PLACE, "u"])[["masked", "off"]].mean()
    out = pd.DataFrame({"points": grouped.mean(), "interval": grouped.apply(half_width)})
    return means.join(out).reset_index().sort_values(["u", *PLACE], kind="stable")


def arms(finals: pd.DataFrame, chance: float) -> pd.DataFrame:
    """A line per pair of arms: mean points over places, half the 95 % interval, and Student's p.

    A place has the mean of its paired seeds; the unit of repetition is the place.
    """
    scored = finals.assign(accuracy=finals["accuracy"].fillna(chance))
    means = 100 * scored.pivot_table("accuracy", PLACE, "arm")
    lines = []
    for first, second in PAIRS:
        points = means[first] - means[second]
        line = {"first": first, "second": second, "points": points.mean()}
        lines.append(line | {"interval": half_width(points), "p": ttest_1samp(points, 0).pvalue})
    return pd.DataFrame(lines)


def rank_test(places: pd.DataFrame) -> tuple[float, float]:
    """Spearman's correlation of log u and points over places, and p by permutation of places."""
    # Rounded, so that what is equal but for the last bits is tied.
    x, y = (places[name].round(9).rank().to_numpy() for name in ("u", "points"))
    rho = float(spearmanr(x, y).statistic)
    draws = np.random.default_rng(DRAW_SEED)
    as_far = sum(
        abs(np.corrcoef(x, draws.permutation(y))[0, 1]) >= abs(rho) - 1e-12 for _ in range(DRAWS)
    )
    return rho, (as_far + 1) / (DRAWS + 1)


def hinge(u: np.ndarray, points: np.ndarray) -> tuple[float, float, float]:
    """The hinge c - a max(0, log10 u - log10 u*) of least squares: c, a, u*.

    u* is searched on a grid of 0.05 decades inside the middle 90 % of places; a is at least 0.

    Example:
        >>> u = 10.0 ** np.arange(-4, 3)
        >>> c, a, limit = hinge(u, np.where(u > 1, -3 * np.log10(u), 0.0))
        >>> round(abs(c), 6), round(a, 6), round(limit, 6)
        (0.0, 3.0, 1.0)
    """
    x = np.log10(u)
    low, high = np.quantile(x, [0.05, 0.95])
    best = (math.inf, float(points.mean()), 0.0, high)
    for at in np.arange(math.ceil(low / 0.05) * 0.05, high, 0.05):
        over = np.maximum(0, x - at)
        design = np.column_stack([np.ones_like(x), -over])
        (c, a), *_ = np.linalg.lstsq(design, points, rcond=None)
        left = float(((points - design @ [c, a]) ** 2).sum())
        if a >= 0 and left < best[0]:
            best = (left, float(c), float(a), float(at))
    _, c, a, at = best
    return c, a, 10**at


def hinge_interval(places: pd.DataFrame) -> tuple[float, float]:
    """The 95 % interval of u*: places drawn again, percentiles of 2,000 samples."""
    draws = np.random.default_rng(DRAW_SEED)
    u, points = places["u"].to_numpy(), places["points"].to_numpy()
    limits = []
    for _ in range(2000):
        at = draws.integers(len(u), size=len(u))
        limits.append(hinge(u[at], points[at])[2])
    low, high = np.quantile(limits, [0.025, 0.975])
    return float(low), float(high)


def one_number(places: pd.DataFrame) -> tuple[float, dict[str, float]]:
    """Whether u alone does for n, p and beta, at places of u above ``LIMIT`` / 10.

    Points are regressed on log10 of p, 1/n and 1/(1 - beta); the hypothesis is three equal
    slopes. Returns p of the F-test (two restrictions), and the slopes; NaN where n and p change
    together.
    """
    some = places[places["u"] > LIMIT / 10]
    y = some["points"].to_numpy()
    logs = {
        "p": np.log10(some["p"]),
        "1/n": -np.log10(some["n"]),
        "1/(1-beta)": -np.log10(1 - some["beta"]),
    }
    ones = np.ones(len(some))
    full = np.column_stack([ones, *logs.values()])
    small = np.column_stack([ones, np.log10(some["u"])])
    if np.linalg.matrix_rank(full) < full.shape[1]:
        return math.nan, dict.fromkeys(logs, math.nan)
    slopes = np.linalg.lstsq(full, y, rcond=None)[0]
    left = [
        float(((y - m @ np.linalg.lstsq(m, y, rcond=None)[0]) ** 2).sum()) for m in (full, small)
    ]
    freedom = len(y) - full.shape[1]
    if freedom < 1 or not left[0]:
        return math.nan, dict(zip(logs, map(float, slopes[1:]), strict=True))
    ratio = (left[1] - left[0]) / 2 / (left[0] / freedom)
    return float(f_distribution.sf(ratio, 2, freedom)), dict(
        zip(logs, map(float, slopes[1:]), strict=True)
    )


def law(places: pd.DataFrame) -> dict[str, float]:
    """The statistics of a task, by name."""
    rho, chance = rank_test(places)
    c, a, limit = hinge(places["u"].to_numpy(), places["points"].to_numpy())
    low, high = hinge_interval(places)
    alone, slopes = one_number(places)
    out = {
        "places": len(places),
        "rho": rho,
        "rho_p": chance,
        "level": c,
        "slope": a,
        "limit": limit,
        "limit_low": low,
        "limit_high": high,
        "one_number_p": alone,
    }
    out |= {f"slope {name}": value for name, value in slopes.items()}
    for name, part in sides(places).items():
        out |= {
            f"{name} places": len(part),
            f"{name} mean": float(part["points"].mean()),
            f"{name} interval": half_width(part["points"]),
        }
    return out


def sides(places: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    """The places up to ``LIMIT``, and those above."""
    above = places["u"] > LIMIT * (1 + 1e-9)
    return {"up to": places[~above], "above": places[above]}


def markdown(places: pd.DataFrame) -> str:
    """Points by n and beta (rows) and p (columns), each with half its interval."""
    fractions = sorted(places["p"].unique())
    lines = []
    for (beta, n), part in places.groupby(["beta", "n"]):
        cells = {
            row["p"]: f"{row['points']:+.1f} ± {row['interval']:.1f} ({row['u']:.2g})"
            for row in part.to_dict("records")
        }
        lines.append([f"{beta:g}", f"{n}", *(cells.get(p, "") for p in fractions)])
    return table(["beta", "n", *(f"p = {p:g}" for p in fractions)], lines)
