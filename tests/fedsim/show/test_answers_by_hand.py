"""Answers, budgets, fronts, averages and references by hand, on frames of a few rows."""

from math import inf, isnan
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.search.goal import Curve, Goal
from fedsim.show.answer import ladder, texts
from fedsim.show.averages import over_seeds
from fedsim.show.budgets import Budget, budgets, leaders
from fedsim.show.columns import sends_less_per_client, sends_other_shares
from fedsim.show.curves import bits_so_far, curve_lines, front, pareto_points
from fedsim.show.export import table
from fedsim.show.planes import plane
from fedsim.show.style import CellKey
from fedsim.show.tables import add_difference
from tests.support.sweepmaker import make_cell, rounds_of, runs_of


def of(label: str, bits: list[float], metric: list[float], **more: Any) -> pd.DataFrame:
    """A run's rounds: bits so far and metric after each; `temporal` says which cell it is."""
    name = f"{label}-n{more.get('temporal', 1)}-s{more.get('seed', 0)}"
    return rounds_of(label, bits, metric, run=name, **more)


# --- bits so far --------------------------------------------------------------------------------


def test_bits_so_far_are_the_cohorts_means_added_up_run_by_run() -> None:
    """80 of 4, 60 of 2, 30 of 3: 20, 50, 60; the next run begins anew."""
    rounds = pd.DataFrame({
        "run": ["a", "a", "a", "b"], "clients": [4, 2, 3, 1], "up_wire_bits": [80, 60, 30, 7],
    })  # fmt: skip
    assert bits_so_far(rounds, "up_wire_bits").tolist() == [20, 50, 60, 7]


# --- the answer ---------------------------------------------------------------------------------


def test_of_equal_metrics_that_of_fewer_bits_is_the_answer() -> None:
    """Cells of `a` end with 0.8 by 30 and by 25 bits; `b` has 0.8 by 10 and stands before `a`."""
    rounds = pd.concat([
        of("a", [30], [0.8], temporal=1), of("a", [20, 25], [0.8, 0.8], temporal=2),
        of("b", [10], [0.8]),
    ])  # fmt: skip
    found = fedsim.best(rounds, 100)
    assert found["label"].tolist() == ["b", "a"] and found["up_wire_bits"].tolist() == [10, 25]
    assert found["temporal"].tolist() == [1, 2] and found["iteration"].tolist() == [1, 2]


def test_a_cell_s_last_evaluation_counts_and_not_its_best() -> None:
    """A noisy cell was at 0.95 for a round, and ends at 0.6; the other is at 0.8 all the time.

    Which of many noisy cells had the greatest maximum says nothing of where to stop.
    """
    rounds = pd.concat([
        of("a", [10, 20, 30], [0.6, 0.95, 0.6]), of("a", [10, 20, 30], [0.8] * 3, temporal=2),
    ])  # fmt: skip
    (found,) = fedsim.best(rounds, 30).to_dict("records")
    assert (found["temporal"], found["metric"], found["up_wire_bits"]) == (2, 0.8, 30)
    (drawn,) = budgets(rounds, True)
    assert drawn.metric.tolist() == [0.8, 0.95, 0.8] and drawn.bits.tolist() == [10, 20, 30]
    assert ladder(rounds)["metric"].tolist() == [0.8, 0.95, 0.8]


def test_the_report_and_the_search_judge_a_run_alike() -> None:
    """The last evaluation within the budget, of curves with a maximum before and behind it."""
    bits, metric = [10, 20, 30, 40], [0.3, 0.9, 0.5, 0.95]
    for budget in (10, 25, 30, 39, 1000):
        (found,) = fedsim.best(of("a", bits, metric), budget).to_dict("records")
        judged = Goal(True, "accuracy", budget=budget).point(Curve(tuple(bits), tuple(metric)))
        assert judged == (found["up_wire_bits"], found["metric"])


def test_seeds_are_shown_and_cells_of_unequal_seeds_marked() -> None:
    """Of `a` seed 2 failed, which left one seed of n = 2; `b` has three; deviations 0.1."""
    rounds = pd.concat([
        of("a", [10], [0.9], temporal=2),
        *(of("b", [10], [0.7 + 0.1 * k], seed=k) for k in range(3)),
    ])  # fmt: skip
    found = fedsim.best(rounds, 100)
    assert found[["seeds", "most_seeds"]].to_numpy().tolist() == [[1, 3], [3, 3]]
    assert [row[3] for row in texts(found, "accuracy")[1]] == [
        "0.9000 (1 of 3)", "0.8000 ± 0.1000 (3)",
    ]  # fmt: skip


