"""What to choose for so many bits: `fedsim.best`, budgets, and what the report says of them.

Most by hand, on frames of a few rows.
"""

from dataclasses import replace
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import fedsim
from fedsim import UsageError
from fedsim.ground import units
from fedsim.results.load import Results, load_results
from fedsim.search.goal import Curve, Goal
from fedsim.show.answer import best_table, ladder, texts
from fedsim.show.blocks import _scores
from fedsim.show.budgets import Budget, budgets, leaders
from fedsim.show.curves import bits_so_far
from fedsim.show.layout import print_whole
from fedsim.show.report import counted, report
from tests.support.page import Page
from tests.support.sweepmaker import TOPK, make_sweep, rounds_of


def of(label: str, bits: list[float], metric: list[float], **more: Any) -> pd.DataFrame:
    """A run's rounds: bits so far and metric after each; what is given says which cell it is."""
    cell = {"temporal": 1, "gradient": 0.1, "seed": 0} | more
    return rounds_of(label, bits, metric, run=f"{label}-{[*cell.values()]}", **more)


ROUNDS = pd.concat(
    [
        of("a", [10, 20, 30], [0.5, 0.4, 0.9]),
        of("a", [5, 25], [0.2, 0.7], gradient=0.01),
        of("b", [8, 40], [0.6, 0.8]),
    ]
)
"""Two cells of `a`, and one of `b`."""


def test_bits_so_far_are_the_cohorts_means_added_up_run_by_run() -> None:
    """80 of 4, 60 of 2, 30 of 3: 20, 50, 60; the next run begins anew."""
    rounds = pd.DataFrame(
        {"run": ["a", "a", "a", "b"], "clients": [4, 2, 3, 1], "up_wire_bits": [80, 60, 30, 7]}
    )
    assert bits_so_far(rounds, "up_wire_bits").tolist() == [20, 50, 60, 7]


def test_a_budget_that_is_used_to_its_last_bit_is_kept() -> None:
    """Seven rounds of 29 / 7 bits of a client are 29, and their sum in floats is more."""
    rounds = of("a", [1.0] * 7, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]).assign(clients=7)
    rounds["up_wire_bits"] = 29
    sums = bits_so_far(rounds, "up_wire_bits")
    assert sums.iloc[-1] > 29
    assert fedsim.best(rounds, up_bits=29)["metric"].tolist() == [0.7]
    results = Results(rounds.iloc[-1:].set_index("run"), rounds, Path())
    assert _scores(results, 29, "up")["metric"].item() == 0.7
    curve = Curve((*sums,), (*rounds["metric"],))
    assert (curve.within(29), curve.within(28.99)) == (6, 5)


def test_the_best_within_a_budget_goes_by_what_travelled() -> None:
    rounds = pd.concat([ROUNDS, of("c", [90], [1.0])]).assign(up_content_bits=1)
    best = fedsim.best(rounds, up_bits=29)
    assert best["label"].tolist() == ["a", "b", "c"]
    assert best["metric"].tolist()[:2] == [0.7, 0.6] and best["metric"].isna().tolist()[2]
    assert best["up_wire_bits"].tolist()[:2] == [25, 8] and best["gradient"][0] == 0.01
    assert fedsim.best(rounds, "30 bit")["metric"].tolist()[:2] == [0.9, 0.6]  # 30 is within 30
    assert fedsim.best(rounds, 90)["label"].tolist() == ["c", "a", "b"]
    low = fedsim.best(rounds.assign(higher_is_better=False), 40)
    assert low["metric"].tolist()[:2] == [0.7, 0.8]


def test_a_budget_of_the_total_counts_both_ways() -> None:
    """`a` is sent 100 bits a round, of the four that were asked; `b` none: by 40 bits `b` alone."""
    down = {"down_wire_bits": 400, "failures": 2, "absent": 0, "late": 0}
    rounds = ROUNDS.assign(**down)
    rounds.loc[rounds["label"] == "b", "down_wire_bits"] = 0
    best = fedsim.best(rounds, 130, budget_of="total")
    assert best["label"].tolist() == ["b", "a"] and best["metric"].tolist() == [0.8, 0.5]
    assert best["total_wire_bits"].tolist() == [40, 110] and "up_wire_bits" not in best
    assert "bits used" in texts(ladder(rounds, "total"), "accuracy")[0]
    ends = {own.method: own.end for own in budgets(rounds, True, budget_of="total")}
    assert ends == {"a": 330, "b": 40}
    with pytest.raises(UsageError, match="budget_of is 'down'"):
        fedsim.best(rounds, 130, budget_of="down")


