"""``fedsim list runs``: what lies in a folder of results."""

import os
from pathlib import Path

import pytest

from fedsim.results.folders import results_in
from tests.support.commands import Typed, document, refused

KEPT = Path(__file__).parents[2] / "kept" / "0.1.0"


def test_runs_sweeps_and_searches_with_what_came_of_them() -> None:
    found = {Path(row["name"]).name: row for row in results_in(KEPT)}
    assert {name: row["kind"] for name, row in found.items()} == {
        "run": "run",
        "stopped": "run",
        "late": "run",
        "late-stopped": "run",
        "feedback": "run",
        "feedback-stopped": "run",
        "stacked": "run",
        "sweep": "sweep",
        "search": "search",
    }
    assert found["run"]["title"].endswith("n = 2: accuracy 0.2444, 1.59 kbit up")
    assert found["stopped"]["title"] == "not finished"
    assert found["sweep"]["title"] == "linear, 2 methods, 4 of 4 cells done"


def test_the_newest_is_first_and_what_is_damaged_is_listed(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("old", "new", "broken")):
        (tmp_path / name).mkdir()
        for file in ("config.toml", "summary.json"):
            (tmp_path / name / file).write_text("{" if name == "broken" else "{}")
            os.utime(tmp_path / name / file, (number, number))
        if name == "new":
            (cells := tmp_path / name / "cells").mkdir()  # of a sweep
            os.utime(cells, (number, number))
        os.utime(tmp_path / name, (number, number))
    (tmp_path / "mine.txt").touch()
    rows = document(typed("list", "runs", str(tmp_path), "--json").out)
    assert [Path(row["name"]).name for row in rows] == ["broken", "new", "old"]
    monkeypatch.chdir(tmp_path)
    lines = typed("list", "runs", ".").out.splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["broken", "new", "old"]  # no headings
    refused(typed("list", "runs", str(tmp_path / "nowhere")), "nowhere")
    refused(typed("list", "tasks", str(tmp_path)), "DIR is", "fedsim list runs")