def test_seeds_count_with_their_means_where_all_have_come() -> None:
    """Seed 0 has 0.5 by 10 and 0.9 by 20; seed 1 has 0.7 by 14 and 0.8 by 40.

    Within 13 bits seed 1 has none; within 14 they are at 0.5 and 0.7, within 29 at 0.9 and 0.7, and
    within 40 at 0.9 and 0.8. Deviations sqrt 0.02 and sqrt 0.005.
    """
    rounds = pd.concat([
        of("a", [10, 20], [0.5, 0.9]), of("a", [14, 40], [0.7, 0.8], seed=1),
    ])  # fmt: skip
    none, low, some, high = (fedsim.best(rounds, bits).iloc[0] for bits in (13, 14, 29, 40))
    assert np.isnan(none["metric"])
    assert (low["metric"], low["up_wire_bits"], low["seeds"]) == (pytest.approx(0.6), 12, 2)
    assert (some["metric"], some["up_wire_bits"]) == (pytest.approx(0.8), 17)
    assert [low["metric_sd"], some["metric_sd"]] == pytest.approx([0.02**0.5] * 2)
    assert (high["metric"], high["up_wire_bits"]) == (pytest.approx(0.85), 30)
    assert high["metric_sd"] == pytest.approx(0.005**0.5) and high["iteration"] == 2


def test_a_seed_stands_at_its_last_evaluation_where_a_round_was_not_evaluated() -> None:
    rounds = pd.concat([
        of("a", [10, 20], [0.5, 0.9]), of("a", [10, 20], [0.7, np.nan], seed=1),
    ])  # fmt: skip
    (found,) = fedsim.best(rounds, 100).to_dict("records")
    assert found["metric"] == pytest.approx(0.8) and found["up_wire_bits"] == 15


def test_where_less_is_better_the_least_is_the_answer() -> None:
    rounds = pd.concat([of("a", [10, 20], [9.0, 4.0]), of("b", [10], [5.0])])
    found = fedsim.best(rounds.assign(higher_is_better=False), 100)
    assert found["label"].tolist() == ["a", "b"] and found["metric"].tolist() == [4, 5]


def test_a_ladder_s_steps_by_hand() -> None:
    """Evaluations by 15, 60 and 300 bits: 20, 50, 100, 200 and no limit. Within 20 and 50 the first
    is the last, within 100 and 200 the second, and the third without a limit."""
    found = ladder(of("a", [15, 60, 300], [0.5, 0.7, 0.6]))
    assert found["budget"].tolist() == [20, 50, 100, 200, inf]
    assert found["metric"].tolist() == [0.5, 0.5, 0.7, 0.7, 0.6]
    assert texts(found, "accuracy")[1][0][:6] == ["20 bit", "a", "1", "0.1", "0.5000", "1"]


def test_a_long_ladder_has_powers_of_ten_alone() -> None:
    found = ladder(of("a", [15, 60_000], [0.5, 0.7]))
    assert found["budget"].tolist() == [1e2, 1e3, 1e4, inf]


# --- budgets and fronts -------------------------------------------------------------------------


def test_a_method_s_best_within_any_budget() -> None:
    """Of the two cells the first is ahead or equal by 10, 20 and 40 bits; the last is at 45 bits.

    Where less is better: 0.5 alone; 0.4 of the second by 15; 0.6 by 20; 0.7 by 30; 0.8 by 45.
    """
    rounds = pd.concat([
        of("a", [10, 20, 40], [0.5, 0.7, 0.9]),
        of("a", [15, 20, 30, 45], [0.4, 0.6, 0.7, 0.8], temporal=2),
    ])  # fmt: skip
    (found,) = budgets(rounds, True)
    assert found.bits.tolist() == [10, 20, 40] and found.metric.tolist() == [0.5, 0.7, 0.9]
    assert found.end == 45 and {cell.temporal for cell in found.cells} == {1}
    (low,) = budgets(rounds, False)
    assert low.metric.tolist() == [0.5, 0.4, 0.6, 0.7, 0.8]
    assert low.bits.tolist() == [10, 15, 20, 30, 45]


