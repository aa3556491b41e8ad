"""Cells as Ray tasks: the same numbers, failures that stay where they are, progress."""

import json
import math
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import Cell, SweepConfig, UsageError, run_cells, sweep
from fedsim.runs import parallel
from fedsim.runs.parallel import run_here, run_on_ray
from fedsim.runs.remoterun import RemoteRun
from tests.support.asyncruns import asynchronous
from tests.support.commands import no_page
from tests.support.killing import killed_once
from tests.support.runs import assert_same, small

pytestmark = pytest.mark.usefixtures(no_page.__name__)

BASE = small(method="sbc", gradient=0.1, evaluate_every=2)
GRID = SweepConfig(BASE, (5, 10), (0.1,))


def told(summaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in s.items() if k != "seconds"} for s in summaries]


@pytest.mark.slow
@pytest.mark.processes
def test_cells_as_ray_tasks_give_the_numbers_of_one_after_the_other(
    cluster: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a grid, and of a server that does not wait; Ray writes no error when it ends."""
    waits_not = asynchronous("fedasync", method="sbc", gradient=0.1, evaluate_every=2)
    cells = [*GRID.cells(), Cell("fedasync", waits_not)]
    seen: dict[str, list[dict[str, Any]]] = {}
    two = run_cells(
        cells,
        tmp_path / "two",
        jobs=2,
        ray_address=cluster,
        progress=lambda name, row: seen.setdefault(name, []).append(row),
    )
    assert "task_manager" not in capfd.readouterr().err
    one = run_cells(cells, tmp_path / "one")
    assert told(one) == told(two)
    tables = [pd.read_csv(tmp_path / name / "summary.csv") for name in ("one", "two")]
    pd.testing.assert_frame_equal(*(t.drop(columns="seconds") for t in tables), check_exact=True)
    for cell in cells:
        assert_same(tmp_path / "one" / "cells" / cell.name, tmp_path / "two" / "cells" / cell.name)
        rows = seen[cell.name]
        numbers = [row["round"] for row in rows]
        assert numbers == sorted(set(numbers)) and numbers[-1] == cell.config.plan.rounds
        assert rows[-1]["up_bits"] > 0 and 0 <= rows[-1]["metric"] <= 1
    # nothing is left to do: Ray is not even started
    assert run_cells(cells, tmp_path / "two", jobs=2, ray_address="127.0.0.1:1") == two


@pytest.mark.slow
@pytest.mark.processes
def test_a_run_on_ray_ends_where_it_is_told_to_as_one_here_does(
    cluster: str, tmp_path: Path
) -> None:
    """At the first evaluation; rounds of milliseconds, most of whose rows are not told."""
    config, told = small(iterations=400, temporal=1, evaluate_every=40), list[dict[str, Any]]()

    def enough(name: str, row: dict[str, Any]) -> str | None:
        told.append(row)
        return None if math.isnan(row["metric"]) else "enough"

    run_here([("here", config, tmp_path / "here")], enough)
    run_on_ray([("ray", config, tmp_path / "ray")], 1, cluster, enough)
    assert [told[39][key] for key in ("round", "up_bits")] == [
        told[-1][key] for key in ("round", "up_bits")
    ]
    for folder in (tmp_path / "here", tmp_path / "ray"):
        assert json.loads((folder / "summary.json").read_text())["error"] == "enough"
        assert len(pd.read_parquet(folder / "rounds.parquet")) == 40


class DyingBoard:
    """Rows go to ``board``; the first time that a run ends its process is killed before."""

    def __init__(self, board: Any, marker: Path) -> None:
        self.pin, self.board, self.marker = self, board, marker

    def remote(self, name: str, row: dict[str, Any], archive: None) -> Any:
        if row["last"] and name.startswith("n1-"):
            killed_once(self.marker)
        return self.board.pin.remote(name, row, archive)


@pytest.mark.slow
@pytest.mark.processes
def test_failed_and_lost_cells_do_not_stop_the_rest(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One cell cannot be written, one loses its worker every time, one once, in its last round."""
    blocked = tmp_path / "cells" / "n5-p0.1-s0" / "model.safetensors"
    blocked.mkdir(parents=True)
    real, marker = parallel._attempt_on_ray, tmp_path / "killed"

    def attempt(remote_run: RemoteRun, board: Any) -> None:
        if remote_run.name == "n10-p0.1-s0":
            os.kill(os.getpid(), signal.SIGKILL)  # as an operating system short of memory does
        real(remote_run, DyingBoard(board, marker))

    with monkeypatch.context() as patch:
        patch.setattr(parallel, "_attempt_on_ray", attempt)
        cells = sweep(GRID, tmp_path, jobs=2, ray_address=cluster)
    assert [c["status"] for c in cells] == ["done", "failed", "failed"]
    assert marker.exists() and cells[0]["rounds"] == 20
    again = "it goes on from its last checkpoint, if any: try"
    told = [r.getMessage() for r in caplog.records if again in r.getMessage()]
    assert sorted(line.partition(":")[0] for line in told) == ["n1-p1-s0", *["n10-p0.1-s0"] * 2]
    assert "cannot be written (Is a directory)" in cells[1]["error"]
    assert "WorkerCrashed" in cells[2]["error"]
    for name in ("n5-p0.1-s0", "n10-p0.1-s0"):
        assert (
            "Traceback" in (tmp_path / "cells" / name / "error.txt").read_text() or name[1] == "1"
        )
        assert json.loads((tmp_path / "cells" / name / "summary.json").read_text())["error"]
    blocked.rmdir()
    cells = sweep(GRID, tmp_path, jobs=1)
    assert [c["status"] for c in cells] == ["done"] * 3


@pytest.mark.parametrize("address", ["nope", "", "127.0.0.1:{closed}", "ray://127.0.0.1:{closed}"])
def test_a_bad_address(address: str, tmp_path: Path) -> None:
    """Refused at once: Ray itself would knock at a closed door for minutes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]
        given = address.format(closed=closed)
        with pytest.raises(UsageError, match=f"--ray-address is '{given}': no Ray cluster there"):
            sweep(GRID, tmp_path, ray_address=given)
