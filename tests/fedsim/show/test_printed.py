"""Figures that are printed: on given axes, in a column of a paper, with names beside lines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from fedsim import Clients, RunConfig, plot
from fedsim.federation import ClientData
from fedsim.ground.errors import UsageError
from fedsim.results.load import Results, load_results
from fedsim.show.chart import Axis, Chart, Marks
from fedsim.show.heat import Shades, heat
from fedsim.show.plot.paper import drawn
from fedsim.show.times import Bandwidths
from tests.support.sweepmaker import TOPK, make_sweep, runs_of
from tests.support.sweepmaker import make_cell as cell


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Results:
    root = tmp_path_factory.mktemp("one")
    make_sweep(root, (1, 10), (0.1, 0.01, 0.001), seeds=(0, 1))
    return load_results(root)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Results:
    root = tmp_path_factory.mktemp("both")
    make_sweep(root / "a", (1, 10), (0.1, 0.01))
    make_sweep(root / "b", (1, 10), (0.1, 0.01), form=TOPK)
    return load_results(root / "a", root / "b")


def bandwidths(results: Results, **more: Any) -> Axes:
    cells = results.runs[["label", "temporal", "gradient"]].drop_duplicates()
    seconds = np.geomspace(1, 9, 4 * len(cells)).reshape(-1, 4)
    times = Bandwidths(np.geomspace(1e4, 1e7, 4), seconds, cells)
    return plot.over_bandwidths(times, results.rounds, 0.9, **more)


DRAW: dict[str, Callable[..., Axes]] = {
    "curves": lambda results, **more: plot.curves(results.rounds, "up_bits", **more),
    "budget": lambda results, **more: plot.budget(results.rounds, **more),
    "pareto": lambda results, **more: plot.pareto(results.runs, **more),
    "matrix": lambda results, **more: plot.matrix(results.runs, **more),
    "over_bandwidths": bandwidths,
}


@pytest.mark.parametrize("name", DRAW)
def test_a_figure_is_drawn_on_the_axes_that_are_given(one: Results, name: str) -> None:
    figure = Figure(figsize=(6, 3))
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    assert DRAW[name](one, ax=right) is right and not left.has_data() and right.has_data()
    assert figure.get_suptitle() == "" and not figure.legends
    assert right.get_xlabel() and right.get_ylabel()


def fonts_that_fit(axes: Axes) -> set[float]:
    """The sizes of the letters of axes and ticks, which are in the figure and clear of others."""
    figure = axes.figure
    figure.canvas.draw()
    names = [*figure.axes[0].get_xticklabels(), *figure.axes[0].get_yticklabels()]
    texts = [*names, axes.xaxis.label, axes.yaxis.label]
    for text in [text for text in texts if text.get_text()]:
        box = text.get_window_extent()
        # Two pixels: the layout may give an axis other ticks than it was made for.
        assert box.x0 >= -2 and box.x1 <= figure.bbox.x1 + 2, text
    shown = sorted(
        (t.get_window_extent() for t in figure.axes[0].get_xticklabels()), key=lambda box: box.x0
    )
    assert all(a.x1 <= b.x0 for a, b in zip(shown, shown[1:], strict=False))
    return {text.get_fontsize() for text in texts}


@pytest.mark.parametrize("name", DRAW)
def test_a_papers_figure_fits_a_column(one: Results, both: Results, name: str) -> None:
    for results in (one, both):
        axes = DRAW[name](results, style="paper")
        assert axes.figure.get_figwidth() == 3.4 and axes.figure.get_suptitle() == ""
        assert fonts_that_fit(axes) == {8}
        assert all(len(legend.get_texts()) <= 8 for legend in axes.figure.legends)
    with pytest.raises(UsageError, match="style is 'poster': it must be one of screen, paper"):
        DRAW[name](one, style="poster")


def test_ratios_below_one_are_ratios_too() -> None:
    assert Shades.of(np.array([0.5, 50.0]), "ratio_both", turned=False).scale == "ratios"


SCORES = (0.93, 0.94, 0.95, 0.96, 0.97)


def test_one_outlier_does_not_take_the_scale() -> None:
    cells = [cell(n, 0.1, score) for n, score in enumerate((*SCORES, 0.0001), start=1)]
    shown = heat(runs_of(cells).assign(metric_name="score"))
    assert (shown.shades.low, shown.shades.high) == (0.93, 0.97)
    assert shown.shades.beyond == (True, False) and "far from all others" in shown.legend_text
    places = shown.shades.place(np.array([0.0001, 0.93, 0.95, 0.97]))
    assert places.tolist() == pytest.approx([0, 0, 0.5, 1])
    assert shown.shades.ticks("score")[0][1] == "≤ 0.93"
    even = heat(runs_of(cells[:5]).assign(metric_name="score"))
    assert even.shades.beyond == (False, False) and even.legend_text == ""


def test_an_accuracy_is_coloured_by_the_logarithm_of_its_error() -> None:
    """Errors 0.1, 0.01 and 0.001 are equal steps."""
    cells = [cell(1, p, score) for p, score in ((0.3, 0.9), (0.2, 0.99), (0.1, 0.999))]
    shown = heat(runs_of(cells))
    assert shown.shades.place(np.array([0.9, 0.99, 0.999])).tolist() == pytest.approx([0, 0.5, 1])
    ticks = {text: place for place, text in shown.shades.ticks("accuracy")}
    assert ticks["0.99"] == pytest.approx(0.5) and {"0.9", "0.999"} < {*ticks}
    assert "logarithm of the error" in shown.legend_text
    perfect = heat(runs_of([cell(1, p, score) for p, score in ((0.3, 0.9), (0.2, 1.0))]))
    assert np.isfinite(perfect.shades.place(np.array([0.9, 1.0]))).all()


def test_one_pair_of_axes_has_one_method(both: Results) -> None:
    axes = Figure().add_subplot()
    with pytest.raises(UsageError, match="ax is given for 2 methods: name one of"):
        plot.matrix(both.runs, ax=axes)
    assert plot.matrix(both.runs, method="sbc", ax=axes) is axes


def test_a_partition_is_drawn_cell_by_cell() -> None:
    held = pd.DataFrame([[5, 0], [2, 9], [0, 1]], columns=[3, 7])
    axes = plot.partition(held, style="paper")
    (image,) = axes.images
    assert image.get_array().filled(0).tolist() == [[5, 2, 0], [0, 9, 1]]
    assert {text.get_text() for text in axes.texts} == {"5", "2", "9", "1"}
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["3", "7"]
    assert axes.figure.get_figwidth() == 3.4 and not axes.figure.get_suptitle()
    held.attrs["title"] = "digits: iid"
    assert plot.partition(held).figure.get_suptitle() == "digits: iid"
    own = Figure().add_subplot()
    assert plot.partition(held, ax=own) is own
    many = plot.partition(pd.DataFrame(np.ones((300, 4))))
    assert not many.texts and len(many.get_xticks()) <= 20
    assert many.get_ylabel() == "label"
    groups = pd.DataFrame(np.ones((3, 2)), columns=pd.Index([7, 9], name="group"))
    assert plot.partition(groups).get_ylabel() == "group"
    with pytest.raises(UsageError, match=r"held has the shape \(0, 2\)"):
        plot.partition(held[:0])
    with pytest.raises(UsageError, match=r"held\(\), takes a DataFrame, and was given RunConfig"):
        plot.partition(RunConfig())  # type: ignore[arg-type]


def test_clients_hold_the_labels_that_they_were_dealt() -> None:
    config = RunConfig(task="digits", clients=Clients(5, partition="pathological(6)"))
    data = ClientData.of(config)
    held = data.held()
    assert held.columns.name == "label"
    assert held.shape == (5, 10) and ((held > 0).sum(axis=1) <= 6).all()
    assert held.sum(axis=1).tolist() == [len(shard) for shard in data.shards]
    labels = data.data.train_y.numpy()
    assert held.loc[3].tolist() == [int((labels[data.shards[3]] == k).sum()) for k in range(10)]


def test_notes_of_points_keep_clear_of_the_bars_of_all_points() -> None:
    """Four cells of few bits within a column of a paper, three of them with bars."""
    cells = ((3.7e3, 0.735, 0.06), (4.4e3, 0.742, 0.05), (6.2e3, 0.744, 0.03), (9.6e3, 0.78, 0.0))
    marks = [
        Marks(x=[x], y=np.array([y]), kind="points", low=np.array([y - b]), high=np.array([y + b]))
        for x, y, b in (*cells, (1.4e6, 0.5, 0.1))
    ]
    notes = [(x, y, "10, 0.05") for x, y, _ in cells]
    chart = Chart(title="", x=Axis(scale="bits"), y=Axis(), marks=marks, notes=notes)
    axes = drawn(chart, figsize=(3.3, 2.4), style="paper")
    axes.figure.canvas.draw()
    boxes = [Text.get_window_extent(text).padded(-1) for text in axes.texts]
    bars = [(one.x[0], y) for one in marks for y in np.linspace(one.low, one.high, 50).ravel()]
    covered = [box.contains(*place) for box in boxes for place in axes.transData.transform(bars)]
    assert len(boxes) == 4 and not any(covered)
