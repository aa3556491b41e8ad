"""Cells in forked processes: the same numbers, failures that stay where they are, no orphans."""

import json
import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from numba.core.event import start_event

from fedsim import Cell, RunConfig, SweepConfig, run_cells, sweep
from fedsim.ground.children import forks_train
from fedsim.ground.compiling import COMPILING, compiling_told
from fedsim.runs import parallel, processes
from fedsim.runs.parallel import run_here
from fedsim.runs.processes import run_beside
from tests.support.commands import no_page
from tests.support.killing import killed_once, killed_session
from tests.support.runs import assert_same

pytestmark = pytest.mark.usefixtures(no_page.__name__)


@pytest.fixture
def tiny(make_task: Any) -> RunConfig:
    """A run of a few milliseconds, of a task of the test."""
    task = make_task()
    return RunConfig.of(
        task=task.name, method="sbc", gradient=0.1, iterations=12, temporal=2, evaluate_every=4
    )


def test_cells_in_forked_processes_give_the_numbers_of_one_after_the_other(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers do all cells, whatever the number of cells."""
    attempt, pids = parallel.attempt, tmp_path / "pids"
    pids.mkdir()

    def noted(*given: Any) -> None:
        (pids / str(os.getpid())).touch()
        attempt(*given)

    cells = SweepConfig(tiny, (2, 3, 4), (0.1,)).cells()
    seen: dict[str, list[dict[str, Any]]] = {}
    with monkeypatch.context() as patch:
        patch.setattr(parallel, "attempt", noted)
        two = run_cells(
            cells,
            tmp_path / "two",
            jobs=2,
            progress=lambda name, row: seen.setdefault(name, []).append(row),
        )
    assert len(list(pids.iterdir())) == 2 and not (pids / str(os.getpid())).exists()
    one = run_cells(cells, tmp_path / "one")
    for a, b in zip(one, two, strict=True):
        assert a | {"seconds": 0} == b | {"seconds": 0}
    for cell in cells:
        assert_same(tmp_path / "one" / "cells" / cell.name, tmp_path / "two" / "cells" / cell.name)
        assert seen[cell.name][-1]["round"] == cell.config.plan.rounds


@pytest.mark.slow
@pytest.mark.parametrize(("free", "wanted"), [(2**40, 2), (2**20, 1)])
def test_as_many_jobs_as_free_memory_has_room_for(
    free: int, wanted: int, tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what a worker takes that has done a round: the second begins after that, or never."""
    attempt, begun = parallel.attempt, tmp_path / "begun"
    begun.mkdir()

    def noted(*given: Any) -> None:
        (begun / str(os.getpid())).touch()
        attempt(*given)

    monkeypatch.setattr(parallel, "attempt", noted)
    monkeypatch.setattr(processes, "ram", lambda: (free, free))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    cells = [Cell(f"{i}", tiny) for i in range(3)]
    ended = run_cells(cells, tmp_path / "out", jobs=None)
    assert [cell["status"] for cell in ended] == ["done"] * 3
    assert len(list(begun.iterdir())) == wanted


def test_a_forked_run_ends_where_it_is_told_to_as_one_here_does(
    tiny: RunConfig, tmp_path: Path
) -> None:
    def enough(name: str, row: dict[str, Any]) -> str | None:
        return "enough" if row["metric"] == row["metric"] else None  # the first that is a number

    run_here([("here", tiny, tmp_path / "here")], enough)
    run_beside([("there", tiny, tmp_path / "there")], 1, None, enough)
    rows = [pd.read_parquet(tmp_path / name / "rounds.parquet") for name in ("here", "there")]
    assert len(rows[0]) == len(rows[1]) < tiny.plan.rounds
    assert json.loads((tmp_path / "there" / "summary.json").read_text())["error"] == "enough"


def test_a_process_whose_forks_cannot_train_is_not_forked(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that has trained where there is a GPU: Ray starts new processes."""
    given: list[int] = []
    monkeypatch.setattr(processes, "run_on_ray", lambda work, jobs, *rest: given.append(jobs))
    monkeypatch.setattr(processes, "forks_train", lambda: False)
    run_beside([("there", tiny, tmp_path / "there")], 2, None, None)
    assert given == [2]


def test_forks_of_a_daemonic_process_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a ``multiprocessing.Pool``: Python refuses it children."""
    monkeypatch.setattr(multiprocessing.current_process(), "daemon", True)
    assert not forks_train()


@pytest.mark.slow
def test_lost_cells_do_not_stop_the_rest(
    tiny: RunConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One cell loses its process every time, one once."""
    attempt = parallel.attempt

    def killed(config: RunConfig, folder: Path, follower: Any) -> None:
        if folder.name == "always":
            os.kill(os.getpid(), signal.SIGKILL)  # as an operating system short of memory does
        if folder.name == "once":
            killed_once(tmp_path / "killed")
        attempt(config, folder, follower)

    monkeypatch.setattr(parallel, "attempt", killed)
    with caplog.at_level(logging.WARNING, "fedsim"):
        cells = [Cell(name, tiny) for name in ("always", "once", "never")]
        ended = run_cells(cells, tmp_path, jobs=2, described=False)
    assert [cell["status"] for cell in ended] == ["failed", "done", "done"]
    assert "its process ended with -9 (a signal, if below 0), 3 times" in ended[0]["error"]
    told = [r.getMessage() for r in caplog.records if "try" in r.getMessage()]
    tries = sorted((line.partition(":")[0], line.rpartition("try ")[2]) for line in told)
    assert tries == [("always", "2 of 3"), ("always", "3 of 3"), ("once", "2 of 3")]


def test_a_process_that_is_lost_before_it_is_answered_is_replaced(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has told of a row, and waits to hear whether it goes on."""
    attempt, place = parallel.attempt, tmp_path / "pid"

    def noted(*given: Any) -> None:
        place.write_text(str(os.getpid()))
        attempt(*given)

    def progress(name: str, row: dict[str, Any]) -> None:
        if not killed:
            killed.append(int(place.read_text()))
            os.kill(killed[0], signal.SIGKILL)
            os.waitid(os.P_PID, killed[0], os.WEXITED | os.WNOWAIT)

    killed: list[int] = []
    monkeypatch.setattr(parallel, "attempt", noted)
    run_beside([("a", tiny, tmp_path / "a")], 1, None, progress)
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["status"] == "done"
    assert int(place.read_text()) != killed[0]


def test_a_process_that_is_lost_while_it_waits_is_no_error_until_it_is_needed() -> None:
    worker = processes._Worker()
    os.kill(worker.pid, signal.SIGKILL)
    worker.process.join()
    worker.begin(("a", RunConfig(), Path("a")))
    with pytest.raises(EOFError):
        worker.line.recv()
    worker.item = None
    worker.end()


def test_what_workers_log_is_told_here(
    tiny: RunConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A cell whose checkpoints are damaged says so, and trains again."""
    place = tmp_path / "cells" / "a" / "checkpoint-00000002"
    place.mkdir(parents=True)
    (place / "values.json").write_text("{")
    run_beside([("a", tiny, tmp_path / "cells" / "a")], 1, None, None)
    (line,) = caplog.messages
    assert f"{place} is damaged and passed over" in line and "again at round 1" in line


def test_a_cell_whose_folder_was_removed_fails_alone(tiny: RunConfig, tmp_path: Path) -> None:
    def progress(name: str, row: dict[str, Any]) -> None:
        if name == "a":
            shutil.rmtree(tmp_path / "cells" / "a", ignore_errors=True)

    cells = [Cell(name, tiny.but(checkpoint_every=1)) for name in "ab"]
    ended = run_cells(cells, tmp_path, jobs=1, progress=progress)
    assert [cell["status"] for cell in ended] == ["failed", "done"]
    assert "cannot be written" in ended[0]["error"]


def test_memory_is_not_asked_of_a_process_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = SimpleNamespace(trained=True, pid=2**30)
    monkeypatch.setattr(processes, "ram", lambda: (2**40, 2**40))
    assert processes._room([]) and not processes._room([gone])  # type: ignore[list-item]


def test_it_is_told_once_that_the_workers_compile(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, and in no worker, whose terminal is not there."""
    attempt, here, said = parallel.attempt, os.getpid(), list[str]()

    def compiled(*given: Any) -> None:
        start_event("numba:compile")
        attempt(*given)

    def say(text: str) -> None:
        assert os.getpid() == here
        said.append(text)

    monkeypatch.setattr(parallel, "attempt", compiled)
    with compiling_told(say):
        ended = run_cells([Cell("a", tiny), Cell("b", tiny)], tmp_path, jobs=2, progress=False)
    assert said == [COMPILING] and [cell["status"] for cell in ended] == ["done"] * 2


def test_an_error_here_ends_the_workers(tiny: RunConfig, tmp_path: Path) -> None:
    def wrong(name: str, row: dict[str, Any]) -> str | None:
        raise ValueError(name)

    with pytest.raises(ValueError, match="n"):
        sweep(SweepConfig(tiny, (1, 2), (0.1,)), tmp_path, jobs=2, progress=wrong)
    assert not multiprocessing.active_children()


_SWEEP = """
import sys
from fedsim import RunConfig, SweepConfig, sweep
config = RunConfig.of(method="sbc", iterations=10**6, temporal=5, checkpoint_every=5)
sweep(SweepConfig(config, (5,), (0.1, 0.01), baseline=False), sys.argv[1], jobs=2)
"""


@pytest.mark.slow
@pytest.mark.processes
def test_workers_end_with_a_sweep_that_is_killed(tmp_path: Path) -> None:
    """A script needs no guard around what it does when it is imported."""
    script = tmp_path / "script.py"
    script.write_text(_SWEEP)
    out = tmp_path / "out"
    child = subprocess.Popen([sys.executable, str(script), str(out)], start_new_session=True)
    while len(list(out.glob("cells/*/checkpoint-*"))) < 2:
        assert child.poll() is None
        time.sleep(0.1)
    killed_session(child)
