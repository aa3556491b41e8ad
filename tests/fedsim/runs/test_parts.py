"""Processes that share a sweep's folder: each runs a part of the cells."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import RunConfig, SweepConfig, UsageError, sweep
from fedsim.runs import lock
from fedsim.runs.sweep import part_of
from fedsim.settings.grids import Cell
from tests.fedsim.runs.test_lock import end, holder
from tests.support.commands import files, no_page
from tests.support.markdown import ROOT

pytestmark = pytest.mark.usefixtures(no_page.__name__)


@pytest.fixture
def grid(make_task: Any) -> SweepConfig:
    """Five cells of a few milliseconds."""
    base = RunConfig(task=make_task().name, method="sbc", gradient=0.1)
    return SweepConfig(base, (2, 4), (0.1, 0.5))


def test_each_cell_is_in_one_part_and_the_parts_are_about_as_long() -> None:
    cells = [Cell(f"c{rounds}", RunConfig(rounds=rounds)) for rounds in (1, 8, 2, 7, 3, 6)]
    parts = [part_of(cells, (k, 3)) for k in (1, 2, 3)]
    assert [[cell.config.rounds for cell in part] for part in parts] == [[8, 3], [7, 2], [6, 1]]
    assert part_of(cells, None) == cells
    for only in ((0, 3), (4, 3), (1, 7)):
        with pytest.raises(UsageError, match=f"--only is {only[0]}/{only[1]}"):
            part_of(cells, only)


@pytest.mark.slow
def test_parts_leave_the_files_of_one_sweep(grid: SweepConfig, tmp_path: Path) -> None:
    whole, shared = tmp_path / "whole", tmp_path / "shared"
    sweep(grid, whole)
    first = sweep(grid, shared, only=(1, 2))
    assert len(first) == len(pd.read_csv(shared / "summary.csv")) == 3
    second = sweep(grid, shared, only=(2, 2))
    assert len(second) == 2 and len(pd.read_csv(shared / "summary.csv")) == 5
    assert {*files(shared)} == {*files(whole)}
    for name in ("sweep.toml", *(f"cells/{c.name}/model.safetensors" for c in grid.cells())):
        assert (shared / name).read_bytes() == (whole / name).read_bytes()
    columns = ["temporal", "gradient", "metric", "up_wire_bits", "status"]
    tables = [pd.read_parquet(out / "summary.parquet")[columns] for out in (shared, whole)]
    pd.testing.assert_frame_equal(*tables)


def test_a_cell_that_another_process_runs_is_left_to_it(
    grid: SweepConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("fedsim.runs.parallel._ORPHAN_SECONDS", 0.0)
    busy = tmp_path / "cells" / "n4-p0.1-s0"
    child = holder(busy)
    try:
        with caplog.at_level(logging.WARNING, "fedsim"):
            rows = {row["temporal"]: row for row in sweep(grid, tmp_path, only=(2, 2))}
        assert str(busy) in caplog.text
        assert not (busy / "summary.json").exists() and not (busy / "error.txt").exists()
        assert rows[4]["status"] == "failed" and rows[2]["status"] == "done"
    finally:
        end(child)
    assert all(row["status"] == "done" for row in sweep(grid, tmp_path))


@pytest.mark.slow
def test_two_processes_share_a_folder(tmp_path: Path) -> None:
    """They begin at the same time; each waits for its turn to write what both write."""
    command = [
        sys.executable,
        "-m",
        "fedsim",
        "sweep",
        "--temporal",
        "5,10",
        "--gradient",
        "0.1",
        "--seeds",
        "3,5",
        "--iterations",
        "20",
        "--json",
        "--out",
        f"{tmp_path}",
    ]
    both = [
        subprocess.Popen([*command, "--only", f"{k}/2"], cwd=ROOT, stdout=subprocess.PIPE)
        for k in (1, 2)
    ]
    printed = [json.loads(child.communicate()[0]) for child in both]
    assert [child.returncode for child in both] == [0, 0]
    seeds = [cell["seed"] for one in printed for cell in one["cells"]]
    assert sorted(seeds) == [3, 3, 3, 5, 5, 5]
    table = pd.read_csv(tmp_path / "summary.csv")
    assert len(table) == 6 and (table["status"] == "done").all()
    assert (tmp_path / "report.html").exists() and not (tmp_path / lock.LOCK_FILE).exists()
