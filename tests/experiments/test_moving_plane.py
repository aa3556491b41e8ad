"""Controllers against fixed cells: what is compared by hand, the cells, and what the page says."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from experiments.common.inference import holm
from experiments.common.scores import half_width
from fedsim.results.intervals import mean
from tests.support.experiments import experiment
from tests.support.markdown import ROOT

HOME = ROOT / "experiments" / "moving-plane"
TASKS = ("digits", "mnist_lenet5", "mnist_mlp512")


@pytest.fixture(scope="module")
def moving() -> Any:
    return experiment("moving-plane")


@pytest.fixture(scope="module")
def tables() -> Any:
    return experiment("moving-plane", "tables")


@pytest.mark.parametrize("seeds", [2, 5, 6, 7, 8, 9, 10, 20])
def test_half_widths_are_those_of_student_with_any_number_of_seeds(seeds: int) -> None:
    scores = [0.9 + 0.01 * (seed % 3) for seed in range(seeds)]
    assert half_width(pd.Series(scores)) == pytest.approx(mean(scores).half, rel=3e-4)


def test_every_cell_has_the_budget_s_iterations_and_controllers_begin_at_one_cell(
    moving: Any,
) -> None:
    configs = {c.name: c.config for c in moving.cells("digits", "short", None)}
    assert len(configs) == 3 * (6 + 6)
    assert {c.plan.iterations for c in configs.values()} == {120}
    moved = [c for c in configs.values() if c.controller]
    assert {(c.temporal, c.gradient) for c in moved} == {(5, 0.01)} and len(moved) == 18
    assert all(c.plan.evaluate_every * c.temporal in (10, 25) for c in configs.values())


def lines(*runs: tuple[str, int, list[float], list[float]]) -> pd.DataFrame:
    """Name, seed, bits and scores of each run; a bit takes a second."""
    return pd.concat([
        pd.DataFrame({"name": name, "seed": seed, "up_bits": bits, "seconds": bits, "score": score})
        for name, seed, bits, score in runs
    ])  # fmt: skip


def test_a_controller_against_the_best_cell_by_hand(tables: Any) -> None:
    """At 15 bits: a has 0.5 and 0.7, b 0.6 and 0.6 with one more, c 0.8 and 1.0."""
    frame = lines(
        ("a", 0, [10, 20], [0.4, 0.6]), ("a", 1, [10, 20], [0.6, 0.8]),
        ("b", 0, [5], [0.61]), ("b", 1, [5], [0.61]), ("c", 0, [15], [0.8]), ("c", 1, [10], [1.0]),
    )  # fmt: skip
    limits = pd.DataFrame({"budget": ["few bits"], "unit": ["up_bits"], "value": [15.0]})
    compared = tables.compared(frame, limits, ["c"]).set_index("name")
    assert compared["score"].to_dict() == pytest.approx({"a": 0.6, "b": 0.61, "c": 0.9})
    assert compared["best"].to_dict() == {"a": False, "b": True, "c": False}
    assert compared.loc["c", "gap"] == pytest.approx(0.29)
    assert compared.loc["c", "gap_interval"] == pytest.approx(12.706 * 0.1, rel=1e-3)
    assert compared.loc["c", "verdict"] == "level"
    early = tables.compared(frame, limits.assign(value=12.0), ["c"]).set_index("name")
    assert early.loc["c", "verdict"] == "late"


def results(name: str) -> pd.DataFrame:
    return pd.read_csv(HOME / "results" / name / "moving.csv")


@pytest.mark.parametrize("task", TASKS)
def test_the_scores_follow_from_the_curves(task: str, tables: Any, moving: Any) -> None:
    folder = HOME / "results" / task
    curves, limits = pd.read_csv(folder / "curves.csv"), pd.read_csv(folder / "budgets.csv")
    again = tables.budgets(curves, moving.SMALL, moving.LARGE)
    assert again["value"].tolist() == pytest.approx(limits["value"].tolist(), rel=1e-5)
    names = list(moving.controllers(moving.TASKS[task]["short"]))
    made = tables.compared(curves, limits, names)
    assert made["verdict"].fillna("").tolist() == results(task)["verdict"].fillna("").tolist()
    for column in ("score", "gap", "gap_interval"):
        pd.testing.assert_series_equal(made[column], results(task)[column], atol=1e-4)


def test_what_the_page_says_of_the_verdicts() -> None:
    """It cannot be told: nobody wins, mean gaps are below zero, and plateau's is the smallest."""
    every = pd.concat(results(task) for task in TASKS)
    mine = every[every["verdict"].notna()]
    assert "wins" not in set(mine["verdict"]) and len(mine) == 6 * 12
    gaps = mine.groupby("name")["gap"].mean()
    assert (gaps < 0).all() and gaps.idxmax() == "plateau"
    few = mine[(mine["name"] == "warmup") & (mine["budget"] == "few bits")]
    assert ((few["gap"] < 0) | (few["verdict"] == "late")).all()
    text = Path(HOME / "README.md").read_text(encoding="utf-8")
    assert mine["verdict"].value_counts().to_dict() == {"level": 52, "loses": 16, "late": 4}
    assert "**It cannot be told here.**" in text and "and of 52 nothing is known" in text
    widths = 100 * mine.loc[mine["gap_interval"] > 1e-9, "gap_interval"]
    assert f"{widths.median():.1f} points in the median" in text


