"""The report of several methods: what stands on it."""

from pathlib import Path

import numpy as np
import pytest

from fedsim.ground.errors import UsageError
from fedsim.results.load import load_results
from fedsim.show.plot.paper import drawn
from fedsim.show.report import report
from fedsim.show.report.messages import layers
from fedsim.show.report.page import page
from tests.support.commands import Typed, typed  # noqa: F401
from tests.support.page import Page
from tests.support.sweepmaker import TOPK, make_run, make_sweep


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("methods")
    make_sweep(root / "a", (1, 10), (0.1, 0.01), failed=[(10, 0.01)])
    make_sweep(root / "b", (1, 10), (0.1, 0.01), form=TOPK)
    return root / "a", root / "b"


@pytest.mark.slow
def test_one_page_of_two_folders(folders: tuple[Path, Path], tmp_path: Path) -> None:
    shown = Page(report(*folders, out=tmp_path / "new" / "both").read_text(encoding="utf-8"))
    headings = [attributes.get("id") for tag, attributes in shown.tags if tag == "h2"]
    assert headings == [
        "terms",
        "budget",
        "front",
        "iterations",
        "bits",
        "metric",
        "ratio",
        "summary",
        "split",
        "layers",
        "failed",
        "settings",
        "versions",
    ]
    ids = [str(attributes.get("id")) for _, attributes in shown.tags]
    assert {"chart-metric", "chart-metric-2", "chart-ratio-2", "chart-split-2"} <= set(ids)
    assert "digits: gradient_dropping, sbc" in shown.text
    assert "a/n10-p0.01-s0 : RunFailed" in shown.text and "Traceback" in shown.text
    assert "packages.torch 2.15.0" in shown.text
    assert shown.text.count("Paler ones send fewer entries.") == 4
    assert (tmp_path / "new" / "both" / "matrix-metric.png").exists()


def test_methods_of_a_page_are_compared_within_a_budget(tmp_path: Path) -> None:
    """Two messages of `sbc` have 8884 bits, of `gradient_dropping` 1594: then comes a score."""
    make_run(tmp_path / "a", 10, 0.1)
    make_run(tmp_path / "b", 10, 0.01, form=TOPK)
    shown = Page(page(load_results(tmp_path / "a", tmp_path / "b"), budget=2e3))
    assert ("main", {"class": "several"}) in shown.tags
    assert "sbc none none: the method had no evaluation within the budget." in shown.text


def test_several_folders_need_a_place(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--out"):
        report(*folders)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        report(*folders, out=tmp_path / "file")


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


def test_layers_tell_the_share_of_each_tensor(folders: tuple[Path, Path]) -> None:
    table = load_results(*folders).layers
    chart = layers(table)
    assert chart is not None
    assert sum("sbc" in marks.texts[0] for marks in chart.marks if marks.texts) == 3  # one failed
    np.testing.assert_allclose(chart.marks[0].x, [10, 10])
    assert list(chart.y.rows) == ["fc.weight", "fc.bias"]
    assert [round(y) for y in chart.marks[0].y] == [0, 1]
    assert "fc.weight: 490 of 4900 entries, 10 %" in chart.marks[0].texts[0]
    assert layers(table[table["label"] == "dense"]) is None
    axes = drawn(chart, style="page")
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["fc.weight", "fc.bias"]
    assert axes.get_ylim() == (1.5, -0.5)  # the first tensor at the top


def test_marks_of_equal_shares_do_not_cover_each_other(folders: tuple[Path, Path]) -> None:
    chart = layers(load_results(*folders).layers)
    assert chart is not None
    spots = [(x, y) for marks in chart.marks for x, y in zip(marks.x, marks.y, strict=True)]
    assert len(spots) == 2 * 7 and len(set(spots)) == len(spots)
    assert all(abs(y - round(y)) < 0.4 for _, y in spots)
    assert chart.y.height == pytest.approx(0.1 + 7 * 0.06)  # inches of a row of seven lanes
    labels = drawn(chart, style="page").get_xticklabels()
    assert {"1", "2", "5", "10"} <= {tick.get_text() for tick in labels}