def test_of_equal_metrics_that_of_fewer_bits_is_the_answer() -> None:
    """Cells of `a` end with 0.8 by 30 and by 25 bits; `b` has 0.8 by 10 and stands before `a`."""
    rounds = pd.concat(
        [
            of("a", [30], [0.8], temporal=1),
            of("a", [20, 25], [0.8, 0.8], temporal=2),
            of("b", [10], [0.8]),
        ]
    )
    best = fedsim.best(rounds, 100)
    assert best["label"].tolist() == ["b", "a"] and best["up_wire_bits"].tolist() == [10, 25]
    assert best["temporal"].tolist() == [1, 2] and best["iteration"].tolist() == [1, 2]


def test_a_cell_s_last_evaluation_counts_and_not_its_best() -> None:
    """A noisy cell was at 0.95 for a round, and ends at 0.6; the other is at 0.8 all the time.

    Which of many noisy cells had the greatest maximum says nothing of where to stop.
    """
    rounds = pd.concat(
        [of("a", [10, 20, 30], [0.6, 0.95, 0.6]), of("a", [10, 20, 30], [0.8] * 3, temporal=2)]
    )
    (row,) = fedsim.best(rounds, 30).to_dict("records")
    assert (row["temporal"], row["metric"], row["up_wire_bits"]) == (2, 0.8, 30)
    (drawn,) = budgets(rounds, True)
    assert drawn.metric.tolist() == [0.8, 0.95, 0.8] and drawn.bits.tolist() == [10, 20, 30]
    assert ladder(rounds)["metric"].tolist() == [0.8, 0.95, 0.8]


def test_the_report_and_the_search_judge_a_run_alike() -> None:
    """The last evaluation within the budget, of curves with a maximum before and behind it."""
    bits, metric = [10, 20, 30, 40], [0.3, 0.9, 0.5, 0.95]
    for budget in (10, 25, 30, 39, 1000):
        (row,) = fedsim.best(of("a", bits, metric), budget).to_dict("records")
        judged = Goal(True, "accuracy", budget=budget).point(Curve(tuple(bits), tuple(metric)))
        assert judged == (row["up_wire_bits"], row["metric"])


def test_seeds_are_shown_and_cells_of_unequal_seeds_marked() -> None:
    """Of `a` seed 2 failed, which left one seed of n = 2; `b` has three; deviations 0.1."""
    rounds = pd.concat(
        [
            of("a", [10], [0.9], temporal=2),
            *(of("b", [10], [0.7 + 0.1 * k], seed=k) for k in range(3)),
        ]
    )
    best = fedsim.best(rounds, 100)
    assert best[["seeds", "most_seeds"]].to_numpy().tolist() == [[1, 3], [3, 3]]
    assert [row[3] for row in texts(best, "accuracy")[1]] == [
        "0.9000 (1 of 3)",
        "0.8000 ± 0.1000 (3)",
    ]


def test_seeds_count_with_their_means_where_all_have_come() -> None:
    """Seed 0 has 0.5 by 10 and 0.9 by 20; seed 1 has 0.7 by 14 and 0.8 by 40.

    Within 13 bits seed 1 has none; within 14 they are at 0.5 and 0.7, within 29 at 0.9 and 0.7, and
    within 40 at 0.9 and 0.8. Deviations sqrt 0.02 and sqrt 0.005.
    """
    rounds = pd.concat([of("a", [10, 20], [0.5, 0.9]), of("a", [14, 40], [0.7, 0.8], seed=1)])
    none, low, some, high = (fedsim.best(rounds, bits).iloc[0] for bits in (13, 14, 29, 40))
    assert np.isnan(none["metric"])
    assert (low["metric"], low["up_wire_bits"], low["seeds"]) == (pytest.approx(0.6), 12, 2)
    assert (some["metric"], some["up_wire_bits"]) == (pytest.approx(0.8), 17)
    assert [low["metric_sd"], some["metric_sd"]] == pytest.approx([0.02**0.5] * 2)
    assert (high["metric"], high["up_wire_bits"]) == (pytest.approx(0.85), 30)
    assert high["metric_sd"] == pytest.approx(0.005**0.5) and high["iteration"] == 2


def test_a_seed_stands_at_its_last_evaluation_where_a_round_was_not_evaluated() -> None:
    rounds = pd.concat([of("a", [10, 20], [0.5, 0.9]), of("a", [10, 20], [0.7, np.nan], seed=1)])
    (row,) = fedsim.best(rounds, 100).to_dict("records")
    assert row["metric"] == pytest.approx(0.8) and row["up_wire_bits"] == 15
    with pytest.raises(UsageError, match="several runs of a, n = 1, p = 0.1, seed 0: choose one"):
        fedsim.best(pd.concat([rounds, of("a", [10, 20], [0.5, 0.9]).assign(run="again")]), 25)


