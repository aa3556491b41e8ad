"""Two writers of one folder: the second is refused, and a killed one is in nobody's way."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedsim import SweepConfig, UsageError, run, sweep
from fedsim.ground.files import replacing
from fedsim.runs import lock
from fedsim.runs.parallel import run_here
from tests.support.markdown import ROOT
from tests.support.runs import small

_HOLDER = """
import sys, time
from pathlib import Path
from fedsim.runs import lock
with lock.locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(folder: Path, seconds: float = 600) -> "subprocess.Popen[str]":
    """Another process that holds the folder already."""
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(folder), str(seconds)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    return child


def end(child: "subprocess.Popen[str]") -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


def test_a_second_writer_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    base, grid = small(), SweepConfig(small(), (5,), (), baseline=False)
    child = holder(tmp_path)
    try:
        # the kernel says which process it is: where /proc/locks is not there, nothing does
        which = rf"process {child.pid} of this machine, " if lock._LOCKS.exists() else ""
        who = rf"--out is {tmp_path}: another process writes to it \({which}"
        who += r"since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC\); wait for it or stop it, or choose"
        with pytest.raises(UsageError, match=who):
            run(base, tmp_path)
        with pytest.raises(UsageError, match=who):
            sweep(grid, tmp_path)
        assert os.listdir(tmp_path) == [lock.LOCK_FILE]  # nothing was written
    finally:
        end(child)
    # a kill leaves its file, which says nothing of the machine, and nobody is locked out
    assert (tmp_path / lock.LOCK_FILE).read_bytes() == b""
    assert run(base, tmp_path).summary["status"] == "done"
    assert lock.LOCK_FILE not in os.listdir(tmp_path)


def test_the_lock_is_free_after_whatever_ended_the_block(tmp_path: Path) -> None:
    with pytest.raises(KeyError), lock.locked(tmp_path):
        with pytest.raises(UsageError, match="another process writes"), lock.locked(tmp_path):
            pass
        raise KeyError
    with lock.locked(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_cell_waits_for_the_worker_of_a_sweep_that_was_killed(tmp_path: Path) -> None:
    cell = tmp_path / "cells" / "one"
    cell.mkdir(parents=True)
    child = holder(cell, 1.0)
    run_here([("one", small(), cell)], None)
    assert json.loads((cell / "summary.json").read_text())["status"] == "done"
    end(child)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--out is .*/file/out: cannot be written"):
        run(small(), tmp_path / "file" / "out")


def test_what_a_killed_writer_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    (tmp_path / ".0011.part").write_bytes(b"half")
    (tmp_path / ".0022.part").mkdir()  # a checkpoint, which a run looks at itself
    with replacing(tmp_path / "a") as file:
        with lock.locked(tmp_path):
            assert len([*tmp_path.glob(".*.part")]) == 2 and not (tmp_path / ".0011.part").exists()
        file.write(b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole" and (tmp_path / ".0022.part").is_dir()
