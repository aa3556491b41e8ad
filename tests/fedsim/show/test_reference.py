"""A method that sends every entry stands beside the dense reference, not in its place."""

from pathlib import Path

import pytest

import fedsim
from fedsim import SweepConfig, load
from fedsim.results.load import Results
from fedsim.runs.sweep import run_cells
from fedsim.show.curves import curve_lines, pareto_points
from fedsim.show.planes import method_text, plane
from fedsim.show.style import CellKey, looks
from fedsim.show.tables import add_difference
from tests.support.charts import curves, pareto, split
from tests.support.sweepmaker import make_cell, make_run, make_sweep, runs_of

METHOD = "per_tensor(cnat)"


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """``fedsim sweep --method cnat --temporal 1,10``, with its dense reference."""
    make_run(tmp_path / "cells" / "dense", 1, 1, method="raw", metric=0.9)
    make_run(tmp_path / "cells" / "one", 1, 1, method=METHOD, metric=0.8)
    make_run(tmp_path / "cells" / "ten", 10, 1, method=METHOD, metric=0.7)
    return fedsim.load(tmp_path)


def test_the_plane_has_the_method_and_names_the_reference(results: Results) -> None:
    grid = plane(results.runs)
    assert grid.values.tolist() == [[0.8], [0.7]]
    assert grid.dense == 0.9
    assert method_text(results.runs) == METHOD


def test_differences_are_from_the_reference(results: Results) -> None:
    differences = add_difference(results.runs)["difference"].round(6)
    assert differences.to_dict() == {"dense": 0.0, "one": -0.1, "ten": -0.2}


def test_curves_and_points_keep_them_apart(results: Results) -> None:
    wanted = [CellKey(1, 1, True), CellKey(1, 1), CellKey(10, 1)]
    assert [line.cell for line in curve_lines(results.rounds, "iteration", "metric")] == wanted
    assert [point.cell for point in pareto_points(results.runs)] == wanted
    colours = {key: look.colour for key, look in looks(wanted).items()}
    assert colours.pop(CellKey(1, 1, True)) == "#000000" not in colours.values()


def test_every_figure_draws_them(results: Results) -> None:
    fedsim.plot.matrix(results.runs)
    lines = curves(results.rounds, "iteration", "accuracy")
    for figure in (lines, pareto(results.runs), split(results.runs)):
        names = {trace.name for trace in figure.data} | {y for t in figure.data for y in t.y}
        assert {"n = 1, p = 1 (float32)"} & names


def test_a_run_of_raw_with_a_lossy_downlink_is_no_reference(tmp_path: Path) -> None:
    """So older sweeps made theirs: their settings say it."""
    make_sweep(tmp_path, (10,), (0.1,), downlink="per_tensor(sign)")
    assert add_difference(load(tmp_path).runs)["difference"].isna().all()
    make_sweep(tmp_path / "raw", (10,), (0.1,), downlink="raw")
    assert add_difference(load(tmp_path / "raw").runs)["difference"].notna().all()


@pytest.mark.slow
def test_a_sweep_with_a_lossy_downlink_is_compared_with_raw_both_ways(tmp_path: Path) -> None:
    config = SweepConfig.of(method="gradient_dropping", temporal=[1, 5], gradient=[1, 0.1],
                            downlink="sbc(0.1)", iterations=10)  # fmt: skip
    run_cells(config.cells(), tmp_path)
    runs = load(tmp_path).runs
    assert "variant" not in runs.columns
    found = add_difference(runs)
    dense = runs.loc["dense-s0", "metric"]
    assert found["difference"].tolist() == (runs["metric"] - dense).tolist()
    assert runs.loc["n1-p1-s0", "downlink"] != runs.loc["dense-s0", "downlink"] == "raw"
    places = [line.cell for line in curve_lines(load(tmp_path).rounds, "iteration", "metric")]
    assert len(places) == 5


def test_raw_cells_with_a_lossy_downlink_stand_beside_the_reference_of_several_methods() -> None:
    lossy = {"downlink": "per_tensor(cnat)"}
    runs = runs_of([
        make_cell(1, 1, 0.9, downlink="raw"), make_cell(1, 1, 0.8, **lossy),
        make_cell(1, 0.1, 0.7, **lossy), make_cell(1, 0.1, 0.6, method="cnat", **lossy),
    ])  # fmt: skip
    assert runs["label"].tolist() == ["dense", "raw", "sbc({p})", "cnat"]
    points = {point.cell.method: float(point.y[0]) for point in pareto_points(runs)}
    assert points == {"dense": 0.9, "raw": 0.8, "sbc({p})": 0.7, "cnat": 0.6}