def test_a_ladder_s_steps_by_hand() -> None:
    """Evaluations by 15, 60 and 300 bits: 20, 50, 100, 200 and no limit. Within 20 and 50 the first
    is the last, within 100 and 200 the second, and the third without a limit."""
    steps = ladder(of("a", [15, 60, 300], [0.5, 0.7, 0.6]))
    assert steps["budget"].tolist() == [20, 50, 100, 200, inf]
    assert steps["metric"].tolist() == [0.5, 0.5, 0.7, 0.7, 0.6]
    assert texts(steps, "accuracy")[1][0][:6] == ["20 bit", "a", "1", "0.1", "0.5000", "1"]


def test_a_budget_buys_the_best_so_far_of_any_cell() -> None:
    first, second = budgets(ROUNDS, higher=True)
    assert (first.method, first.bits.tolist()) == ("a", [5, 10, 20, 25, 30])
    assert first.metric.tolist() == [0.2, 0.5, 0.4, 0.7, 0.9]
    (content, _) = budgets(ROUNDS, higher=True, bits="content")
    assert content.bits.tolist() == [7.5, 15, 30, 37.5, 45]
    assert [cell.gradient for cell in first.cells] == [0.01, 0.1, 0.1, 0.01, 0.1]
    assert (first.end, second.end) == (30, 40)
    # From 30 on, where a has ended, b is not best: a had more for fewer bits.
    assert leaders([first, second], higher=True) == [(5, 8, "a"), (8, 25, "b"), (25, 30, "a")]
    low = budgets(ROUNDS, higher=False)
    assert [budget.metric.tolist() for budget in low] == [[0.2, 0.4, 0.7], [0.6, 0.8]]
    assert leaders(low, higher=False) == [(5, 30, "a"), (30, 40, "b")]


def reached(method: str, bits: list[float], metric: list[float], end: float) -> Budget:
    return Budget(method, False, np.array(bits), np.array(metric), (), end)


def test_leaders_by_hand() -> None:
    """`a` leads from 10 bits, `b` from 20 with 0.6, `a` again from 40 with 0.9; it ends at 50."""
    led = leaders([reached("a", [10, 40], [0.5, 0.9], 50), reached("b", [20], [0.6], 60)], True)
    assert led == [(10, 20, "a"), (20, 40, "b"), (40, 50, "a")]


def test_a_leader_leads_no_further_than_it_was_run() -> None:
    """`a` ended at 15; until `b` is better at 30, nobody leads. Of equals the one of fewer bits."""
    led = leaders([reached("a", [10], [0.5], 15), reached("b", [20, 30], [0.5, 0.6], 40)], True)
    assert led == [(10, 15, "a"), (30, 40, "b")]
    low = leaders([reached("a", [10], [5.0], 90), reached("b", [20], [4.0], 60)], False)
    assert low == [(10, 20, "a"), (20, 60, "b")]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Results:
    root = tmp_path_factory.mktemp("answers")
    make_sweep(root / "a", (10, 20), (0.1, 0.01))
    make_sweep(root / "b", (10,), (0.1, 0.01), form=TOPK, failed=[(10, 0.01)])
    return load_results(root / "a", root / "b")


def test_budgets_count_as_the_runs_did_where_all_did_so(both: Results) -> None:
    """Another word is a later version's."""
    for words, ways in ((["total"], "total"), (["total", "each"], "up")):
        configs = {word: {"budget_of": word} for word in words}
        assert counted(replace(both, configs=configs)) == ways
    assert counted(both) == "up" and counted(both, "total") == "total"


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_digit_of_the_terminals_table_is_cut(both: Results, width: int) -> None:
    long = both.rounds["label"].replace("sbc", "ef(per_tensor(topk(0.0004) | float32 | golomb))")
    results = replace(both, rounds=both.rounds.assign(label=long))
    shown = StringIO()
    console = Console(width=width, file=shown)
    print_whole(console, best_table(results, 2e6, console.width))
    told = shown.getvalue()
    for _, row in fedsim.best(results, 2e6).iterrows():
        assert f"{row['metric']:.4f}" in told and units.bits(row["up_wire_bits"]) in told
        assert f" {row['temporal']} " in told and f" {row['gradient']:g} " in told
    assert "method" in told and "0.0004" in told and "dropping" in told


def test_a_page_without_a_finished_run_has_no_answer(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,), failed=[(1, 1), (10, 0.1)])
    assert "Best within" not in Page(report(tmp_path).read_text(encoding="utf-8")).text
