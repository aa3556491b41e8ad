"""Ctrl-C while clients train on threads, and while cells run on Ray: one line and code 130."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.markdown import ROOT

LINE = (
    "fedsim: stopped; the same command goes on: a run from its last checkpoint (one every 20 s), "
    "or from its start where there is none yet"
)


def stopped(pattern: str, out: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A command that is interrupted, its whole group as by a terminal, once a file is there."""
    child = subprocess.Popen(
        [sys.executable, "-m", "fedsim", *arguments, "--out", str(out)],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 300
    while not list(out.glob(pattern)):
        assert child.poll() is None and time.monotonic() < until, child.communicate()
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGINT)
    return child


LONG = ("--iterations", "100000", "--temporal", "5", "--checkpoint-every", "5")


@pytest.mark.slow
@pytest.mark.processes
def test_a_run_on_threads(tmp_path: Path) -> None:
    child = stopped("checkpoint-*", tmp_path, "run", *LONG, "--workers", "2")
    out, err = child.communicate(timeout=300)
    assert (child.returncode, out, err) == (130, "", LINE + "\n")
    assert list(tmp_path.glob("checkpoint-*")) and not (tmp_path / "summary.json").exists()


@pytest.mark.proof
@pytest.mark.processes
def test_a_sweep_of_two_jobs(tmp_path: Path) -> None:
    child = stopped(
        "cells/*/checkpoint-*", tmp_path, "sweep", *LONG, "--jobs", "2", "--gradient", "0.1,0.01",
        "--no-baseline",
    )  # fmt: skip
    out, err = child.communicate(timeout=300)
    assert (child.returncode, out) == (130, "") and err.splitlines()[0] == LINE
    assert "Traceback" not in err
