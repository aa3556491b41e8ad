"""Several seeds: mean, sample deviation and number in tables, matrices and curves."""

from pathlib import Path

import numpy as np
import pytest

from fedsim.results.load import load
from fedsim.show.export import table
from fedsim.show.planes import plane
from fedsim.show.plot import matrix
from fedsim.show.report import write
from tests.support import charts
from tests.support.sweepmaker import make_cell as cell
from tests.support.sweepmaker import make_run, make_sweep, runs_of

SCORES = (0.90, 0.92, 0.97)
SAID = "0.9300 ± 0.0361 (3)"  # sqrt((0.03^2 + 0.01^2 + 0.04^2) / 2), and not / 3


def seeds(**more: object) -> list[dict]:
    dense = [cell(1, 1, 0.95, seed=k, loss=0.1) for k in range(3)]
    own = [cell(10, 0.1, m, bits=8.0 + k, seed=k, loss=m, **more) for k, m in enumerate(SCORES)]
    return [*dense, *own]


def test_a_table_has_a_row_a_cell() -> None:
    columns = ["temporal", "metric", "difference", "loss", "up_content_bits"]
    lines = table(runs_of(seeds()), columns=columns).splitlines()
    assert len(lines) == 4
    assert lines[3] == f"| 10 | {SAID} | -2.00 ± 3.61 (3) | 0.93 ± 0.0361 (3) | 9.00 |"
    main = table(runs_of(seeds())).splitlines()
    assert len(main) == 4 and "seed" not in main[0]
    assert r"10 & 0.9300 $\pm$ 0.0361 (3) \\" in table(runs_of(seeds()), "latex", columns[:2])


def test_a_row_a_run_where_seeds_are_asked_for_and_in_csv() -> None:
    runs = runs_of(seeds())
    assert table(runs, columns=["seed", "metric"]).splitlines()[5:] == [
        "| 0 | 0.9000 |", "| 1 | 0.9200 |", "| 2 | 0.9700 |",
    ]  # fmt: skip
    assert len(table(runs, "csv").splitlines()) == 7
    assert "±" not in table(runs[runs["seed"] == 0])


def test_seeds_that_failed_are_no_part_of_the_mean() -> None:
    cells = [*seeds(), cell(10, 0.1, np.nan, seed=3, status="failed")]
    (line,) = [x for x in table(runs_of(cells)).splitlines() if SAID in x]
    assert line.endswith("| 3 done, 1 failed |")
    alone = table(runs_of([*cells[:3], cells[3], cells[-1]])).splitlines()[3]
    assert "| 0.9000 (1) |" in alone


def test_runs_of_one_seed_are_no_seeds() -> None:
    runs = runs_of([cell(10, 0.1, 0.9), cell(10, 0.1, 0.8), cell(10, 0.2, 0.7, seed=1)])
    lines = table(runs, columns=["gradient", "metric"]).splitlines()[2:]
    assert lines == ["| 0.1 | 0.9000 (1) |", "| 0.1 | 0.8000 (1) |", "| 0.2 | 0.7000 (1) |"]


def test_matrices_have_the_deviation() -> None:
    runs = runs_of(seeds())
    grid = plane(runs)
    assert grid.spread[0, 0] == pytest.approx(np.std(SCORES, ddof=1))
    notes = [text.get_text() for text in matrix(runs).axes[0].texts]
    assert notes == ["0.9300", "± 0.0361 (3)\np/n = 0.01"]
    chart = charts.heatmap(runs, "metric")
    assert chart.layout.annotations[0].text == "0.9300<br>± 0.0361 (3)"
    assert f"accuracy {SAID}" in chart.data[0].hovertext[0][0]
    one = runs_of([cell(10, 0.1, 0.9), cell(20, 0.1, 0.8)])
    assert not any("±" in text.get_text() for text in matrix(one).axes[0].texts)


@pytest.mark.slow
def test_the_pages_curves_have_bands_and_its_points_bars(tmp_path: Path) -> None:
    make_sweep(tmp_path / "two", (10,), (0.1,), seeds=(0, 1))
    results = load(tmp_path / "two")
    curves = charts.curves(results.rounds, "iteration", "accuracy")
    lines = [trace for trace in curves.data if trace.fill is None]
    bands = [trace for trace in curves.data if trace.fill == "toself"]
    assert len(lines) == len(bands) == 2
    for line, band in zip(lines, bands, strict=True):
        count = len(line.x)
        high, low = np.array(band.y[:count]), np.array(band.y[count:][::-1])
        np.testing.assert_allclose((high + low) / 2, line.y)
        assert (high > low).any() and band.legendgroup == line.legendgroup
        assert band.hoverinfo == "skip" and band.showlegend is False
    points = charts.pareto(results.runs).data
    assert [p.error_y.array is not None for p in points if p.mode == "markers"] == [True, True]
    make_run(tmp_path / "one")
    one = charts.curves(load(tmp_path / "one").rounds, "iteration", "accuracy")
    assert len(one.data) == 1 and one.data[0].legendgroup is None
    write(tmp_path / "two")
    assert r"$\pm$" in (tmp_path / "two" / "summary.tex").read_text(encoding="utf-8")
