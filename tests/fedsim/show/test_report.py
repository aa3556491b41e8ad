"""The report: one page, no network, all text escaped, the numbers in its figures."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.ground.errors import UsageError
from fedsim.results.load import load
from fedsim.show.heat import heat
from fedsim.show.report import write
from fedsim.show.report.charts.frame import library
from tests.support import charts
from tests.support.page import Page
from tests.support.sweepmaker import make_run, make_sweep


def report(folder: Path, **options: Any) -> Page:
    make_sweep(folder, **options)
    return Page(write(folder).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    folder = tmp_path_factory.mktemp("sweep")
    return folder, report(
        folder, seeds=(0, 1), failed=[(100, 0.001)], missing=[(10, 0.1)], unfinished=[(100, 0.1)]
    )


@pytest.mark.slow
def test_the_page_asks_for_nothing_from_outside(full: tuple[Path, Page]) -> None:
    _, page = full
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base"), tag
        assert "src" not in attributes and "srcset" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    style = re.findall(r"<style>(.*?)</style>", (full[0] / "report.html").read_text(), re.S)[0]
    assert "url(" not in style and "@import" not in style
    own = [script for script in page.scripts if len(script) < 1_000_000]
    assert not [script for script in own if "http://" in script or "https://" in script]


def test_plotly_is_there_once(full: tuple[Path, Page]) -> None:
    _, page = full
    assert len([script for script in page.scripts if len(script) > 1_000_000]) == 1
    drawn = [script for script in page.scripts if "Plotly.newPlot" in script[:3000]]
    assert len(drawn) >= 6


def test_a_page_of_two_cells_is_small_enough_to_send(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.01,))
    page = write(tmp_path)
    assert page.stat().st_size < 1_500_000
    kinds = {"scatter", "bar", "heatmap"}  # what the page draws, and the bundle has
    assert kinds <= set(re.findall(r'name:"(\w+)"', library()))
    assert "Licensed under the MIT license" in library()[:300]


def test_headings_and_links_fit_together(full: tuple[Path, Page]) -> None:
    _, page = full
    headings = [attributes.get("id") for tag, attributes in page.tags if tag == "h2"]
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links == [f"#{key}" for key in headings]
    assert headings == [
        "budget", "front", "iterations", "bits", "metric", "ratio", "summary", "split", "layers",
        "failed", "settings", "versions", "terms",
    ]  # fmt: skip
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert ("html", {"lang": "en"}) in page.tags
    viewport = {"name": "viewport", "content": "width=device-width, initial-scale=1"}
    assert ("meta", viewport) in page.tags


def test_the_page_tells_the_numbers(full: tuple[Path, Page]) -> None:
    folder, page = full
    runs = load(folder).runs
    for _, run in runs[runs["status"] == "done"].iterrows():
        assert f"{run['metric']:.4f}" in page.text
    assert "×22069" in page.text and "Mbit" in page.text
    dense = runs[(runs["temporal"] == 1) & (runs["gradient"] == 1)]["metric"].mean()
    assert f"accuracy {dense:.4f} with 32.0 Mbit per client upstream" in page.text
    assert "left out: n100-p0.1-s0, n100-p0.1-s1." in page.text
    assert "n100-p0.001-s0 : RunFailed: a weight is not finite in round 3" in page.text
    assert "Traceback (most recent call last)" in page.text
    assert "temporal 1 ; 10 ; 100" in page.text and "partition iid" in page.text
    assert "packages.torch 2.15.0" in page.text
    assert "Short lines join cells of equal total sparsity p/n." in page.text


def test_the_other_files_are_there(full: tuple[Path, Page]) -> None:
    folder, _ = full
    for name in ("matrix-metric.png", "matrix-ratio.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert r"\begin{tabular}" in (folder / "summary.tex").read_text()
    assert not list(folder.glob(".*"))


@pytest.mark.slow
def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,))
    first = write(tmp_path).read_bytes()
    assert write(tmp_path).read_bytes() == first


@pytest.mark.slow
def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    for k, (temporal, gradient, failed) in enumerate([(1, 1, 0), (10, 0.1, 0), (10, 0.01, 1)]):
        folder = tmp_path / "cells" / f"c{k}<b>"
        make_run(
            folder, temporal, gradient, failed=bool(failed), task=evil, method=f"m{evil}",
            metric_name=f"acc{evil}", data_source=evil, error=evil if failed else None,
        )  # fmt: skip
        (folder / "environment.json").write_text(json.dumps({evil: [evil]}))
        if failed:
            (folder / "error.txt").write_text(evil)
    (tmp_path / "cells" / "d<i>").mkdir()
    page = Page(write(tmp_path).read_text(encoding="utf-8"))
    assert not {"img", "b", "i"} & {tag for tag, _ in page.tags}
    assert not [script for script in page.scripts if script.startswith("alert")]
    assert evil in page.text and "c2<b>" in page.text and "d<i>" in page.text
    runs = load(tmp_path).runs
    for figure in (charts.heatmap(runs, "metric"), charts.pareto(runs)):
        texts = json.dumps(json.loads(figure.to_json()))  # plotly writes "<" as \u003c
        assert "acc&lt;/script&gt;" in texts and "<img" not in texts


def test_the_heatmap_holds_the_planes_numbers(tmp_path: Path) -> None:
    make_sweep(tmp_path, seeds=(0, 1), failed=[(100, 0.001)], missing=[(10, 0.1)])
    runs = load(tmp_path).runs
    figure = charts.heatmap(runs, "ratio_content")
    chart = figure.data[0]
    assert list(chart.x) == ["1", "0.1", "0.01", "0.001"] and list(chart.y) == ["1", "10", "100"]
    here = runs[(runs["temporal"] == 10) & (runs["gradient"] == 0.01)]
    assert chart.z[1][2] == pytest.approx(
        heat(runs, "ratio_content").shades.place(here["ratio_content"].mean())
    )
    assert "total sparsity p/n = 0.001" in chart.hovertext[1][2]
    assert f"accuracy {here['metric'].mean():.4f}" in chart.hovertext[1][2]
    assert "2 done" in chart.hovertext[1][2] and "0 done, 2 failed" in chart.hovertext[2][3]
    marks = {(mark.y, mark.x): mark for mark in figure.layout.annotations}
    assert marks[1, 1].text == "<i>no run</i>" and marks[2, 3].text == "<i>failed</i>"
    assert marks[1, 2].text == "×2207<br>± 0 (2)" and len(marks) == 12
    # Cividis: white ink on its dark blue, black on its yellow and on the tans between.
    assert [marks[at].font.color for at in ((0, 0), (1, 2), (2, 2))] == ["white", "black", "black"]
    # Joints of the diagonals of three in a 3 x 4 grid: 2 + 2, two lines each.
    assert len(figure.layout.shapes) == 8


def test_perplexity_turns_the_colours(tmp_path: Path) -> None:
    make_sweep(tmp_path, (1, 10), (1, 0.1), perplexity=True)
    runs = load(tmp_path).runs
    assert charts.heatmap(runs, "metric").data[0].reversescale
    assert not charts.heatmap(runs, "ratio_content").data[0].reversescale
    assert charts.pareto(runs).layout.yaxis.title.text == "perplexity"


def test_the_bars_split_a_message_into_its_parts(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.01,))
    bars = {bar.name: bar for bar in charts.split(load(tmp_path).runs).data}
    assert list(bars) == ["header", "position", "value", "side"]
    assert list(bars["side"].y) == ["n = 1, p = 1 (dense)", "n = 10, p = 0.01"]
    # A message at p = 0.01: header 72, 50 positions of 8.1 bits, no values, side 320 bits.
    whole = 72 + 405 + 320
    shares = [bars[name].x[1] for name in bars]
    np.testing.assert_allclose(shares, [7200 / whole, 40500 / whole, 0, 32000 / whole])


def test_a_controller_s_reports_are_a_part_of_the_bits(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.01,))
    make_run(tmp_path / "cells" / "told", 20, 0.01, up_report_bits=203.0)
    bars = {bar.name: bar for bar in charts.split(load(tmp_path).runs).data}
    assert list(bars) == ["header", "position", "value", "side", "reports"]
    # Ten rounds of 72 + 405 + 320 bits, and 203 of reports.
    np.testing.assert_allclose(bars["reports"].x, [0, 0, 100 * 203 / (10 * 797 + 203)])
    assert sum(bar.x[2] for bar in bars.values()) == pytest.approx(100)
    page = Page(write(tmp_path).read_text(encoding="utf-8")).text
    assert "Reports: what a controller asked of clients" in page and "Buffers: " not in page


def test_a_report_of_a_single_run_and_of_failures_only(tmp_path: Path) -> None:
    make_run(tmp_path / "one")
    page = Page(write(tmp_path / "one").read_text(encoding="utf-8"))
    assert "There is no dense reference" in page.text and "partition iid" in page.text
    make_run(tmp_path / "bad" / "cells" / "a", failed=True)
    page = Page(write(tmp_path / "bad").read_text(encoding="utf-8"))
    assert "RunFailed" in page.text and "chart-metric" not in str(page.tags)


def test_a_reference_that_failed_is_not_missing(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,), failed=[(1, 1)])
    page = Page(write(tmp_path).read_text(encoding="utf-8"))
    assert "The dense reference (raw, n = 1) failed" in page.text
    assert "There is no dense reference" not in page.text


def test_what_trained_the_models_comes_first_with_whose_default_it_is(tmp_path: Path) -> None:
    trained = {
        "optimizer": "SGD", "lr": 0.02, "momentum": None, "lr_steps": [[5, 0.1]], "clients": 4,
        "cohort": 4, "strategy": "dsgd",
    }  # fmt: skip
    make_sweep(tmp_path, (10,), (0.1,), settings=trained)
    make_run(tmp_path / "cells" / "fast", 10, 0.1, seed=1, settings=trained | {"lr": 0.5})
    file = tmp_path / "cells" / "fast" / "config.toml"
    file.write_text(f"{file.read_text()}\ntraining.lr = 0.5\nmachine.timeout = 600.0")
    page = Page(write(tmp_path).read_text(encoding="utf-8"))
    assert (
        "What trained the models optimizer SGD (the task's default) "
        "lr 0.02 (the task's default) ; 0.5 lr_steps [[5, 0.1]] (the task's default) clients 4 "
        "cohort 4 (default) strategy dsgd (default) As given task digits"
    ) in page.text
    assert "timeout (seconds) 600.0" in page.text


def test_settings_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,))
    (tmp_path / "cells" / "n10-p0.1-s0" / "config.toml").write_text("= broken")
    (tmp_path / "cells" / "n1-p1-s0" / "environment.json").unlink()
    page = Page(write(tmp_path).read_text(encoding="utf-8"))
    assert "config.toml cannot be read in: n10-p0.1-s0." in page.text
    assert "environment.json cannot be read in: n1-p1-s0." in page.text


def test_a_damaged_sweep_writes_nothing(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,))
    (tmp_path / "cells" / "n1-p1-s0" / "summary.json").write_text("{")
    with pytest.raises(UsageError, match="n1-p1-s0"):
        write(tmp_path)
    assert not (tmp_path / "report.html").exists() and not list(tmp_path.glob("*.png"))
