"""The report of few cells: no matrix of a single cell, no front of a single point."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from fedsim import run
from fedsim.commands.cli import main
from fedsim.results.load import load_results
from fedsim.show import figures
from fedsim.show.plot.paper import drawn
from fedsim.show.report import altered_row, read_results, report, write_tables
from fedsim.show.report.page import comparison_sentence
from tests.support.page import Page
from tests.support.runs import small
from tests.support.sweepmaker import make_cell, make_run, make_sweep, runs_of

KEPT = Path(__file__).parents[2] / "kept" / "0.1.0"
MATRICES = ("matrix-metric.png", "matrix-ratio.png")


@pytest.mark.slow
def test_a_single_cell_makes_no_matrix(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.01,))
    for name in MATRICES:
        (tmp_path / name).write_bytes(b"of an earlier report")
    page = Page(report(tmp_path).read_text(encoding="utf-8"))
    assert not list(tmp_path.glob("*.png"))
    assert "Matrix:" not in page.text
    assert "No matrix is drawn: there is one cell per method." in page.text
    assert "Paler" not in page.text
    make_sweep(tmp_path, (20,), (0.01,), baseline=False)  # the folder grows
    page = Page(report(tmp_path).read_text(encoding="utf-8"))
    assert all((tmp_path / name).exists() for name in MATRICES)
    assert "Matrix: accuracy" in page.text and "No matrix" not in page.text
    assert "Short lines" not in page.text


def test_the_front_needs_two_points(tmp_path: Path) -> None:
    make_run(tmp_path / "one")
    page = Page(report(tmp_path / "one").read_text(encoding="utf-8"))
    assert "Metric against bits" not in page.text and "Learning over bits" in page.text
    make_run(tmp_path / "two" / "cells" / "best", 10, 0.01, metric=0.9)
    make_run(tmp_path / "two" / "cells" / "beaten", 1, 0.1, metric=0.8)
    chart = figures.pareto_chart(load_results(tmp_path / "two").runs)
    assert len(chart.marks) == 2 and "front" not in {marks.name for marks in chart.marks}
    low, high = drawn(chart, style="page").get_ylim()
    assert -0.05 < low < high < 1.05


@pytest.mark.slow
def test_runs_of_which_no_update_was_used_have_a_table_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = {"iterations": 4, "clients": 2, "network": "4g, compute=20ms", "deadline": "10ms"}
    run(small(temporal=2, **late), tmp_path / "cells" / "late")
    assert main(["report", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "0.1000 0 bit" in said and "inf" not in said
    assert "late: replies not used " in said and "its update came when the round was over" in said
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "Learning over iterations" in page and "A round on the simulated clock" in page
    for chart in ("Metric against bits", "Learning over bits", "What the bits are"):
        assert chart not in page
    run(small(method="raw", temporal=1, **late), tmp_path / "cells" / "dense")
    page = Page(report(tmp_path).read_text(encoding="utf-8")).text
    assert "ends at accuracy 0.1000, as dense does. " in page and "Dense reference" in page
    assert "inf" not in (tmp_path / "summary.tex").read_text()


def test_the_answer_of_a_cell_of_which_no_update_was_used() -> None:
    cells = [make_cell(1, 1, 0.9, 320.0), make_cell(10, 0.1, 0.1, up_wire_bits=0.0)]
    runs = runs_of(cells).assign(down_wire_bits=[80.0, 40.0])
    end = "80.00 points below dense, with none of its uplink and 1/10.0 of all bits."
    assert comparison_sentence(runs).endswith(end)


def test_seeds_without_a_common_budget_have_no_curve_over_bits_or_time(tmp_path: Path) -> None:
    for seed, (name, later, factor) in enumerate([("one", 0, 1.0), ("other", 1, 1e6)]):
        make_run(tmp_path / "cells" / name, seed=seed)
        file = tmp_path / "cells" / name / "rounds.parquet"
        rounds = pd.read_parquet(file)
        rounds["round"] += later
        rounds["up_wire_bits"] *= factor
        rounds.assign(sim_end_seconds=factor * rounds["round"]).to_parquet(file)
    page = Page(report(tmp_path).read_text(encoding="utf-8")).text
    assert "Learning over iterations" in page and "A round on the simulated clock" in page
    assert "Learning over bits" not in page and "Learning over simulated time" not in page


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"seed,clients\n0,7\n", "clients is 7, and "),
        (b"seed,clients\n0,4,1,2\n", "row 1"),
        (b"\xff\xfe", "utf-8"),
        (b'"' + b"x" * 2**18, "CSV"),
        (b"", ""),
    ],
)
def test_a_row_of_the_table_that_is_not_its_runs_is_named(
    content: bytes, named: str, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(KEPT / "run", tmp_path / "run"))
    results, _ = read_results([folder])
    assert altered_row(results, folder) == ""
    (folder / "summary.csv").write_bytes(content)
    said = altered_row(results, folder)
    assert named in said and (said.startswith("summary.csv: ") or not named)
    assert altered_row(results, tmp_path) == ""
    left = write_tables(results, folder)
    assert left.startswith(said) and ((folder / "summary.csv").read_bytes() == content) == bool(
        left
    )