def test_gaps_to_the_cell_that_controllers_start_from(tables: Any) -> None:
    """Of two seeds the controller has 0.1 and 0.3 more: 0.2, and 12.706 times 0.1."""
    scores = {("cell", 0): 0.5, ("cell", 1): 0.4, ("a", 0): 0.6, ("a", 1): 0.7}
    lines = pd.DataFrame([
        {"name": name, "seed": seed, "up_bits": 10, "seconds": 1.0, "score": score}
        for (name, seed), score in scores.items()
    ])  # fmt: skip
    limits = pd.DataFrame({"budget": ["few bits"], "unit": ["up_bits"], "value": [2e4]})
    made = tables.from_start(lines, limits, ["a"], "cell").splitlines()
    assert made[0] == "| less cell | few bits (20 kbit) |"
    assert made[2] == "| a | +20.0 ± 127.1, cannot be told |"


def test_no_gap_is_left_after_holm_s_correction(tables: Any, moving: Any) -> None:
    """Paired t-tests of all gaps to the best cell, and of all to the cell at the start."""
    chances: dict[str, list[float]] = {"best": [], "start": []}
    for task in TASKS:
        lines, limits = (pd.read_csv(HOME / "results" / task / f"{name}.csv")
                         for name in ("curves", "budgets"))  # fmt: skip
        for _, limit in limits.iterrows():
            scores = tables.within(lines, limit["unit"], limit["value"]).unstack("seed")
            moved = list(moving.controllers(moving.TASKS[task]["short"]))
            best = scores.drop(index=moved).mean(axis=1, skipna=False).idxmax()
            for against, cell in (("best", best), ("start", moving.SMALL)):
                gaps = (scores.loc[moved] - scores.loc[cell]).dropna()
                found = ttest_1samp(gaps[gaps.std(axis=1) > 1e-9], 0, axis=1).pvalue
                chances[against] += [*found]
    assert all(holm(np.array(one)).min() > 0.05 for one in chances.values())


def test_what_the_page_says_of_the_start(moving: Any) -> None:
    made = moving.readme_tables(HOME / "results")
    words = " ".join(made[f"{task}-start"] for task in TASKS)
    assert (words.count("wins"), words.count("loses")) == (1, 8)
    assert words.count("cannot be told") == 59 and words.count("no score yet") == 4


def test_plateau_and_noise_did_not_move_on_lenet5() -> None:
    """Their scores are the cell's, but for the bits of orders and reports."""
    frame = results("mnist_lenet5").set_index(["budget", "name"])["score"]
    for budget in ("more bits", "more time"):
        assert frame[budget, "plateau"] == frame[budget, "noise"] == frame[budget, "n5-p0.01"]


def test_a_curve_has_the_points_that_all_seeds_have() -> None:
    lines = pd.DataFrame({"seed": [0, 0, 1, 1], "iteration": [5, 10, 5, 9], "score": [1.0] * 4})
    kept = experiment("moving-plane", "figures").of_all_seeds(lines)
    assert kept["iteration"].tolist() == [5, 5]
