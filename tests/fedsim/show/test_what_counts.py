"""What figures, pages and prices count: one task, runs that are done, the seeds that there are."""

from math import inf, nan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.commands.cli import main
from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.show import figures, plot
from fedsim.show.answer import ladder
from fedsim.show.budgets import budgets
from fedsim.show.curves import curve_lines, pareto_points
from fedsim.show.export import paper_table, table
from fedsim.show.heat import heat
from fedsim.show.plot import paper
from fedsim.show.report.page import comparison_sentence
from fedsim.show.tables import add_difference, over_seeds, value_text
from fedsim.show.times import to_target
from tests.support.sweepmaker import TOPK, make_run, rounds_frame, rounds_of, runs_of
from tests.support.sweepmaker import make_cell as cell

TWO = r"of 2 tasks \(t, u\): give the folders, or the rows, of one of them"


def test_a_figure_shows_one_task() -> None:
    """Of two methods no cell has two tasks, and yet accuracy and perplexity share no axis."""
    rounds = pd.concat(
        [rounds_of("a", [10, 20], [0.5, 0.8]), rounds_of("b", [10, 20], [90.0, 30.0], task="u")]
    )
    for draw in (plot.curves, plot.budget):
        with pytest.raises(UsageError, match=TWO):
            draw(rounds)
        draw(rounds[rounds["task"] == "t"])
    other = {"method": "topk(0.1)", "task": "u"}
    runs = runs_of(
        [cell(n, 0.1, m, task="t") for n, m in ((1, 0.9), (2, 0.8))]
        + [cell(n, 0.1, m, **other) for n, m in ((1, 90.0), (2, 80.0))]
    )
    for draw in (plot.pareto, plot.matrix):
        with pytest.raises(UsageError, match=TWO):
            draw(runs)
    plot.matrix(runs, method="topk(0.1)")


def test_a_page_and_a_price_to_a_target_show_one_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", form=TOPK, perplexity=True, task="mnist")
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    out = ["--out", str(tmp_path / "out")]
    for command in (
        ["report", *folders, *out],
        ["price", *folders, "--target", "0.9"],
        ["price", *folders, *out],
    ):
        assert main(command) == 2
        assert "of 2 tasks (digits, mnist): give the folders" in capsys.readouterr().err
    assert not (tmp_path / "out" / "times.csv").exists()


def test_a_price_has_a_row_a_task() -> None:
    rounds = pd.concat(
        [rounds_of("a", [10], [0.5]), rounds_of("a", [10], [90.0], task="u", run="b")]
    ).assign(sim_end_seconds=[2.0, 4.0])
    priced = to_target(rounds, nan)
    assert priced["task"].tolist() == ["t", "u"] and priced["sim_seconds"].tolist() == [2, 4]


def test_seeds_of_unlike_rounds_are_read_between_their_evaluations() -> None:
    """One is evaluated at 10, 20, 30 and 40 bits, one at 15 and 35: the mean goes from 15 to 35."""
    first = rounds_of("m", [10, 20, 30, 40], [0.1, 0.2, 0.3, 0.4])
    other = rounds_of("m", [15, 35], [0.35, 0.75], seed=1, run="other")
    (line,) = curve_lines(pd.concat([first, other]), "up_bits", "metric")
    assert line.x.tolist() == [15, 20, 30, 35]
    np.testing.assert_allclose(line.low, [0.15, 0.2, 0.3, 0.35])
    np.testing.assert_allclose(line.y, [0.25, 0.325, 0.475, 0.55])
    np.testing.assert_allclose(line.high, [0.35, 0.45, 0.65, 0.75])
    late = other.assign(up_wire_bits=[200, 200])
    with pytest.raises(UsageError, match="no up_bits at which all seeds of a cell have a metric"):
        curve_lines(pd.concat([first, late]), "up_bits", "metric")


