"""Where momentum masking harms: the grid by hand, and the committed numbers by other code."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import f as f_distribution
from scipy.stats import t

from tests.support.experiments import experiment
from tests.support.markdown import ROOT

RESULTS = ROOT / "experiments" / "masking" / "results"
TASKS = sorted(path.parent.name for path in RESULTS.glob("*/law.csv"))
PLACE = ["n", "p", "beta"]
SCORED = {"digits": 360, "mnist_2nn": 10_000, "chars": 1651 * 64}
"""Held-out images and characters: accuracies are fractions of them, and files have six digits."""

PLACES = {"digits": 48, "mnist_2nn": 48, "chars": 12}
CHANCE = {"digits": 1 / 10, "mnist_2nn": 1 / 10, "chars": 1 / 97}


def half(values: np.ndarray) -> float:
    return float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)


def csv(task: str, name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / task / f"{name}.csv")


def points(task: str) -> pd.Series:
    """Mean points of a place, masked less off, run by run."""
    runs = csv(task, "finals").fillna({"accuracy": CHANCE[task]})
    runs["accuracy"] = (runs["accuracy"] * SCORED[task]).round() / SCORED[task]
    score = {(*run[:3], run.arm, run.seed): 100 * run.accuracy for run in keyed(runs)}
    gains: dict[tuple[float, ...], list[float]] = {}
    for (n, p, beta, arm, seed), value in score.items():
        if arm == "masked":
            gains.setdefault((n, p, beta), []).append(value - score[n, p, beta, "off", seed])
    return pd.Series({place: float(np.mean(values)) for place, values in gains.items()})


def keyed(runs: pd.DataFrame) -> Any:
    return runs[[*PLACE, "arm", "seed", "accuracy"]].itertuples(index=False)


def test_u_by_hand() -> None:
    """p 0.5, n 5, beta 0.9: half of a horizon of 10 iterations, every 5 of them."""
    rows = experiment("masking", "rows")
    assert rows.Place(5, 0.5, 0.9).u == pytest.approx(0.5 / (5 * 0.1))
    assert len({place.u for place in rows.places("digits", rows.SCALES["short"])}) > 30
    assert rows.rates("digits", rows.SCALES["short"], rows.Place(1, 0.1, 0.95)) == [
        0.00316,
        0.01,
        0.0316,
    ]


def test_the_rescaled_arm_by_hand() -> None:
    """n 2, p 0.25, beta 0.5, a gradient of 1: momentum 1, 1.5 kept at 1.125, 1.5625."""
    rescaled = experiment("masking", "rescaled")
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = rescaled.RescaledSGD([weight], lr=0.1, momentum=0.5, n=2, p=0.25)
    weights = []
    for _ in range(3):
        weight.grad = torch.ones(1)
        optimizer.step()
        weights.append(weight.item())
    assert weights == pytest.approx([0.9, 0.75, 0.59375])
    place = experiment("masking", "rows").Place(5, 0.01, 0.9)
    config = (
        experiment("masking", "rows")
        .cell(
            "digits",
            experiment("masking", "rows").SCALES["short"],
            place,
            "rescaled",
            0.02,
            0,
            None,
        )
        .config
    )
    settings = config.plan.task.optimizer.keywords
    assert (settings["n"], settings["p"], config.temporal, config.gradient) == (5, 0.01, 5, 0.01)
    assert config.training.momentum_masking == "off"


@pytest.mark.parametrize("task", TASKS)
def test_the_grid_is_whole_and_its_rates_are_the_trials_best(task: str) -> None:
    trials, finals = csv(task, "trials"), csv(task, "finals")
    count = PLACES[task]
    assert (len(trials), len(finals)) == (count * 3 * 3, count * 3 * 5)
    for key, part in trials.groupby([*PLACE, "arm"]):
        best = part[part["accuracy"] == part["accuracy"].max()]["lr"].min()
        used = finals[(finals[[*PLACE, "arm"]] == list(key)).all(axis=1)]
        assert used["lr"].tolist() == [best] * 5 and used["seed"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("task", TASKS)
def test_places_and_both_sides_of_the_warning(task: str) -> None:
    gains, places = points(task), csv(task, "places").set_index(PLACE)
    assert places["points"].to_dict() == pytest.approx(gains.to_dict(), abs=1e-4)
    (law,) = csv(task, "law").to_dict("records")
    u = np.array([p / (n * (1 - beta)) for n, p, beta in gains.index])
    for name, side in {"up to": u < 0.201, "above": u > 0.201}.items():
        values = gains.to_numpy()[side]
        told = (law[f"{name} mean"], law[f"{name} interval"], law[f"{name} places"])
        assert told == pytest.approx((values.mean(), half(values), len(values)), rel=1e-3)


@pytest.mark.parametrize("task", TASKS)
def test_the_statistics_of_the_plan(task: str) -> None:
    """Rank correlation, hinge by brute force, and the F-test by sums of squares of residuals."""
    gains, (law,) = points(task), csv(task, "law").to_dict("records")
    n, p, beta = np.array([*gains.index]).T
    u, y = p / (n * (1 - beta)), gains.to_numpy()
    ranks = [pd.Series(np.round(x, 8)).rank().to_numpy() for x in (u, y)]
    assert law["rho"] == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-5)

    def left(*columns: np.ndarray) -> tuple[float, float]:
        """The sum of squares that a fit leaves, and its last coefficient."""
        design = np.column_stack([np.ones(len(columns[0])), *columns])
        values = y if len(columns[0]) == len(y) else y[u > 0.02]
        solution = np.linalg.pinv(design) @ values
        return float(((values - design @ solution) ** 2).sum()), float(solution[-1])

    hinges = [left(np.maximum(0, np.log10(u / limit))) for limit in u_grid(u)]
    at = left(np.maximum(0, np.log10(u / law["limit"])))
    assert at[0] == pytest.approx(min(rest for rest, slope in hinges if slope <= 0), rel=1e-5)
    assert at[1] == pytest.approx(-law["slope"], rel=1e-4)
    if task == "chars":  # n and p change together
        assert np.isnan(law["one_number_p"])
        return
    some = u > 0.02
    full, _ = left(np.log10(p[some]), np.log10(n[some]), np.log10(1 - beta[some]))
    ratio = (left(np.log10(u[some]))[0] - full) / 2 / (full / (some.sum() - 4))
    chance = f_distribution.sf(ratio, 2, some.sum() - 4)
    assert law["one_number_p"] == pytest.approx(chance, rel=1e-3)


def test_the_three_arms() -> None:
    """Means of places, paired by hand; three comparisons of each task, which Holm corrects."""
    told = pd.concat([csv(task, "arms").assign(task=task) for task in TASKS]).reset_index()
    chances = []
    for row in told.to_dict("records"):
        runs = csv(row["task"], "finals").fillna({"accuracy": CHANCE[row["task"]]})
        scores: dict[str, dict[Any, list[float]]] = {}
        for n, p, beta, arm, _, accuracy in keyed(runs):
            scores.setdefault(arm, {}).setdefault((n, p, beta), []).append(100 * accuracy)
        first, second = scores[row["first"]], scores[row["second"]]
        points = np.array([np.mean(first[place]) - np.mean(second[place]) for place in first])
        assert len(points) == PLACES[row["task"]]
        told_here = (row["points"], row["interval"])
        assert told_here == pytest.approx((points.mean(), half(points)), abs=2e-4)
        spread = float(points.std(ddof=1)) / len(points) ** 0.5
        chances.append(2 * t.sf(abs(points.mean()) / spread, len(points) - 1))
    assert told["p"].tolist() == pytest.approx(chances, rel=1e-3)
    assert len(chances) == 3 * len(TASKS)
    page = (RESULTS.parent / "README.md").read_text(encoding="utf-8")
    least = 0.0
    for place, at in enumerate(np.argsort(chances)):
        least = max(least, min(1.0, (len(chances) - place) * chances[at]))
        row = told.loc[at]
        shown = f"{row['points']:+.2f} ± {row['interval']:.2f} | {least:.2g} |"
        assert f"| {row['task']} | {row['first']} less {row['second']} | {shown}" in page


def u_grid(u: np.ndarray) -> np.ndarray:
    low, high = np.quantile(np.log10(u), [0.05, 0.95])
    steps = np.arange(np.ceil(low * 20), np.floor(high * 20) + 1)
    return np.asarray(10 ** (steps / 20))


def test_what_the_page_says() -> None:
    page = " ".join((RESULTS.parent / "README.md").read_text(encoding="utf-8").split())
    laws = {task: csv(task, "law").iloc[0] for task in ("digits", "mnist_2nn", "chars")}
    assert sorted(laws) == TASKS
    ranked, least = [], 0.0
    for place, (task, law) in enumerate(sorted(laws.items(), key=lambda x: x[1]["rho_p"])):
        least = max(least, (len(laws) - place) * law["rho_p"])
        if least < 0.05:
            ranked.append((task, f"{law['rho']:.2f}", f"{law['rho_p']:.2g}", f"{least:.3f}"))
    names, ranks, chances, corrected = (list(part) for part in zip(*ranked, strict=True))
    assert f"more on {NUMBERS[len(ranked)]} of {NUMBERS[len(laws)]} tasks" in page
    assert f"correlations of {' and '.join(ranks)} (p = {' and '.join(corrected)} after" in page
    assert f"u ranks places on {' and '.join(f'`{name}`' for name in names)}**" in page
    after = f"after Holm over three tasks {' and '.join(corrected)})"
    assert f"(p = {chances[0]}0 and {chances[1]}, {after}; on `digits` it cannot" in page
    above = [f"{-law['above mean']:.1f} ± {law['above interval']:.1f}" for law in laws.values()]
    assert f"above u = 0.2 is {', '.join(above[:-1])} and {above[-1]} points (95 %)" in page
    assert all(law["above mean"] + law["above interval"] > 0 for law in laws.values())
    within = [abs(law["up to mean"]) + law["up to interval"] < 0.5 for law in laws.values()]
    assert within == [False, False, True]
    limits = [[law[name] for law in laws.values()] for name in ("limit_low", "limit_high")]
    assert max(limits[0]) < min(limits[1]), "u*: intervals overlap"
    assert f"up to {limits[1][0]:.1f}, {limits[1][1]:.1f} and {limits[1][2]:.2f}:" in page
    compared = pd.concat([csv(task, "arms") for task in TASKS])["p"]
    assert f"of nine comparisons Holm's p is at least {9 * compared.min():.2f}." in page


NUMBERS = ("none", "one", "two", "three")


def test_what_single_places_show() -> None:
    page = " ".join((RESULTS.parent / "README.md").read_text(encoding="utf-8").split())
    places = pd.concat([csv(task, "places") for task in TASKS])
    high, some = places[places["u"] > 4], places[places["u"].between(0.19, 2.01)]
    assert (high["points"] + high["interval"] < 0).all() and len(high) == 6
    assert f"from {-high['points'].max():.1f} to {-high['points'].min():.1f} points" in page
    assert f"between {some['points'].max():+.1f} and {some['points'].min():.1f}." in page
    runs = pd.concat([csv(task, "finals").assign(task=task) for task in TASKS])
    chosen = runs.groupby(["task", *PLACE, "u", "arm"])["lr"].first().unstack()
    forgetful = chosen[chosen.index.get_level_values("u") > 0.3]
    higher = (forgetful["masked"] > forgetful["off"]).sum()
    lower = (forgetful["masked"] < forgetful["off"]).sum()
    assert f"take the higher rate at {higher} of {len(forgetful)}" in page and lower == 1
    chars = chosen.loc["chars"]
    tried = csv("chars", "trials").groupby(PLACE)["lr"].max()
    greatest = chars.eq(tried.reindex(chars.index.droplevel("u")).to_numpy(), axis=0)
    assert f"chosen by {greatest.to_numpy().sum()} of {greatest.size} arms" in page
    assert greatest.loc[1].to_numpy().all()
    means = 100 * runs[runs["u"] > 4].pivot_table("accuracy", ["task", *PLACE], "arm")
    rescaled, masked = ((means["off"] - means[arm]).mean() for arm in ("rescaled", "masked"))
    assert f"loses {rescaled:.1f} points on average, where masking loses {masked:.1f}." in page
    assert f"costs {100 * rescaled / masked:.0f} % of what masking costs at these six" in page
