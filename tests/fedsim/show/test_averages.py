"""Several seeds: mean, sample deviation and number in tables, matrices and curves."""

from math import isnan

import numpy as np
import pytest

from fedsim.show.export import table
from fedsim.show.heat import cell_texts, heat
from fedsim.show.planes import plane
from fedsim.show.plot import matrix
from fedsim.show.tables import over_seeds
from tests.support.sweepmaker import make_cell as cell
from tests.support.sweepmaker import runs_of

SCORES = (0.90, 0.92, 0.97)
SAID = "0.9300 ± 0.0361 (3)"  # sqrt((0.03^2 + 0.01^2 + 0.04^2) / 2), and not / 3


def seeds(**more: object) -> list[dict]:
    dense = [cell(1, 1, 0.95, seed=k, loss=0.1) for k in range(3)]
    own = [cell(10, 0.1, m, bits=8.0 + k, seed=k, loss=m, **more) for k, m in enumerate(SCORES)]
    return [*dense, *own]


def test_a_row_a_run_where_seeds_are_asked_for_and_in_csv() -> None:
    runs = runs_of(seeds())
    assert table(runs, columns=["seed", "metric"]).splitlines()[5:] == [
        "| 0 | 0.9000 |",
        "| 1 | 0.9200 |",
        "| 2 | 0.9700 |",
    ]
    assert len(table(runs, "csv").splitlines()) == 7
    assert "±" not in table(runs[runs["seed"] == 0])


def test_a_seed_that_is_done_without_a_score_is_not_in_the_mean() -> None:
    """A metric of a user's own may be NaN; the deviation of the others is of two."""
    runs = runs_of([cell(10, 0.1, m, seed=k) for k, m in enumerate((0.9, float("nan"), 0.8))])
    assert table(runs, columns=["metric"]).splitlines()[2] == "| 0.8500 ± 0.0707 (2 of 3) |"


def test_runs_of_one_seed_are_no_seeds() -> None:
    runs = runs_of([cell(10, 0.1, 0.9), cell(10, 0.1, 0.8), cell(10, 0.2, 0.7, seed=1)])
    lines = table(runs, columns=["gradient", "metric"]).splitlines()[2:]
    assert lines == ["| 0.1 | 0.9000 (1) |", "| 0.1 | 0.8000 (1) |", "| 0.2 | 0.7000 (1) |"]


def test_matrices_have_the_deviation() -> None:
    runs = runs_of([*seeds(), cell(10, 0.1, np.nan, seed=3, status="failed")])
    grid = plane(runs)
    assert grid.spread[0, 0] == pytest.approx(np.std(SCORES, ddof=1))
    notes = [text.get_text() for text in matrix(runs).texts]
    assert notes == ["0.9300", "± 0.0361 (3)\np/n = 0.01, 1 failed"]
    assert heat(runs).lines(grid, (0, 0)) == ["0.9300", "± 0.0361 (3)"]
    assert f"accuracy {SAID}" in cell_texts(runs, grid)[0, 0]
    single = runs_of([cell(10, 0.1, 0.9), cell(20, 0.1, 0.8)])
    assert not any("±" in text.get_text() for text in matrix(single).texts)


def test_averages_over_seeds_by_hand() -> None:
    """0.5 and 0.9 of two seeds: mean 0.7, sample deviation sqrt 0.08; bits 10 and 20: 15.

    A third failed; its numbers are no part of it.
    """
    cells = [
        cell(10, 0.1, 0.5, 10.0),
        cell(10, 0.1, 0.9, 20.0, seed=1),
        cell(10, 0.1, 0.1, 99.0, seed=2, status="failed"),
        cell(20, 0.1, 0.4),
    ]
    first, second = over_seeds(runs_of(cells)).to_dict("records")
    assert (first["metric"], first["seeds"]) == (pytest.approx(0.7), 2)
    assert first["metric_sd"] == pytest.approx(0.08**0.5) and first["up_wire_bits"] == 15
    assert first["status"] == "2 done, 1 failed" and first["temporal"] == 10
    assert (second["metric"], second["seeds"]) == (0.4, 1) and isnan(second["metric_sd"])


def test_a_cell_that_failed_with_every_seed_keeps_its_row() -> None:
    cells = [cell(10, 0.1, np.nan, seed=k, status="failed") for k in (0, 1)]
    (row,) = over_seeds(runs_of(cells)).to_dict("records")
    assert row["seeds"] == 0 and row["status"] == "failed" and isnan(row["metric"])


def test_a_plane_has_means_deviations_and_numbers() -> None:
    cells = [
        cell(10, 0.1, 0.5),
        cell(10, 0.1, 0.9, seed=1),
        cell(20, 0.01, 0.4),
        cell(20, 0.1, np.nan, status="failed"),
    ]
    grid = plane(runs_of(cells))
    assert (grid.temporals, grid.gradients) == ((10, 20), (0.1, 0.01))
    assert grid.values[0, 0] == pytest.approx(0.7) and grid.values[1, 1] == 0.4
    assert grid.spread[0, 0] == pytest.approx(0.08**0.5) and isnan(grid.spread[1, 1])
    assert grid.done.tolist() == [[2, 0], [0, 1]] and grid.failed.tolist() == [[0, 0], [1, 0]]
    assert [grid.absence(at) for at in ((1, 0), (0, 1))] == ["failed", "no run"]
    assert grid.sparsity(1, 1) == pytest.approx(0.0005)
