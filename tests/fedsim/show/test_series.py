"""Learning curves and the front: the numbers that are drawn."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from fedsim.ground.errors import UsageError
from fedsim.results.load import load_results
from fedsim.show import figures
from fedsim.show.curves import curve_lines, front, pareto_points
from fedsim.show.plot import curves, pareto
from fedsim.show.style import CellKey
from tests.support.sweepmaker import make_cell as run
from tests.support.sweepmaker import make_sweep, runs_of


def drawn(axes: Axes) -> list[list[float]]:
    """The x and the y of the first line."""
    line = axes.lines[0]
    return [np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()]


ROUNDS = pd.DataFrame({
    "task": "digits", "method": "m", "temporal": 5, "gradient": 0.1,
    "seed": [0, 0, 0, 1, 1, 1], "run": ["a"] * 3 + ["b"] * 3,
    "round": [1, 2, 3] * 2, "iteration": [5, 10, 15] * 2, "clients": [4, 4, 2, 4, 4, 4],
    "metric": [0.2, np.nan, 0.6, 0.4, np.nan, 0.8], "up_wire_bits": [40, 40, 40, 80, 80, 80],
    "up_content_bits": [4, 4, 4, 8, 8, 8], "label": "m", "dense": False, "ends_dense": False,
})  # fmt: skip


def test_curves_are_means_over_seeds_in_rounds_that_were_evaluated() -> None:
    (line,) = curve_lines(ROUNDS, "iteration", "metric")
    assert line.cell == CellKey(5, 0.1) and line.x.tolist() == [5, 15]
    np.testing.assert_allclose(line.y, [0.3, 0.7])
    assert line.low.tolist() == [0.2, 0.6] and line.high.tolist() == [0.4, 0.8]


def test_a_caption_of_curves_tells_how_the_delay_is_measured() -> None:
    assert " tell n." in figures.curves_chart(ROUNDS).caption
    assert " tell E." in figures.curves_chart(ROUNDS.assign(local_epochs=5)).caption


def test_a_sweeps_curves_end_at_its_summary(tmp_path: Path) -> None:
    make_sweep(tmp_path, (1, 10), (1, 0.1), seeds=(0, 1))
    results = load_results(tmp_path)
    for line in curve_lines(results.rounds, "up_bits", "metric"):
        runs = results.runs[(results.runs["temporal"] == line.cell[0])]
        runs = runs[runs["gradient"] == line.cell[1]]
        assert line.x[-1] == pytest.approx(runs["up_wire_bits"].mean())
        assert line.y[-1] == pytest.approx(runs["metric"].mean())


def test_bad_curves_are_refused() -> None:
    with pytest.raises(UsageError, match="'sim_end_seconds'"):
        curves(ROUNDS, "time")
    with pytest.raises(UsageError, match="bits is 'payload': it must be 'wire' or 'content'"):
        curves(ROUNDS, "up_bits", bits="payload")
    with pytest.raises(UsageError, match="'speed'"):
        curves(ROUNDS, y="speed")
    with pytest.raises(UsageError, match="no rounds"):
        curves(ROUNDS[ROUNDS["metric"].isna()])
    with pytest.raises(UsageError, match="2 tasks"):
        curves(ROUNDS.assign(task=["m", "m", "m", "k", "k", "k"]))
    with pytest.raises(UsageError, match="n = 5, p = 0.1, seed 1"):
        curves(ROUNDS.assign(seed=1))


def test_the_front_holds_what_no_other_beats() -> None:
    cells = [(1, 0.9, 100.0), (2, 0.8, 10.0), (3, 0.7, 50.0), (4, 0.8, 20.0), (5, 0.85, 10.0)]
    runs = runs_of(
        [run(n, 0.1, metric, bits) for n, metric, bits in cells]
        + [run(6, 0.1, 1.0, 1.0, status="failed")]
    )
    points = pareto_points(runs)
    assert [cell[0] for cell in points["cell"]] == [1, 2, 3, 4, 5]
    assert [cell[0] for cell in front(points, higher=True)["cell"]] == [5, 1]
    assert [cell[0] for cell in front(points, higher=False)["cell"]] == [2, 3]
    axes = pareto(runs)
    assert drawn(axes) == [[10, 100], [0.85, 0.9]]
    assert axes.get_xscale() == "log"
    paid = runs.assign(up_content_bits=1.0)
    assert drawn(pareto(paid)) == drawn(axes)
    assert pareto_points(paid, "content")["x"].tolist() == 5 * [1.0]
    with pytest.raises(UsageError, match="no run that is done"):
        pareto(runs[runs["status"] == "failed"])
