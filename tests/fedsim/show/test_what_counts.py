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
from fedsim.show.averages import over_seeds
from fedsim.show.budgets import budgets
from fedsim.show.curves import curve_lines, pareto_points
from fedsim.show.export import paper_table, table
from fedsim.show.heat import heat
from fedsim.show.plot import paper
from fedsim.show.report.charts import lines
from fedsim.show.report.page import answer
from fedsim.show.tables import add_difference
from fedsim.show.times import to_target
from tests.support.sweepmaker import TOPK, make_run, rounds_frame, rounds_of, runs_of
from tests.support.sweepmaker import make_cell as cell

TWO = r"of 2 tasks \(t, u\): give the folders, or the rows, of one of them"


def test_a_figure_shows_one_task() -> None:
    """Of two methods no cell has two tasks, and yet accuracy and perplexity share no axis."""
    rounds = pd.concat([
        rounds_of("a", [10, 20], [0.5, 0.8]), rounds_of("b", [10, 20], [90.0, 30.0], task="u"),
    ])  # fmt: skip
    for draw in (plot.curves, plot.budget):
        with pytest.raises(UsageError, match=TWO):
            draw(rounds)
        draw(rounds[rounds["task"] == "t"])
    other = {"method": "topk(0.1)", "task": "u"}
    runs = runs_of([cell(n, 0.1, m, task="t") for n, m in ((1, 0.9), (2, 0.8))]
                   + [cell(n, 0.1, m, **other) for n, m in ((1, 90.0), (2, 80.0))])  # fmt: skip
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
    for command in (["report", *folders, *out], ["price", *folders, "--target", "0.9"],
                    ["price", *folders, *out]):  # fmt: skip
        assert main(command) == 2
        assert "of 2 tasks (digits, mnist): give the folders" in capsys.readouterr().err
    assert not (tmp_path / "out" / "times.csv").exists()


def test_a_price_has_a_row_a_task() -> None:
    rounds = pd.concat([
        rounds_of("a", [10], [0.5]), rounds_of("a", [10], [90.0], task="u", run="b"),
    ]).assign(sim_end_seconds=[2.0, 4.0])  # fmt: skip
    priced = to_target(rounds, nan)
    assert priced["task"].tolist() == ["t", "u"] and priced["sim_seconds"].tolist() == [2, 4]
