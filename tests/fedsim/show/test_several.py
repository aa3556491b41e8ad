"""Several methods side by side: folders read together, and figures that tell them apart."""

from pathlib import Path

import pytest

from fedsim import plot
from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.results.load import Results, load_results
from fedsim.show.curves import curve_lines, pareto_points
from fedsim.show.export import table
from fedsim.show.style import METHODS, CellKey, looks
from fedsim.show.tables import summary_texts
from tests.support.sweepmaker import TOPK, make_cell, make_sweep, runs_of


def two_sweeps(root: Path, **options: object) -> Results:
    """A sweep of sbc and one of gradient dropping, each with its dense reference."""
    make_sweep(root / "a", (1, 10), (0.1, 0.01), **options)
    make_sweep(root / "b", (1, 10), (0.1, 0.01), form=TOPK, **options)
    return load_results(root / "a", root / "b")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return two_sweeps(tmp_path_factory.mktemp("both"))


def test_folders_are_read_together_and_the_shared_reference_once(both: Results) -> None:
    assert both.runs["label"].value_counts().to_dict() == {
        "gradient_dropping": 4,
        "sbc": 4,
        "dense": 1,
    }
    assert list(both.runs.index[:3]) == ["a/n1-p1-s0", "a/n1-p0.1-s0", "b/n1-p0.1-s0"]
    assert set(both.rounds["run"]) == set(both.runs.index) == set(both.folders)
    assert both.folders["b/n1-p0.1-s0"].parts[-3:] == ("b", "cells", "n1-p0.1-s0")
    rounds = both.rounds[both.rounds["run"] == "b/n1-p0.1-s0"]
    assert set(rounds["label"]) == {"gradient_dropping"} and rounds["higher_is_better"].all()


def test_curves_and_points_are_told_by_method(both: Results) -> None:
    lines = curve_lines(both.rounds, "up_bits", "metric")
    cells = [line.cell for line in lines]
    assert cells[0] == CellKey(1, 1, method="dense", dense=True)
    assert cells[1] == CellKey(1, 0.1, method="gradient_dropping") and len(cells) == 9
    assert pareto_points(both.runs)["cell"].tolist() == cells
    axes = plot.curves(both.rounds)
    told = ["dense", "gradient_dropping", "sbc"]
    paler = "paler: smaller p (0.1, 0.01)"
    assert axes.get_legend_handles_labels()[1] == [*told, "n = 1", "n = 10", paler]
    assert axes.get_ylabel() == "accuracy"
    axes = plot.pareto(both.runs)
    assert axes.get_legend_handles_labels()[1] == ["front", *told, paler]
    notes = [text.get_text() for text in axes.texts]
    assert "10, 0.01" in notes and len(notes) < 9  # those on the front


def test_methods_have_colours_that_the_colour_blind_tell_apart() -> None:
    methods = ("dense", "a", "b")
    keys = [
        CellKey(n, p, method=m, dense=m == "dense")
        for m in methods
        for n in (1, 5)
        for p in (1, 0.1)
    ]
    styles = looks(keys)
    assert styles[keys[0]].colour == "#000000"
    for method, colour in (("a", METHODS[0]), ("b", METHODS[1])):
        mine = [styles[key] for key in keys if key.method == method]
        assert mine[0].colour == mine[2].colour == colour.lower() != mine[1].colour
        assert len({look.marker for look in mine}) == 1
        assert [look.place for look in mine] == [0, 0, 1, 1]


def test_a_panel_a_method_on_one_scale(both: Results) -> None:
    figure = plot.matrix(both.runs)
    panels = figure.figure.axes[:2]
    assert [axes.get_title(loc="left").splitlines()[0] for axes in panels] == [
        "gradient_dropping",
        "sbc",
    ]
    first, two = (axes.collections[0] for axes in panels)
    assert first.get_clim() == two.get_clim() == (0, 1)
    assert min(first.get_array().min(), two.get_array().min()) == 0
    assert max(first.get_array().max(), two.get_array().max()) == 1
    alone = plot.matrix(both.runs, "ratio_content", method="sbc")
    assert len([axes for axes in alone.figure.axes if axes.texts]) == 1
    own = both.runs[(both.runs["label"] == "sbc") & (both.runs["temporal"] == 10)]
    told = [text.get_text() for text in alone.texts]
    assert {units.ratio(ratio) for ratio in own["ratio_content"]} < {*told}
    with pytest.raises(UsageError, match="method is 'stc'.*gradient_dropping, sbc"):
        plot.matrix(both.runs, method="stc")


def test_the_budget_figure_says_which_method_is_best(both: Results) -> None:
    axes = plot.budget(both.rounds)
    assert [line.get_label() for line in axes.lines] == ["dense", "gradient_dropping", "sbc"]
    assert axes.get_xscale() == "log" and axes.get_ylabel() == "accuracy"
    spans = [collection.get_paths()[0].get_extents() for collection in axes.collections]
    assert all(a.x1 <= b.x0 for a, b in zip(spans, spans[1:], strict=False))
    last = both.runs.groupby("label")["up_wire_bits"].max()
    assert [line.get_xdata()[-1] for line in axes.lines] == list(last)
    alone = plot.budget(both.rounds, bits="content")
    paid = both.runs.groupby("label")["up_content_bits"].max()
    assert [line.get_xdata()[-1] for line in alone.lines] == list(paid)


def test_tables_name_the_methods(both: Results) -> None:
    headings, rows, _ = summary_texts(both.runs)
    assert headings[0] == "method"
    assert [texts[0] for texts, _ in rows] == ["dense"] + 4 * ["gradient_dropping"] + 4 * ["sbc"]
    assert "| gradient_dropping | 1 | 0.1 |" in table(both.runs)
    assert r"gradient\_dropping & 1 & 0.1" in table(both.runs, "latex")
    single = runs_of([make_cell(1, 1, 0.9), make_cell(1, 0.1, 0.8, method="q(8, 0.1)")])
    assert "method" not in summary_texts(single)[0]