def test_a_seed_that_has_sent_nothing_counts_everywhere_as_in_best() -> None:
    """By 20 bits the seeds have 0.1 and 0.7; no axis of bits has a place for the 0 of the one."""
    rounds = pd.concat(
        [rounds_of("m", [0, 0], [0.1, 0.1]), rounds_of("m", [10, 20], [0.5, 0.7], seed=1, run="b")]
    )
    assert fedsim.best(rounds, 20)["metric"].tolist() == pytest.approx([0.4])
    (own,) = budgets(rounds, True)
    assert own.metric.tolist() == pytest.approx([0.3, 0.4]) and own.bits.tolist() == [10, 20]
    (line,) = curve_lines(rounds, "up_bits", "metric")
    assert line.x.tolist() == [5, 10] and line.y.tolist() == pytest.approx([0.3, 0.4])
    runs = runs_of([cell(1, 0.1, 0.1, up_wire_bits=0.0), cell(1, 0.1, 0.7, 20.0, seed=1)])
    (point,) = pareto_points(runs).itertuples()
    assert (point.x, point.y) == (10, pytest.approx(0.4))


def test_a_ladder_begins_where_something_was_sent() -> None:
    steps = ladder(rounds_of("m", [0, 15, 60], [0.1, 0.5, 0.7]))
    assert steps["budget"].tolist() == [20, 50, inf]
    assert ladder(rounds_of("m", [0], [0.1]))["metric"].tolist() == [0.1]
    with pytest.raises(UsageError, match="no run that is done and has sent bits"):
        budgets(rounds_of("m", [0], [0.1]), True)


def half_referred() -> pd.DataFrame:
    """Three seeds at 0.9, 0.8 and 0.7; two of their references, the first at 0.95, failed."""
    cells = [cell(10, 0.1, m, seed=k) for k, m in enumerate((0.9, 0.8, 0.7))]
    failed = [cell(1, 1, nan, seed=k, status="failed") for k in (1, 2)]
    runs = runs_of([*cells, cell(1, 1, 0.95), *failed])
    return runs.assign(down_wire_bits=8.0)


def test_a_difference_counts_the_seeds_that_have_a_reference() -> None:
    runs = half_referred()
    averaged = over_seeds(add_difference(runs)).set_index("temporal")
    assert averaged.loc[10, "difference"] == pytest.approx(-0.05)
    assert averaged.loc[10, ["seeds", "difference_seeds"]].tolist() == [3, 1]
    assert table(runs, columns=["temporal", "difference"]).splitlines()[2] == "| 10 | -5.00 (1) |"
    assert (
        "5.00 points below dense (mean of 3 seeds, 1 of them with a reference)"
        in comparison_sentence(runs)
    )
    ((_, row),) = [own for own in averaged.iterrows() if own[0] == 10]
    assert value_text("difference", {**row, "temporal": 10}) == "-5.00 (1)"


def fewer() -> pd.DataFrame:
    """Of the best compressed cell one of three seeds is left."""
    cells = [cell(1, 1, 0.95, 320.0, seed=k) for k in range(3)]
    cells += [cell(10, 0.1, 0.94, 8.0, seed=k) for k in range(3)]
    cells += [cell(5, 0.1, nan, seed=k, status="failed") for k in (1, 2)]
    cells += [cell(5, 0.1, 0.97, 16.0)]
    return runs_of(cells).assign(down_wire_bits=8.0, clients=4, iterations=100)


def test_a_cell_of_fewer_seeds_says_so_where_it_is_the_best() -> None:
    runs = fewer()
    assert ", 2.00 points above dense (1 of 3 seeds), with" in comparison_sentence(runs)
    text = paper_table(runs, ["temporal", "metric"])
    assert r"5 & \textbf{0.9700 (1 of 3)} \\" in text and r"(3) \\" in text
    chart = figures.pareto_chart(runs)
    hollow = [marks.hollow for marks in chart.marks if marks.kind == "points" and len(marks.x)]
    assert hollow == [False, True, False] and chart.marks[-1].name == "hollow: fewer seeds"
    whole = figures.pareto_chart(runs[runs["temporal"] != 5])
    assert not any(marks.hollow for marks in whole.marks)
    assert "hollow: fewer seeds" in paper.drawn(chart).get_legend_handles_labels()[1]


