"""A chart is described once: its drawing has its points, its legend, its axes and its bar."""

from dataclasses import replace

import numpy as np
import pytest

from fedsim.results.load import Results, load_results
from fedsim.show import figures
from fedsim.show.chart import Axis, Chart, Marks
from fedsim.show.plot import paper
from fedsim.show.style import Look
from tests.support.sweepmaker import TOPK, make_sweep


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Results:
    root = tmp_path_factory.mktemp("both")
    make_sweep(root / "a", (1, 10), (0.1, 0.01), seeds=(0, 1))
    make_sweep(root / "b", (1, 10), (0.1, 0.01), form=TOPK, seeds=(0, 1))
    return load_results(root / "a", root / "b")


@pytest.mark.parametrize("name", ["curves", "budget", "pareto"])
def test_a_drawing_has_the_points_and_names_of_its_chart(both: Results, name: str) -> None:
    chart = {
        "curves": lambda: figures.curves_chart(both.rounds, "up_bits"),
        "budget": lambda: figures.budget_chart(both.rounds),
        "pareto": lambda: figures.pareto_chart(both.runs),
    }[name]()
    axes = paper.drawn(chart)
    there = [marks for marks in chart.marks if len(marks.x)]
    drawn = [line for line in axes.lines if len(line.get_xdata())]
    printed = [line for line in drawn if np.isfinite(line.get_xdata()).all()]
    assert len(printed) == len(there) >= 3
    for marks, line in zip(there, printed, strict=True):
        assert list(line.get_xdata()) == list(marks.x)
        assert list(line.get_ydata()) == list(marks.y)
        assert line.get_color() == marks.look.colour
    entries = {marks.name for marks in chart.marks if marks.name}
    assert {*axes.get_legend_handles_labels()[1]} == entries >= {"dense", "sbc"}
    assert chart.x.title == axes.figure.axes[-1].get_xlabel()
    assert chart.y.title == axes.get_ylabel() == "accuracy"


def test_a_target_crosses_a_drawing() -> None:
    marks = [Marks(x=[1e3, 1e5], y=[0.2, 0.9], look=Look("#0072b2", 0, 0), name="a", texts="ab")]
    axis = Axis("accuracy", metric="accuracy")
    chart = Chart(title="", x=Axis("sent (bit)", "bits"), y=axis, marks=marks, at_y=0.8)
    (level,) = paper.drawn(chart).lines[1:]
    assert list(level.get_ydata()) == [0.8, 0.8]


def test_hollow_marks_are_hollow() -> None:
    look = Look("#0072b2", 0, 1)
    marks = Marks(x=[1.0, 2.0], y=[1.0, 2.0], kind="points", look=look, name="a", texts="ab")
    for hollow, face in ((False, look.colour), (True, "none")):
        chart = Chart(title="", x=Axis("x"), y=Axis("y"), marks=[replace(marks, hollow=hollow)])
        axes = paper.drawn(chart)
        assert axes.lines[0].get_markerfacecolor() == face
        assert axes.get_legend_handles_labels()[1] == ["a"]


def test_ticks_have_units_and_a_fraction_ends_at_one() -> None:
    seconds, rates = Axis("", "seconds"), Axis("", "rates")
    times = [seconds.tick(x) for x in (0.01, 60, 600, 3600, 172_800)]
    assert times == ["10 ms", "1 min", "10 min", "1 h", "2 days"]
    for low in np.geomspace(0.001, 1e8, 99):  # the shortest axis has a number
        assert any(low <= tick <= 4 * low for tick in seconds.ticks(low, 4 * low)), low
    assert [seconds.tick(x) for x in seconds.ticks(1, 9)[9:12]] == ["1 s", "2 s", "5 s"]
    assert [rates.tick(x) for x in rates.ticks(1e4, 1e6)] == ["1 kbit/s", "100 kbit/s", "10 Mbit/s"]
    assert Axis("", "bits").ticks(100, 200)[6:9] == [100, 200, 500]
    assert Axis("", metric="accuracy").limits == (-0.02, 1.02) and not Axis("", metric="x").limits
