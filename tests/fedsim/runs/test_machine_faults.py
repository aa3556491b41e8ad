"""Faults of a machine, each once and for real: a disk that is full, no shared memory, no memory."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from fedsim import RunConfig, SweepConfig, run, sweep
from fedsim.search.search import search
from fedsim.tasks.base import cross_entropy
from tests.support.faults import told
from tests.support.markdown import ROOT
from tests.support.runs import assert_same

UNSHARE = ("unshare", "-m") if os.getuid() == 0 else ("unshare", "-Urm")


def mounts() -> bool:
    """Whether this process may mount a small file system that no other process sees."""
    if shutil.which("unshare") is None:
        return False
    tried = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/dev/shm"]
    return subprocess.run(tried, capture_output=True).returncode == 0


alone = pytest.mark.skipif(not mounts(), reason="no file system can be mounted here")


def shell(script: str) -> "subprocess.CompletedProcess[str]":
    """Runs a script that may mount file systems of its own; fails where a line of it does."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*UNSHARE, "sh", "-ec", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def command(*arguments: object) -> str:
    return shlex.join([sys.executable, "-m", "fedsim", *map(str, arguments)])


def fills(disk: Path, kibibytes: int, typed: str, kept: Path) -> str:
    """Types a command on a small disk, and again on a larger one; returns what the first said."""
    disk.mkdir()
    done = shell(
        f"mount -t tmpfs -o size={kibibytes}k none {disk}\n"
        f"if {typed}; then echo it fits >&2; exit 9; else test $? = 1; fi\n"
        f"mount -o remount,size=64m {disk}\n{typed} 2>/dev/null\ncp -r {disk}/out {kept}\n"
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


SAID = "cannot be written (No space left on device); once it can be, the same command resumes"


@alone
@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("kind", ["sweep", "search"])
def test_a_disk_that_is_full(kind: str, tmp_path: Path) -> None:
    disk, kept, whole = tmp_path / "disk", tmp_path / "kept", tmp_path / "whole"
    if kind == "sweep":
        typed = command(
            "sweep",
            "--temporal",
            5,
            "--gradient",
            "0.1,0.01",
            "--no-baseline",
            "--iterations",
            20,
            "--out",
            disk / "out",
        )
        said = fills(disk, 250, typed, kept)
        sweep(
            SweepConfig.of(temporal=[5], gradient=[0.1, 0.01], baseline=False, iterations=20),
            whole,
            jobs=1,
        )
    else:
        typed = command("search", "--task", "digits", "--budget", "20kbit", "--iterations", 20,
                        "--trials", 2, "--methods", "sbc,stc", "--seeds", 1,
                        "--out", disk / "out")  # fmt: skip
        said = fills(disk, 200, typed, kept)
        search(
            RunConfig.of(task="digits", method="raw", temporal=1, iterations=20),
            whole,
            budget="20kbit",
            trials=2,
            methods="sbc,stc",
            seeds=1,
            say=lambda line: None,
        )
    assert SAID in said.splitlines()[-1] and str(disk / "out") in said
    cells = sorted(path.name for path in (whole / "cells").iterdir())
    assert cells == sorted(path.name for path in (kept / "cells").iterdir()) and len(cells) >= 2
    for name in cells:
        assert_same(whole / "cells" / name, kept / "cells" / name)
    told("disk full", kind, 1)


@alone
@pytest.mark.slow
@pytest.mark.processes
def test_no_shared_memory(tmp_path: Path) -> None:
    settings = ("--iterations", 20, "--temporal", 5, "--gradient", 0.1)
    one = command("run", *settings, "--workers", 2, "--out", tmp_path / "run")
    two = command(
        "sweep", *settings, "--no-baseline", "--seeds", 2, "--jobs", 2, "--out", tmp_path / "sweep"
    )
    done = shell(
        "mount -t tmpfs -o size=8k none /dev/shm\n"
        "dd if=/dev/zero of=/dev/shm/full bs=4k 2>/dev/null || true\n"
        f"test $(df --output=avail /dev/shm | tail -1) = 0\n{one}\n{two}\n"
    )
    assert done.returncode == 0, done.stderr
    run(RunConfig.of(iterations=20, temporal=5, gradient=0.1), tmp_path / "whole")
    assert_same(tmp_path / "whole", tmp_path / "run")
    assert_same(tmp_path / "whole", tmp_path / "sweep" / "cells" / "n5-p0.1-s0")
    told("shared memory full", "a run with two workers, a sweep of two jobs", 2)


def test_a_worker_without_memory_for_a_batch(make_task: Any, tmp_path: Path) -> None:
    here, once = os.getpid(), tmp_path / "once"

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if os.getpid() != here:
            try:
                once.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                raise MemoryError("no room for the batch")
        return cross_entropy(outputs, targets)

    config = RunConfig.of(task=make_task(loss=loss).name, temporal=3, workers=2)
    summary = run(config, tmp_path / "run", progress=False).summary
    assert once.exists()
    assert (summary["status"], summary["failures"]) == ("done", 1)
    trace = (tmp_path / "run" / "client-errors.txt").read_text()
    assert trace.rstrip().endswith("MemoryError: no room for the batch")
    told("MemoryError in a worker", "one of two", 1, "its update")
