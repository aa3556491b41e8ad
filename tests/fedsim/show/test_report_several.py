"""The report of several methods: what stands on it."""

from pathlib import Path

import numpy as np
import pytest

from fedsim import plot
from fedsim.ground.errors import UsageError
from fedsim.results.load import load
from fedsim.show.heat import heat
from fedsim.show.report import write
from fedsim.show.report.charts.heat import heatmaps
from tests.support import charts
from tests.support.commands import Typed, typed  # noqa: F401
from tests.support.page import Page
from tests.support.sweepmaker import TOPK, make_sweep


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("methods")
    make_sweep(root / "a", (1, 10), (0.1, 0.01), failed=[(10, 0.01)])
    make_sweep(root / "b", (1, 10), (0.1, 0.01), form=TOPK)
    return root / "a", root / "b"


@pytest.mark.slow
def test_one_page_of_two_folders(folders: tuple[Path, Path], tmp_path: Path) -> None:
    page = Page(write(*folders, out=tmp_path / "new" / "both").read_text(encoding="utf-8"))
    headings = [attributes.get("id") for tag, attributes in page.tags if tag == "h2"]
    assert headings == [
        "budget", "front", "iterations", "bits", "metric", "ratio", "summary", "split", "layers",
        "failed", "settings", "versions", "terms",
    ]  # fmt: skip
    ids = [str(attributes.get("id")) for _, attributes in page.tags]
    assert {"chart-metric", "chart-metric-2", "chart-ratio-2", "chart-split-2"} <= set(ids)
    assert "digits: gradient_dropping, sbc" in page.text
    assert "a/n10-p0.01-s0 : RunFailed" in page.text and "Traceback" in page.text
    assert "packages.torch 2.15.0" in page.text
    assert page.text.count("Paler ones send fewer entries.") == 4
    assert (tmp_path / "new" / "both" / "matrix-metric.png").exists()


def test_several_folders_need_a_place(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--out"):
        write(*folders)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write(*folders, out=tmp_path / "file")


@pytest.mark.slow
def test_the_command(folders: tuple[Path, Path], typed: Typed) -> None:  # noqa: F811
    said = typed("report", *folders, "--out", "both")
    assert said.code == 0 and "gradient_dropping" in said.out and "both/report.html" in said.out
    for name in ("summary.csv", "summary.parquet", "summary.tex", "report.html"):
        assert (Path("both") / name).exists()
    lines = (Path("both") / "summary.csv").read_text().splitlines()
    assert len(lines) == 1 + 9 and lines[0].endswith("status,error")
    said = typed("report", *folders)
    assert said.code == 2 and "--out" in said.err


def test_colours_of_all_planes_are_of_one_scale(folders: tuple[Path, Path]) -> None:
    runs = load(*folders).runs
    shown = runs[(runs["gradient"] < 1) & (runs["status"] == "done")]
    for value in ("metric", "ratio_content"):
        planes = heatmaps(heat(runs, value), runs)
        assert list(planes) == ["gradient_dropping", "sbc"]
        shades = heat(runs, value).shades
        assert (shades.low, shades.high) == (shown[value].min(), shown[value].max())
        images = [plane["data"][0] for plane in planes.values()]
        assert {(image["zmin"], image["zmax"]) for image in images} == {(0, 1)}
        places = np.concatenate([image["z"].ravel() for image in images])
        assert (np.nanmin(places), np.nanmax(places)) == (0, 1)


def test_a_method_has_one_entry_in_a_legend(folders: tuple[Path, Path]) -> None:
    results = load(*folders)
    lines = charts.curves(results.rounds, "up_bits", "accuracy")
    for figure in (lines, charts.pareto(results.runs)):
        entries = [t.name for t in figure.data if t.showlegend is not False and t.name != "front"]
        assert entries[:3] == ["dense", "gradient_dropping", "sbc"]
        told = ["n = 1", "n = 10"] if figure is lines else []
        assert entries[3:] == [*told, "paler: smaller p (0.1, 0.01)"]
    steps = charts.budget(results.rounds, "accuracy")
    entries = [trace.name for trace in steps.data if trace.showlegend is not False]
    assert entries == ["dense", "gradient_dropping", "sbc"]
    assert "n = 10, p = 0.01<br>from" in "".join(steps.data[1].text)


def test_layers_tell_the_share_of_each_tensor(folders: tuple[Path, Path]) -> None:
    layers = load(*folders).layers
    figure = charts.layers(layers)
    assert figure is not None
    assert [trace.name for trace in figure.data].count("sbc") == 3  # one cell has failed
    np.testing.assert_allclose(figure.data[0].x, [10, 10])
    assert list(figure.layout.yaxis.ticktext) == ["fc.weight", "fc.bias"]
    assert [round(y) for y in figure.data[0].y] == [0, 1]
    assert "fc.weight: 490 of 4900 entries, 10 %" in figure.data[0].text[0]
    assert charts.layers(layers[layers["label"] == "dense"]) is None


def test_marks_of_equal_shares_do_not_cover_each_other(folders: tuple[Path, Path]) -> None:
    figure = charts.layers(load(*folders).layers)
    assert figure is not None
    marks = [
        (x, y) for trace in figure.data if trace.hoverinfo != "skip"
        for x, y in zip(trace.x, trace.y, strict=True)
    ]  # fmt: skip
    assert len(marks) == 2 * 7 and len(set(marks)) == len(marks)
    assert all(abs(y - round(y)) < 0.4 for _, y in marks)
    assert {"1", "2", "5", "10"} <= set(figure.layout.xaxis.ticktext)


def test_a_strip_below_the_budgets_tells_the_best(folders: tuple[Path, Path]) -> None:
    figure = charts.budget(load(*folders).rounds, "accuracy")
    strip = [trace for trace in figure.data if trace.yaxis == "y2"]
    assert strip and figure.layout.yaxis2.ticktext == ("best",)
    assert all(bar.x[1] <= after.x[0] for bar, after in zip(strip, strip[1:], strict=False))
    colours = {trace.name: trace.line.color for trace in figure.data if trace.name}
    for trace in strip:
        method = trace.text[0].split(" is best")[0]
        assert trace.line.color == colours[method]


@pytest.mark.slow
def test_panels_of_one_cell_are_left_out(tmp_path: Path) -> None:
    make_sweep(tmp_path / "a", (10, 20), (0.1, 0.01))
    make_sweep(tmp_path / "b", (10,), (0.02,), form="topk({p}) | float32 | golomb", baseline=False)
    page = Page(write(tmp_path / "a", tmp_path / "b", out=tmp_path / "c").read_text("utf-8"))
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert "chart-metric" in ids and "chart-metric-2" not in ids
    assert "Left out, with one cell each: topk({p}) | float32 | golomb." in page.text
    runs = load(tmp_path / "a", tmp_path / "b").runs
    assert len([axes for axes in plot.matrix(runs).figure.axes if axes.images]) == 1
    assert plot.matrix(runs, method="topk({p}) | float32 | golomb").images
