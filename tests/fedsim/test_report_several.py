"""The report of several methods: what stands on it."""

from pathlib import Path

import numpy as np
import pytest

from fedsim.errors import UsageError
from fedsim.report import charts, write
from fedsim.results import load
from tests.fedsim.commands import Typed, typed  # noqa: F401
from tests.fedsim.sweepmaker import make_sweep
from tests.fedsim.test_report import Page
from tests.fedsim.test_several import TOPK


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("methods")
    make_sweep(root / "a", (1, 10), (0.1, 0.01), failed=[(10, 0.01)])
    make_sweep(root / "b", (1, 10), (0.1, 0.01), form=TOPK)
    return root / "a", root / "b"


def test_one_page_of_two_folders(folders: tuple[Path, Path], tmp_path: Path) -> None:
    page = Page(write(*folders, out=tmp_path / "new" / "both").read_text(encoding="utf-8"))
    headings = [attributes.get("id") for tag, attributes in page.tags if tag == "h2"]
    assert headings == [
        "summary", "metric", "ratio", "iterations", "bits", "budget", "front", "split", "layers",
        "failed", "settings", "versions",
    ]  # fmt: skip
    ids = [str(attributes.get("id")) for _, attributes in page.tags]
    assert {"chart-metric", "chart-metric-2", "chart-ratio-2", "chart-split-2"} <= set(ids)
    assert "digits: gradient_dropping, sbc" in page.text
    assert "a/n10-p0.01-s0 : RunFailed" in page.text and "Traceback" in page.text
    assert "packages.torch 2.15.0" in page.text
    assert (tmp_path / "new" / "both" / "matrix-metric.png").exists()


def test_several_folders_need_a_place(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--out"):
        write(*folders)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write(*folders, out=tmp_path / "file")


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
    limits = (0.5, 0.9)
    image = charts.heatmap(runs[runs["label"] == "sbc"], "metric", limits).data[0]
    assert (image.zmin, image.zmax) == limits
    image = charts.heatmap(runs[runs["label"] == "sbc"], "ratio_content", (1.0, 100.0)).data[0]
    assert (image.zmin, image.zmax) == (0, 2)


def test_a_method_has_one_entry_in_a_legend(folders: tuple[Path, Path]) -> None:
    results = load(*folders)
    lines = charts.curves(results.rounds, "up_bits", "accuracy")
    for figure in (lines, charts.pareto(results.runs)):
        entries = [t.name for t in figure.data if t.showlegend is not False and t.name != "front"]
        assert entries == ["dense", "gradient_dropping", "sbc"]
    steps = charts.budget(results.rounds, "accuracy")
    assert [trace.name for trace in steps.data] == ["dense", "gradient_dropping", "sbc"]
    assert "n = 10, p = 0.01<br>from" in "".join(steps.data[1].text)


def test_layers_tell_the_share_of_each_tensor(folders: tuple[Path, Path]) -> None:
    layers = load(*folders).layers
    figure = charts.layers(layers)
    assert figure is not None
    assert [trace.name for trace in figure.data].count("sbc") == 3  # one cell has failed
    np.testing.assert_allclose(figure.data[0].x, [10, 10])
    assert list(figure.data[0].y) == ["fc.weight", "fc.bias"]
    assert "fc.weight: 490 of 4900 entries, 10 %" in figure.data[0].text[0]
    assert charts.layers(layers[layers["label"] == "dense"]) is None