def reached(method: str, bits: list[float], metric: list[float], end: float) -> Budget:
    return Budget(method, False, np.array(bits), np.array(metric), (), end)


def test_leaders_by_hand() -> None:
    """`a` leads from 10 bits, `b` from 20 with 0.6, `a` again from 40 with 0.9; it ends at 50."""
    found = leaders([
        reached("a", [10, 40], [0.5, 0.9], 50), reached("b", [20], [0.6], 60),
    ], True)  # fmt: skip
    assert found == [(10, 20, "a"), (20, 40, "b"), (40, 50, "a")]


def test_a_leader_that_gets_worse_is_overtaken() -> None:
    """`a` has 0.9 from 20 bits on and 0.5 from 30 on; `b` has 0.7. Back at `a` nobody leads, for it
    had ended."""
    found = leaders([
        reached("a", [20, 30], [0.9, 0.5], 35), reached("b", [10, 40], [0.7, 0.4], 60),
    ], True)  # fmt: skip
    assert found == [(10, 20, "b"), (20, 30, "a"), (30, 40, "b")]


def test_a_leader_leads_no_further_than_it_was_run() -> None:
    """`a` ended at 15; until `b` is better at 30, nobody leads. Of equals the one of fewer bits."""
    found = leaders([
        reached("a", [10], [0.5], 15), reached("b", [20, 30], [0.5, 0.6], 40),
    ], True)  # fmt: skip
    assert found == [(10, 15, "a"), (30, 40, "b")]
    low = leaders([reached("a", [10], [5.0], 90), reached("b", [20], [4.0], 60)], False)
    assert low == [(10, 20, "a"), (20, 60, "b")]


def test_the_front_by_hand() -> None:
    """100 0.5; 100 0.6; 200 0.6; 300 0.7: of equal bits the better, of equal metrics the first."""
    cells = [(1, 0.5, 100.0), (2, 0.6, 100.0), (3, 0.6, 200.0), (4, 0.7, 300.0)]
    points = pareto_points(runs_of([make_cell(n, 0.1, metric, b) for n, metric, b in cells]))
    assert [p.cell.temporal for p in front(points, True)] == [2, 4]
    assert [p.cell.temporal for p in front(points, False)] == [1]


def test_a_curve_has_means_and_extremes_of_its_seeds() -> None:
    """By 10 and 14 bits 0.5 and 0.7; by 20 and 40 bits 0.9 and 0.8."""
    rounds = pd.concat([
        of("a", [10, 20], [0.5, 0.9]), of("a", [14, 40], [0.7, 0.8], seed=1),
    ])  # fmt: skip
    (line,) = curve_lines(rounds, "up_bits", "metric")
    assert line.x.tolist() == [12, 30] and line.y.tolist() == pytest.approx([0.6, 0.85])
    assert line.low.tolist() == [0.5, 0.8] and line.high.tolist() == [0.7, 0.9]
    (content,) = curve_lines(rounds, "up_bits", "metric", "content")
    assert content.x.tolist() == [18, 45]  # half as much again
    assert line.cell == CellKey(1, 0.1)


# --- averages -----------------------------------------------------------------------------------


def test_averages_over_seeds_by_hand() -> None:
    """0.5 and 0.9 of two seeds: mean 0.7, sample deviation sqrt 0.08; bits 10 and 20: 15.

    A third failed; its numbers are no part of it.
    """
    cells = [
        make_cell(10, 0.1, 0.5, 10.0), make_cell(10, 0.1, 0.9, 20.0, seed=1),
        make_cell(10, 0.1, 0.1, 99.0, seed=2, status="failed"), make_cell(20, 0.1, 0.4),
    ]  # fmt: skip
    first, second = over_seeds(runs_of(cells)).to_dict("records")
    assert (first["metric"], first["seeds"]) == (pytest.approx(0.7), 2)
    assert first["metric_sd"] == pytest.approx(0.08**0.5) and first["up_wire_bits"] == 15
    assert first["status"] == "2 done, 1 failed" and first["temporal"] == 10
    assert (second["metric"], second["seeds"]) == (0.4, 1) and isnan(second["metric_sd"])


def test_a_cell_that_failed_with_every_seed_keeps_its_row() -> None:
    cells = [make_cell(10, 0.1, np.nan, seed=k, status="failed") for k in (0, 1)]
    (row,) = over_seeds(runs_of(cells)).to_dict("records")
    assert row["seeds"] == 0 and row["status"] == "failed" and isnan(row["metric"])


