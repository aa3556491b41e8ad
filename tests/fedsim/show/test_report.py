"""The report: one page, no network, no script, all text escaped, the numbers in its figures."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

from fedsim.ground.errors import UsageError
from fedsim.results.load import load_results
from fedsim.show.heat import cell_texts, heat
from fedsim.show.plot.matrices import heatmap
from fedsim.show.plot.paper import drawn
from fedsim.show.report import report
from fedsim.show.report.messages import message_parts
from tests.support.page import Page
from tests.support.sweepmaker import make_run, make_sweep


def page_of(folder: Path, **options: Any) -> Page:
    make_sweep(folder, **options)
    return Page(report(folder).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    folder = tmp_path_factory.mktemp("sweep")
    return folder, page_of(
        folder, seeds=(0, 1), failed=[(100, 0.001)], missing=[(10, 0.1)], unfinished=[(100, 0.1)]
    )


@pytest.mark.slow
def test_the_page_asks_for_nothing_from_outside(full: tuple[Path, Page]) -> None:
    _, page = full
    outside = ("link", "img", "image", "iframe", "object", "embed", "base", "script")
    for tag, attributes in page.tags:
        assert tag not in outside, tag
        assert "src" not in attributes and "srcset" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    text = (full[0] / "report.html").read_text()
    (style,) = re.findall(r"<style.*?>(.*?)</style>", text, re.S)
    assert "url(" not in style and "@import" not in style
    assert all(place.startswith("#") for place in re.findall(r"url\((.*?)\)", text))


def test_every_figure_is_drawn_with_what_it_says_at_the_pointer(full: tuple[Path, Page]) -> None:
    text = (full[0] / "report.html").read_text()
    figures = dict(re.findall(r'<figure id="chart-(\w+)".*?>(<svg .*?</svg>)</figure>', text, re.S))
    assert [*figures] == ["front", "iterations", "bits", "metric", "ratio", "split", "layers"]
    for key, figure in figures.items():
        assert figure.count("<text ") > 5 and figure.count("<title>") > 5, key
        for place in re.findall(r'(?:href="|url\()#(\w+)', figure):  # its own, not another's
            assert f'id="{place}"' in figure
    titles = re.findall("<title>(.*?)</title>", figures["iterations"], re.S)
    assert "n = 1, p = 1 (dense)\niteration 200\naccuracy 0.9739" in titles


def test_a_page_of_two_cells_is_small_enough_to_send(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.01,))
    page = report(tmp_path)
    assert page.stat().st_size < 150_000


def test_headings_and_links_fit_together(full: tuple[Path, Page]) -> None:
    _, page = full
    headings = [attributes.get("id") for tag, attributes in page.tags if tag == "h2"]
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links == [f"#{key}" for key in headings]
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
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert ("html", {"lang": "en"}) in page.tags
    viewport = {"name": "viewport", "content": "width=device-width, initial-scale=1"}
    assert ("meta", viewport) in page.tags


def test_the_page_tells_the_numbers(full: tuple[Path, Page]) -> None:
    folder, page = full
    runs = load_results(folder).runs
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
def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    for k, (temporal, gradient, failed) in enumerate([(1, 1, 0), (10, 0.1, 0), (10, 0.01, 1)]):
        folder = tmp_path / "cells" / f"c{k}<b>"
        make_run(
            folder,
            temporal,
            gradient,
            failed=bool(failed),
            task=evil,
            method=f"m{evil}",
            metric_name=f"acc{evil}",
            data_source=evil,
            error=evil if failed else None,
        )
        (folder / "environment.json").write_text(json.dumps({evil: [evil]}))
        if failed:
            (folder / "error.txt").write_text(evil)
    (tmp_path / "cells" / "d<i>").mkdir()
    page = Page(report(tmp_path).read_text(encoding="utf-8"))
    assert not {"img", "b", "i", "script"} & {tag for tag, _ in page.tags}
    assert evil in page.text and "c2<b>" in page.text and "d<i>" in page.text
    assert page.text.count(f"acc{evil} 0.9") > 5  # at the pointer


def test_the_heatmap_holds_the_planes_numbers(tmp_path: Path) -> None:
    make_sweep(tmp_path, seeds=(0, 1), failed=[(100, 0.001)], missing=[(10, 0.1)])
    runs = load_results(tmp_path).runs
    shown = heat(runs, "ratio_content")
    (grid,) = shown.panels.values()
    axes = heatmap(shown, style="page")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "0.1", "0.01", "0.001"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["1", "10", "100"]
    here = runs[(runs["temporal"] == 10) & (runs["gradient"] == 0.01)]
    assert axes.collections[0].get_array()[1, 2] == pytest.approx(
        shown.shades.place(here["ratio_content"].mean())
    )
    said = cell_texts(runs, grid)
    assert "total sparsity p/n = 0.001" in said[1, 2]
    assert f"accuracy {here['metric'].mean():.4f}" in said[1, 2]
    assert "2 done" in said[1, 2] and "0 done, 2 failed" in said[2, 3]
    marks = {text.get_position()[::-1]: text for text in axes.texts if type(text) is Text}
    assert marks[1, 1].get_text() == "no run" and marks[2, 3].get_text() == "failed"
    assert marks[1, 2].get_text() == "×2207" and len(marks) == 12
    # Cividis: white ink on its dark blue, black on its yellow and on the tans between.
    colours = [marks[at].get_color() for at in ((0, 0), (1, 2), (2, 2))]
    assert colours == ["white", "black", "black"]
    # Joints of the diagonals of three in a 3 x 4 grid, 2 + 2: three points each, in two widths.
    assert [len(line.get_xdata()) for line in axes.lines] == [12, 12]


def test_the_bars_split_a_message_into_its_parts(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.01,))
    chart = message_parts(load_results(tmp_path).runs)
    assert chart is not None
    bars = {bar.name: bar for bar in chart.marks}
    assert list(bars) == ["header", "position", "value", "side"]
    assert list(chart.y.rows) == ["n = 1, p = 1 (dense)", "n = 10, p = 0.01"]
    # A message at p = 0.01: header 72, 50 positions of 8.1 bits, no values, side 320 bits.
    whole = 72 + 405 + 320
    ends = [bars[name].x[1] for name in bars]
    shares = np.array([7200 / whole, 40500 / whole, 0, 32000 / whole])
    np.testing.assert_allclose(ends, shares.cumsum())
    patches = drawn(chart, style="page").patches
    np.testing.assert_allclose([patch.get_width() for patch in patches[1::2]], shares)
    np.testing.assert_allclose([patch.get_x() for patch in patches[1::2]], ends - shares, atol=1e-9)


def test_a_report_of_a_single_run_and_of_failures_only(tmp_path: Path) -> None:
    make_run(tmp_path / "one")
    page = Page(report(tmp_path / "one").read_text(encoding="utf-8"))
    assert "There is no dense reference" in page.text and "partition iid" in page.text
    make_run(tmp_path / "bad" / "cells" / "a", failed=True)
    page = Page(report(tmp_path / "bad").read_text(encoding="utf-8"))
    assert "RunFailed" in page.text and "chart-metric" not in str(page.tags)


def test_a_reference_that_failed_is_not_missing(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,), failed=[(1, 1)])
    page = Page(report(tmp_path).read_text(encoding="utf-8"))
    assert "The dense reference (raw, n = 1) failed" in page.text
    assert "There is no dense reference" not in page.text


def test_what_trained_the_models_comes_first_with_whose_default_it_is(tmp_path: Path) -> None:
    trained = {
        "optimizer": "SGD",
        "lr": 0.02,
        "momentum": None,
        "lr_steps": [[5, 0.1]],
        "clients": 4,
        "cohort": 4,
        "strategy": "dsgd",
    }
    make_sweep(tmp_path, (10,), (0.1,), settings=trained)
    make_run(tmp_path / "cells" / "fast", 10, 0.1, seed=1, settings=trained | {"lr": 0.5})
    file = tmp_path / "cells" / "fast" / "config.toml"
    file.write_text(f"{file.read_text()}\ntraining.lr = 0.5\nmachine.timeout = 600.0")
    page = Page(report(tmp_path).read_text(encoding="utf-8"))
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
    page = Page(report(tmp_path).read_text(encoding="utf-8"))
    assert "config.toml cannot be read in: n10-p0.1-s0." in page.text
    assert "environment.json cannot be read in: n1-p1-s0." in page.text


def test_a_damaged_sweep_writes_nothing(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,))
    (tmp_path / "cells" / "n1-p1-s0" / "summary.json").write_text("{")
    with pytest.raises(UsageError, match="n1-p1-s0"):
        report(tmp_path)
    assert not (tmp_path / "report.html").exists() and not list(tmp_path.glob("*.png"))
