"""What a user typed is what tables, figures and the page show."""

import json
import tomllib
from pathlib import Path

import pytest

from fedsim.results.labels import methods_of, of_method
from fedsim.results.load import Results, load_results
from fedsim.runs.run import run
from fedsim.show.planes import plane
from tests.support.runs import small
from tests.support.sweepmaker import make_cell, runs_of


def told(results: Results) -> set[str]:
    return set(results.runs["label"])


@pytest.mark.parametrize(
    ("method", "gradient", "typed", "label"),
    [
        ("ef(per_tensor(one_sided(0.01) | mean | golomb), mask=true)", 0.01, "", "sbc"),
        ("ef(per_tensor(topk(1e-05) | float32 | golomb))", 1e-5, "", "gradient_dropping"),
        ("ef(per_tensor(l1_sign))", 1, "", "ef_sign"),
        ("raw", 1, "", "dense"),
        ("ef(per_tensor(cnat))", 1, "", "ef(per_tensor(cnat))"),
        ("cnat(8, 0)", 1, "", "cnat(8, 0)"),
        ("x", 0.1, "topk({p}) | cnat", "topk({p}) | cnat"),  # a fraction has a column of its own
        ("per_tensor(topk(1) | cnat | golomb)", 1, "topk({p}) | cnat", "topk({p}) | cnat"),
        ("x", 0.1, "topk(0.1) | qsgd(8)", "topk(0.1) | qsgd(8)"),  # one in the text stays there
    ],
)
def test_published_methods_go_by_their_names_and_others_by_their_text(
    method: str, gradient: float, typed: str, label: str
) -> None:
    cell = make_cell(1, gradient, 0.9, method=method, **{"typed": typed} if typed else {})
    assert runs_of([cell])["label"].item() == label


def test_what_was_typed_is_written_down(tmp_path: Path) -> None:
    run(small(method=" qsgd(1)", label="mine"), tmp_path)
    settings = tomllib.loads((tmp_path / "config.toml").read_text())
    assert (settings["method"], settings["label"]) == (" qsgd(1)", "mine")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["told"] == {"form": "qsgd(1)", "whole": "", "masks": False}
    assert told(load_results(tmp_path)) == {"mine"}
    (tmp_path / "config.toml").unlink()  # and with it the name
    assert told(load_results(tmp_path)) == {"qsgd(1)"}


@pytest.mark.parametrize(
    ("method", "cells"),
    [
        ("ef(per_tensor(l1_sign))", [(10, 1), (25, 1)]),
        ("topk({p}) | cnat | golomb", [(1, 0.1), (1, 0.01)]),  # at p = 1 it is cnat, not raw
    ],
)
def test_the_reference_is_on_no_grid_but_its_own(
    method: str, cells: list[tuple[int, float]]
) -> None:
    own = [
        make_cell(n, p, 0.7, method=method.replace("{p}", f"{p:g}"), typed=method) for n, p in cells
    ]
    runs = runs_of([make_cell(1, 1, 0.95), *own])
    grid = plane(runs)
    assert grid.dense == 0.95 and 0.95 not in grid.values
    (label,) = methods_of(runs)
    assert plane(of_method(runs, label)).dense == 0.95
    sbc = plane(runs_of([make_cell(1, 1, 0.95), make_cell(1, 0.1, 0.7)]))
    assert sbc.dense is None and sbc.values.tolist() == [[0.95, 0.7]]  # sbc is raw at p = 1


def test_a_method_takes_the_dense_cells_of_its_delays() -> None:
    runs = runs_of(
        [
            make_cell(1, 1, 0.9),
            make_cell(10, 1, 0.8),
            make_cell(50, 1, 0.7),
            make_cell(10, 0.1, 0.6),
            make_cell(10, 1, 0.5, method="cnat"),
            make_cell(50, 0.1, 0.4, method="topk(0.1) | cnat", typed="topk({p}) | cnat"),
            make_cell(50, 1, 0.3, method="per_tensor(topk(1) | cnat)", typed="topk({p}) | cnat"),
        ]
    )
    assert of_method(runs, "sbc({p})")["metric"].tolist() == [0.9, 0.8, 0.6]
    assert of_method(runs, "cnat")["metric"].tolist() == [0.9, 0.5]
    assert of_method(runs, "topk({p}) | cnat")["metric"].tolist() == [0.9, 0.4, 0.3]
    assert of_method(runs, "dense")["metric"].tolist() == [0.9]
    assert of_method(runs, "raw")["metric"].tolist() == [0.9, 0.8, 0.7]
