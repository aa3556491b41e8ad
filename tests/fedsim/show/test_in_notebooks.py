"""What notebooks show of runs, sweeps and searches, and what loaded results answer."""

import base64
import re
from pathlib import Path

import pandas as pd
import pytest

import fedsim
from fedsim import UsageError, run
from fedsim.show.results_view import ResultsView, load
from tests.support.runs import small
from tests.support.searching import searched
from tests.support.sweepmaker import SBC, TOPK, make_run

_PICTURE = re.compile(r'<img alt="([^"]*)" [^>]*src="data:image/png;base64,([^"]+)">')


def picture(html: str) -> tuple[str, bytes]:
    """The words and the bytes of the one picture."""
    ((about, data),) = _PICTURE.findall(html)
    return about, base64.b64decode(data)


def made(root: Path, form: str, *cells: tuple[int, float, list[float]]) -> Path:
    for n, p, metrics in cells:
        for seed, metric in enumerate(metrics):
            make_run(root / "cells" / f"n{n}-p{p}-s{seed}", n, p, seed, form=form, metric=metric)
    make_run(root / "cells" / "dense", 1, 1.0, 0)
    return root


def test_a_run_shows_its_curve_and_its_row() -> None:
    done = run(small())
    html = done._repr_html_()
    about, png = picture(html)
    assert about == "learning curves: sbc(0.05)"
    assert png == fedsim.plot.curves(done.results.rounds, "up_bits")._repr_png_()
    assert f"<td>{done.summary['metric']:.4f}</td>" in html and "<td>sbc(0.05)</td>" in html
    assert repr(done).startswith("RunResult(digits, sbc(0.05), n = 5, p = 0.05: accuracy 0.")
    assert repr(done).endswith("in memory)") and "in memory" in repr(done.results)


def test_a_run_in_memory_has_the_results_of_one_in_a_folder(tmp_path: Path) -> None:
    here, there = run(small(label="mine")).results, run(small(label="mine"), tmp_path).results
    assert isinstance(here, ResultsView) and isinstance(there, fedsim.Results)
    left = {"seconds", "files", "run"}
    for name in ("runs", "rounds", "layers"):
        one, other = (getattr(lot, name) for lot in (here, there))
        kept = [c for c in other.columns if c not in left and not c.endswith("seconds")]
        assert set(kept) <= {*one.columns}
        pd.testing.assert_frame_equal(
            one[kept].reset_index(drop=True), other[kept].reset_index(drop=True), check_dtype=False
        )
    assert here.runs["label"].tolist() == ["mine"]


def test_a_run_of_which_no_update_was_used_shows_its_row() -> None:
    done = run(small(temporal=2, iterations=4, clients=2, dropout=0.999))
    assert done.layers.empty and {"tensor", "sent"} <= {*done.results.layers.columns}
    html = done._repr_html_()
    assert "<img" not in html and "<td>sbc(0.05)</td>" in html and "inf" not in html


def test_a_sweep_shows_its_plane_and_its_cells(tmp_path: Path) -> None:
    cells = [(n, p, [0.9, 0.8]) for n in (1, 10) for p in (0.1, 0.01)]
    results = load(made(tmp_path, SBC, *cells))
    html = results._repr_html_()
    about, png = picture(html)
    assert about == "the plane of n and p: sbc"
    assert png == fedsim.plot.matrix(results.runs)._repr_png_()
    assert html.count("0.8500 ± 0.0707 (2)") == 4


def test_without_a_picture_there_is_the_table(tmp_path: Path) -> None:
    make_run(tmp_path / "cells" / "n10", 10, 0.1, 0, failed=True)
    html = load(tmp_path)._repr_html_()
    assert "<img" not in html and "failed" in html and "<td>10</td>" in html


def test_results_answer_as_the_functions_do(tmp_path: Path) -> None:
    first = made(tmp_path / "a", SBC, (10, 0.1, [0.91, 0.92, 0.93]))
    other = made(tmp_path / "b", TOPK, (10, 0.1, [0.90, 0.90, 0.90]))
    results = fedsim.load(first, other)
    compared = results.compare("sbc", "gradient_dropping")
    pd.testing.assert_frame_equal(compared, fedsim.compare(first, other))
    assert compared["difference"].tolist() == [pytest.approx(0.02)]
    pd.testing.assert_frame_equal(results.best("1Gbit"), fedsim.best(results, "1Gbit"))
    with pytest.raises(UsageError, match="unknown method 'sbcc' .did you mean sbc"):
        results.compare("sbcc", "gradient_dropping")


def test_methods_of_two_tasks_are_not_compared(tmp_path: Path) -> None:
    for name, form, task in (("a", SBC, "digits"), ("b", TOPK, "mnist_lenet5")):
        for seed in (0, 1):
            make_run(tmp_path / name / "cells" / f"s{seed}", 10, 0.1, seed, form=form, task=task)
    results = load(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UsageError, match="sbc and gradient_dropping are of 2 tasks: digits, mnist"):
        results.compare("sbc", "gradient_dropping")
    assert "<img" not in results._repr_html_() and "mnist_lenet5" in results._repr_html_()


def test_a_run_s_words_are_escaped() -> None:
    html = run(small(label="<b>&")).results._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;&amp;" in html


@pytest.mark.slow
def test_a_search_shows_its_trials_and_finalists(tmp_path: Path) -> None:
    found = searched(tmp_path, trials=4, seeds=1)
    html = found._repr_html_()
    about, png = picture(html)
    assert png == (tmp_path / "search.png").read_bytes() and about.startswith(
        "SearchResult(best accuracy"
    )
    assert found.winner is not None
    assert html.count("<tr>") == 2 + len(found.methods) + len(found.finalists)
    assert f"n = {found.winner.params['temporal']}" in repr(found)
    assert callable(fedsim.search) and fedsim.search.__name__ == "search"