def test_runs_that_were_stopped_are_in_no_table_for_a_paper() -> None:
    runs = runs_of(
        [
            cell(1, 1, 0.95),
            cell(10, 0.1, 0.9),
            cell(20, 0.1, 0.8),
            cell(10, 0.01, 0.93, status="stopped"),
        ]
    ).assign(down_wire_bits=8.0, clients=4, iterations=100)
    text = paper_table(runs, ["gradient", "metric"])
    assert "0.9300" not in text and r"\textbf{0.9000}" in text
    assert r"\label{tab:digits-" in text  # no blank
    assert "0.9" not in paper_table(runs.assign(status="stopped"), ["metric"])


def test_a_failed_run_has_no_place_within_a_budget(tmp_path: Path) -> None:
    """The rounds that it did are in `results.rounds`, which `plot.budget` and `best` are given."""
    make_run(tmp_path / "cells" / "a", 10, 0.1)
    make_run(tmp_path / "cells" / "b", 5, 0.1, failed=True)
    done = rounds_frame(5, 0.1, 0, False)
    done.assign(metric=done["metric"] + 0.3).to_parquet(tmp_path / "cells" / "b" / "rounds.parquet")
    results = fedsim.load(tmp_path)
    assert {*results.rounds["status"]} == {"done", "failed"}
    (own,) = budgets(results.rounds, True)
    assert {key.temporal for key in own.cells} == {10}
    (best,) = fedsim.best(results.rounds, "1Mbit").to_dict("records")
    assert best["temporal"] == 10
    with pytest.raises(UsageError, match="no run that is done"):
        fedsim.best(results.rounds[results.rounds["status"] == "failed"], "1Mbit")


def test_scores_above_four_nines_have_colours() -> None:
    """By the logarithm of their error they would all be alike."""
    cells = [cell(1, 0.1, 0.99991), cell(1, 0.01, 0.99996), cell(2, 0.1, 1.0)]
    shown = heat(runs_of(cells), "metric")
    (grid,) = shown.panels.values()
    places = shown.shades.place(grid.values)
    assert places[0, 0] == 0 and places[1, 0] == 1 and 0 < places[0, 1] < 1
    assert len(shown.shades.ticks("accuracy")) >= 2
    far = heat(runs_of([*cells, cell(2, 0.01, 0.5)]), "metric").shades
    assert np.isfinite(far.place(np.array([0.5, 0.99996, 1.0]))).all()


@pytest.mark.parametrize(
    "column", ["loss", "seconds", "sim_seconds", "up_wire_bits_per_client", "failures"]
)
def test_the_brightest_cell_has_the_least_where_less_is_better(column: str) -> None:
    values = {(1, 0.1): 1e5, (1, 0.01): 1e4, (2, 0.1): 1e3, (2, 0.01): 1e2}
    cells = [cell(n, p, 0.9, **{column: value}) for (n, p), value in values.items()]
    shown = heat(runs_of(cells), column)
    assert shown.shades.turned
    (grid,) = shown.panels.values()
    if column == "up_wire_bits_per_client":
        assert shown.shades.scale == "ratios" and shown.lines(grid, (0, 0)) == ["100 kbit"]
        assert shown.shades.ticks(column)[0][1] == "100 bit"


def test_numbers_without_end_are_written() -> None:
    assert units.averaged(inf, nan, "perplexity") == "inf"
    assert units.averaged(3.3e199, inf, "perplexity") == "3.3e+199 ± inf"
    assert units.averaged(3.3e199, 1e180, "perplexity") == "3.3e+199 ± 1e+180"
    assert units.averaged_difference(-3.3e199, inf, "perplexity") == "-3.3e+199 ± inf"
    assert units.decimal_places(inf, "perplexity") == 0
