"""Controllers against fixed cells: what is compared by hand, the cells, and what the page says."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

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
    assert len(configs) == 20 * (6 + 6)
    assert {c.plan.iterations for c in configs.values()} == {120}
    moved = [c for c in configs.values() if c.controller]
    assert {(c.temporal, c.gradient) for c in moved} == {(5, 0.01)} and len(moved) == 120
    assert all(c.plan.evaluate_every * c.temporal in (10, 25) for c in configs.values())


def lines(*runs: tuple[str, int, list[float], list[float]]) -> pd.DataFrame:
    """Name, seed, bits and scores of each run; a bit takes a second."""
    return pd.concat(
        [
            pd.DataFrame(
                {"name": name, "seed": seed, "up_bits": bits, "seconds": bits, "score": score}
            )
            for name, seed, bits, score in runs
        ]
    )


def test_a_controller_against_the_best_cell_by_hand(tables: Any) -> None:
    """At 15 bits: a has 0.5 and 0.7, b 0.6 and 0.6 with one more, c 0.8 and 1.0."""
    frame = lines(
        ("a", 0, [10, 20], [0.4, 0.6]),
        ("a", 1, [10, 20], [0.6, 0.8]),
        ("b", 0, [5], [0.61]),
        ("b", 1, [5], [0.61]),
        ("c", 0, [15], [0.8]),
        ("c", 1, [10], [1.0]),
    )
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


def after_holm(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """All gaps that there are, with ``told``: 1 above zero, -1 below, 0 neither, after Holm."""
    every = pd.concat(frames, ignore_index=True)
    gaps = every[every["gap"].notna()].copy()
    order = gaps["chance"].dropna().sort_values()
    steps = (order * np.arange(len(order), 0, -1)).cummax()
    gaps["told"] = np.sign(gaps["gap"]) * gaps.index.isin(steps.index[steps < 0.05])
    return gaps


def test_what_the_page_says_of_the_verdicts() -> None:
    """Three gaps are above zero and 45 below; mean gaps are below zero, plateau's the smallest."""
    gaps = after_holm([results(task).assign(task=task) for task in TASKS])
    told = gaps["told"].value_counts()
    text = " ".join((HOME / "README.md").read_text(encoding="utf-8").split())
    assert (told[-1], told[1], told[0], len(gaps)) == (45, 3, 18, 66)
    assert "45 of 66 gaps are below zero, three are above, and 18 cannot be told" in text
    won = gaps[gaps["told"] == 1].set_index(["name", "task", "budget"])
    points = {
        at: f"{100 * row['gap']:.1f} ± {100 * row['gap_interval']:.1f}"
        for at, row in won.iterrows()
    }
    few, little, link = (
        points["delay_first", "mnist_mlp512", "few bits"],
        points["delay_first", "mnist_mlp512", "little time"],
        points["link", "mnist_lenet5", "little time"],
    )
    assert f"at few bits ({few} points) and little time ({little})" in text
    assert f"`link` on LeNet5 at little time ({link})" in text
    means = gaps.groupby("name")["gap"].mean()
    assert (means < 0).all() and means.idxmax() == "plateau"
    widths = 100 * gaps.loc[gaps["gap_interval"] > 1e-9, "gap_interval"]
    assert f"{widths.median():.1f} points in the median" in text


def test_gaps_to_the_cell_that_controllers_start_from(tables: Any) -> None:
    """Of two seeds the controller has 0.1 and 0.3 more: 0.2, and 12.706 times 0.1."""
    scores = {("cell", 0): 0.5, ("cell", 1): 0.4, ("a", 0): 0.6, ("a", 1): 0.7}
    lines = pd.DataFrame(
        [
            {"name": name, "seed": seed, "up_bits": 10, "seconds": 1.0, "score": score}
            for (name, seed), score in scores.items()
        ]
    )
    limits = pd.DataFrame({"budget": ["few bits"], "unit": ["up_bits"], "value": [2e4]})
    gaps = tables.from_start(lines, limits, ["a"], "cell")
    made = tables.gap_table("cell", gaps, limits).splitlines()
    assert gaps["chance"].iloc[0] == pytest.approx(0.295, abs=1e-3)
    assert made[0] == "| less cell | few bits (20 kbit) |"
    assert made[2] == "| a | +20.0 ± 127.1, cannot be told |"


def test_holm_s_correction_is_over_all_tasks(moving: Any) -> None:
    """Of three gaps the least p is times three; one without a p is not counted."""
    frame = pd.DataFrame(
        {
            "name": "a",
            "verdict": ["wins", "level", "loses", None, "late"],
            "chance": [0.01, 0.5, 0.02, None, None],
        }
    )
    found = moving.corrected({"x": frame[:2], "y": frame[2:]})["holm"]
    assert found.dropna().tolist() == pytest.approx([0.03, 0.5, 0.04]) and len(found) == 4


def test_what_the_page_says_of_the_start(tables: Any, moving: Any) -> None:
    names, frames = list(moving.controllers(moving.TASKS["digits"]["short"])), []
    for task in TASKS:
        lines, limits = (
            pd.read_csv(HOME / "results" / task / f"{name}.csv") for name in ("curves", "budgets")
        )
        frames.append(tables.from_start(lines, limits, names, moving.SMALL).assign(task=task))
    gaps = after_holm(frames)
    assert gaps["told"].value_counts().to_dict() == {0: 43, -1: 16, 1: 7}
    assert not gaps.loc[gaps["name"] == "plateau", "told"].any()
    most = gaps.loc[gaps["gap"].idxmax()]
    assert (most["name"], most["task"], most["budget"]) == ("adacomm", "mnist_mlp512", "more bits")
    text = " ".join((HOME / "README.md").read_text(encoding="utf-8").split())
    assert "seven of 66 gaps are above zero and 16 below" in text
    assert f"({100 * most['gap']:.1f} ± {100 * most['gap_interval']:.1f} points at more" in text


def test_noise_did_not_move_on_lenet5() -> None:
    """Its scores are the cell's, except for the bits of orders and reports."""
    frame = results("mnist_lenet5").set_index(["budget", "name"])["score"]
    for budget in ("more bits", "more time"):
        assert frame[budget, "noise"] == frame[budget, "n5-p0.01"]


def test_a_curve_has_the_points_that_all_seeds_have() -> None:
    lines = pd.DataFrame({"seed": [0, 0, 1, 1], "iteration": [5, 10, 5, 9], "score": [1.0] * 4})
    kept = experiment("moving-plane", "figures").of_all_seeds(lines)
    assert kept["iteration"].tolist() == [5, 5]
