"""Cells of one folder that differ in settings: told apart as the cells of several folders are."""

from pathlib import Path

import pytest

from fedsim import plot
from fedsim.results.labels import of_method, several
from fedsim.results.load import load
from fedsim.show.curves import pareto_points
from tests.support.sweepmaker import make_run, make_sweep, say


def test_cells_of_one_folder_are_told_apart_too(tmp_path: Path) -> None:
    make_sweep(tmp_path, (1, 10), (0.1,))
    say(tmp_path, "iterations = 300", "n1-p1-s0")
    make_run(tmp_path / "cells" / "again", 10, 0.1)
    say(tmp_path, "lr = 0.5\nevaluate_every = 7", "again")
    runs = load(tmp_path).runs
    assert runs["label"].to_dict() == {
        "n1-p1-s0": "dense (iterations = 300)", "n1-p0.1-s0": "sbc", "n10-p0.1-s0": "sbc",
        "again": "sbc (lr = 0.5)",
    }  # fmt: skip


def test_a_method_at_two_rates_is_not_one_line(tmp_path: Path) -> None:
    """n = 1 at one learning rate and n = 10 at another: no cell is there twice."""
    make_sweep(tmp_path, (1, 10), (0.1,))
    say(tmp_path, "lr = 0.5", "n10-*")
    results = load(tmp_path)
    told = {"dense", "sbc", "sbc (lr = 0.5)"}
    assert set(results.runs["label"]) == set(results.rounds["label"]) == told
    # One plane and the bar: of the other rate there is a single cell, which is left out.
    assert len(plot.matrix(results.runs).axes) == 2
    assert set(results.rounds["variant"]) == {"", "lr = 0.5"}


def test_a_reference_of_other_settings_is_not_drawn_as_the_methods_own(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,))
    say(tmp_path, "lr = 0.5", "n10-*")
    results = load(tmp_path)
    assert several(results.runs) and several(results.rounds)
    assert of_method(results.runs, "sbc (lr = 0.5)").index.tolist() == ["n10-p0.1-s0"]
    cells = [point.cell.method for point in pareto_points(results.runs)]
    assert cells == ["dense", "sbc (lr = 0.5)"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("strategy", "majority"), ("strategy", "innetwork"), ("momentum_masking", "off")],
)
def test_the_mean_of_the_reference_is_no_setting_of_its_own(
    key: str, value: str, tmp_path: Path
) -> None:
    make_sweep(tmp_path, (10,), (0.1,))
    say(tmp_path, f'{key} = "{value}"', "n10-*")  # as a sweep writes it, of votes
    runs = load(tmp_path).runs
    assert "variant" not in runs.columns and set(runs["label"]) == {"dense", "sbc"}
    make_run(tmp_path / "cells" / "mean", 10, 0.1)
    assert load(tmp_path).runs.loc["n10-p0.1-s0", "label"] == f"sbc ({key} = {value})"


def test_what_is_the_tasks_anyway_is_no_difference(tmp_path: Path) -> None:
    for name, rate in (("left", 0.1), ("said", 0.1), ("other", 0.5)):
        make_run(tmp_path / "cells" / name, 10, 0.1, settings={"lr": rate})
    say(tmp_path, "lr = 0.1", "said")
    say(tmp_path, "lr = 0.5", "other")
    assert load(tmp_path).runs["label"].to_dict() == {
        "left": "sbc", "said": "sbc", "other": "sbc (lr = 0.5)",
    }  # fmt: skip


def test_one_folder_keeps_every_run_that_it_names(tmp_path: Path) -> None:
    """Two names of one cell with the same settings: a list may have them, and both can be asked."""
    for name in ("short", "long"):
        make_run(tmp_path / "cells" / name, 10, 0.1)
    results = load(tmp_path)
    assert sorted(results.runs.index) == ["long", "short"]
    assert set(results.rounds["run"]) == {"long", "short"}
