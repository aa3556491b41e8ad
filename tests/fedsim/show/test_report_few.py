"""The report of few cells: no matrix of a single cell, no front of a single point."""

from pathlib import Path

import pytest

from fedsim.results.load import load
from fedsim.show.report import write
from tests.support import charts
from tests.support.page import Page
from tests.support.sweepmaker import make_run, make_sweep

MATRICES = ("matrix-metric.png", "matrix-ratio.png")


@pytest.mark.slow
def test_a_single_cell_makes_no_matrix(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.01,))
    for name in MATRICES:
        (tmp_path / name).write_bytes(b"of an earlier report")
    page = Page(write(tmp_path).read_text(encoding="utf-8"))
    assert not list(tmp_path.glob("*.png"))
    assert "Matrix:" not in page.text
    assert "No matrix is drawn: there is one cell per method." in page.text
    assert "Paler" not in page.text
    make_sweep(tmp_path, (20,), (0.01,), baseline=False)  # the folder grows
    page = Page(write(tmp_path).read_text(encoding="utf-8"))
    assert all((tmp_path / name).exists() for name in MATRICES)
    assert "Matrix: accuracy" in page.text and "No matrix" not in page.text
    assert "Short lines" not in page.text


def test_the_front_needs_two_points(tmp_path: Path) -> None:
    make_run(tmp_path / "one")
    page = Page(write(tmp_path / "one").read_text(encoding="utf-8"))
    assert "Metric against bits" not in page.text and "Learning over bits" in page.text
    make_run(tmp_path / "two" / "cells" / "best", 10, 0.01, metric=0.9)
    make_run(tmp_path / "two" / "cells" / "beaten", 1, 0.1, metric=0.8)
    figure = charts.pareto(load(tmp_path / "two").runs)
    assert len(figure.data) == 2 and "front" not in {trace.name for trace in figure.data}
    axis = figure.layout.yaxis
    assert axis.autorangeoptions.clipmax < 1.05 and axis.autorangeoptions.clipmin > -0.05


def test_bits_have_ticks_however_near_each_other_they_are(tmp_path: Path) -> None:
    make_run(tmp_path / "a" / "cells" / "one", 10, 0.01)
    make_run(tmp_path / "a" / "cells" / "two", 10, 0.0101)
    axis = charts.pareto(load(tmp_path / "a").runs).layout.xaxis
    low, high = (10**end for end in axis.range)
    shown = [text for at, text in zip(axis.tickvals, axis.ticktext, strict=True) if low < at < high]
    assert shown and all(text.endswith(" kbit") for text in shown)
    make_sweep(tmp_path / "b")
    axis = charts.pareto(load(tmp_path / "b").runs).layout.xaxis
    assert axis.range is None and "20 kbit" not in axis.ticktext
    assert {"10 kbit", "1 Mbit", "100 Mbit"} <= {*axis.ticktext}
