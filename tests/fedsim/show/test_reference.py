"""A method that sends every entry stands beside the dense reference, not in its place."""

from math import isnan
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.results.load import Results
from fedsim.show import figures
from fedsim.show.curves import curve_lines, pareto_points
from fedsim.show.planes import method_text, plane
from fedsim.show.report.messages import message_parts
from fedsim.show.style import CellKey, looks
from fedsim.show.tables import add_difference
from tests.support.sweepmaker import make_cell, make_run, runs_of

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
    assert pareto_points(results.runs)["cell"].tolist() == wanted
    colours = {key: look.colour for key, look in looks(wanted).items()}
    assert colours.pop(CellKey(1, 1, True)) == "#000000" not in colours.values()


def test_every_figure_draws_them(results: Results) -> None:
    fedsim.plot.matrix(results.runs)
    bars = message_parts(results.runs)
    assert bars is not None
    for chart in (figures.curves_chart(results.rounds), figures.pareto_chart(results.runs), bars):
        assert "n = 1, p = 1 (float32)" in {marks.name for marks in chart.marks} | {*chart.y.rows}


def test_raw_cells_with_a_lossy_downlink_stand_beside_the_reference_of_several_methods() -> None:
    lossy = {"downlink": "per_tensor(cnat)"}
    runs = runs_of(
        [
            make_cell(1, 1, 0.9, downlink="raw"),
            make_cell(1, 1, 0.8, **lossy),
            make_cell(1, 0.1, 0.7, **lossy),
            make_cell(1, 0.1, 0.6, method="cnat", **lossy),
        ]
    )
    assert runs["label"].tolist() == ["dense", "raw", "sbc({p})", "cnat"]
    points = {p.cell.method: p.y for p in pareto_points(runs).itertuples()}
    assert points == {"dense": 0.9, "raw": 0.8, "sbc({p})": 0.7, "cnat": 0.6}


def difference(*cells: dict[str, Any]) -> list[float]:
    return add_difference(runs_of(list(cells)))["difference"].tolist()


def test_a_difference_is_from_the_reference_of_the_same_seed() -> None:
    """0.8 against 0.9 of seed 0, 0.85 against 0.8 of seed 1; seed 2 has none."""
    differences = difference(
        make_cell(1, 1, 0.9),
        make_cell(1, 1, 0.8, seed=1),
        make_cell(10, 0.1, 0.8),
        make_cell(10, 0.1, 0.85, seed=1),
        make_cell(10, 0.1, 0.7, seed=2),
    )
    assert differences[:4] == pytest.approx([0, 0, -0.1, 0.05]) and isnan(differences[4])


def test_what_is_no_reference() -> None:
    """raw at n = 10, a run that failed, one with a lossy downlink, and another task's."""
    own = make_cell(10, 0.1, 0.8)
    others = (
        make_cell(10, 1, 0.9),
        make_cell(1, 1, 0.9, status="failed"),
        make_cell(1, 1, 0.9, downlink="per_tensor(cnat)"),
        make_cell(1, 1, 0.9, task="other"),
    )
    for other in others:
        assert isnan(difference(other, own)[1])
    assert difference(make_cell(1, 1, 0.9, downlink="raw"), own)[1] == pytest.approx(-0.1)


def test_references_of_other_settings_stand_in_where_there_is_just_one() -> None:
    """The variant `lr = 1` has its own, 0.9; `lr = 2` has none, and there are two to choose from;
    with one alone it is that one."""
    own, plain = make_cell(1, 1, 0.9, variant="lr = 1"), make_cell(1, 1, 0.7, variant="")
    cells = [make_cell(10, 0.1, 0.8, variant=v) for v in ("lr = 1", "", "lr = 2")]
    differences = difference(own, plain, *cells)
    assert differences[2:4] == pytest.approx([-0.1, 0.1]) and isnan(differences[4])
    assert difference(own, cells[2])[1] == pytest.approx(-0.1)