def test_a_plane_has_means_deviations_and_numbers() -> None:
    cells = [
        make_cell(10, 0.1, 0.5), make_cell(10, 0.1, 0.9, seed=1), make_cell(20, 0.01, 0.4),
        make_cell(20, 0.1, np.nan, status="failed"),
    ]  # fmt: skip
    grid = plane(runs_of(cells))
    assert (grid.temporals, grid.gradients) == ((10, 20), (0.1, 0.01))
    assert grid.values[0, 0] == pytest.approx(0.7) and grid.values[1, 1] == 0.4
    assert grid.spread[0, 0] == pytest.approx(0.08**0.5) and isnan(grid.spread[1, 1])
    assert grid.done.tolist() == [[2, 0], [0, 1]] and grid.failed.tolist() == [[0, 0], [1, 0]]
    assert [grid.absence(at) for at in ((1, 0), (0, 1))] == ["failed", "no run"]
    assert grid.sparsity(1, 1) == pytest.approx(0.0005)


# --- references and ratios ----------------------------------------------------------------------


def difference(*cells: dict[str, Any]) -> list[float]:
    return add_difference(runs_of(list(cells)))["difference"].tolist()


def test_a_difference_is_from_the_reference_of_the_same_seed() -> None:
    """0.8 against 0.9 of seed 0, 0.85 against 0.8 of seed 1; seed 2 has none."""
    found = difference(
        make_cell(1, 1, 0.9), make_cell(1, 1, 0.8, seed=1), make_cell(10, 0.1, 0.8),
        make_cell(10, 0.1, 0.85, seed=1), make_cell(10, 0.1, 0.7, seed=2),
    )  # fmt: skip
    assert found[:4] == pytest.approx([0, 0, -0.1, 0.05]) and isnan(found[4])


def test_what_is_no_reference() -> None:
    """raw at n = 10, a run that failed, one with a lossy downlink, and another task's."""
    own = make_cell(10, 0.1, 0.8)
    others = (
        make_cell(10, 1, 0.9), make_cell(1, 1, 0.9, status="failed"),
        make_cell(1, 1, 0.9, downlink="per_tensor(cnat)"), make_cell(1, 1, 0.9, task="other"),
    )  # fmt: skip
    for other in others:
        assert isnan(difference(other, own)[1])
    assert difference(make_cell(1, 1, 0.9, downlink="raw"), own)[1] == pytest.approx(-0.1)


def test_references_of_other_settings_stand_in_where_there_is_just_one() -> None:
    """The variant `lr = 1` has its own, 0.9; `lr = 2` has none, and there are two to choose from;
    with one alone it is that one."""
    one, two = make_cell(1, 1, 0.9, variant="lr = 1"), make_cell(1, 1, 0.7, variant="")
    own = [make_cell(10, 0.1, 0.8, variant=v) for v in ("lr = 1", "", "lr = 2")]
    found = difference(one, two, *own)
    assert found[2:4] == pytest.approx([-0.1, 0.1]) and isnan(found[4])
    assert difference(one, own[2])[1] == pytest.approx(-0.1)


def test_ratios_are_told_in_three_digits() -> None:
    """20,000 bits dense over 8,000 and over 6,400 bits: 2.5 and 3.125."""
    cell = make_cell(10, 0.1, 0.8, ratio_wire=2.5, ratio_content=3.125)
    shown = table(runs_of([cell]), columns=["ratio_wire", "ratio_content"]).splitlines()
    assert shown[2] == "| 2.50 | 3.12 |"
    averaged = [cell, cell | {"seed": 1, "ratio_wire": 3.5}]
    assert table(runs_of(averaged), columns=["ratio_wire"]).splitlines()[2] == "| 3.00 |"


def test_which_columns_say_something() -> None:
    """A share that is off by more than a tenth of p; bits of the federation that are not those of
    a client of every round."""
    runs = pd.DataFrame({"gradient": [0.5, 0.5, 0.5, 1.0], "up_share": [0.54, 0.5625, 0.4, np.nan]})
    assert sends_other_shares(runs).tolist() == [False, True, True, False]
    bits = pd.DataFrame({"up_wire_bits": [10.0, 10.0, 10.0],
                         "up_wire_bits_per_client": [10.0, 5.0, np.nan]})  # fmt: skip
    assert sends_less_per_client(bits).tolist() == [False, True, False]
