"""Ctrl-C, SIGTERM and SIGHUP: one line that says what is kept, the exit status, no process left."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from fedsim.commands.signals import resume_note
from fedsim.runs import checkpoint
from tests.support.commands import Typed
from tests.support.markdown import ROOT


def started(out: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "fedsim", *arguments, "--out", str(out)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def stopped(
    pattern: str, number: signal.Signals, out: Path, *arguments: str, group: bool = True
) -> tuple[int, str, str]:
    """Status and output of a command that gets a signal once a file is there.

    Its whole group gets it, as from a terminal, or the command alone. Nothing of the group is left.
    """
    child = started(out, *arguments)
    until = time.monotonic() + 300
    while not list(out.glob(pattern)):
        assert child.poll() is None and time.monotonic() < until, child.communicate()
        time.sleep(0.05)
    (os.killpg if group else os.kill)(child.pid, number)
    said, error = child.communicate(timeout=300)
    while True:  # the workers see that it is gone
        try:
            os.killpg(child.pid, 0)
        except ProcessLookupError:
            break
        assert time.monotonic() < until, "a process is left"
        time.sleep(0.05)
    return child.returncode, said, error


LONG = ("--iterations", "100000", "--temporal", "5", "--checkpoint-every", "5")


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    ("number", "group", "status"),
    [
        (signal.SIGINT, True, 130),
        (signal.SIGTERM, False, 143),
        (signal.SIGHUP, True, 129),
    ],
)
def test_a_run_with_workers(
    number: signal.Signals, group: bool, status: int, tmp_path: Path
) -> None:
    given = ("run", *LONG, "--workers", "2")
    code, out, err = stopped("checkpoint-*", number, tmp_path, *given, group=group)
    match = re.fullmatch(
        rf"fedsim: stopped by {number.name}; the same command goes on with round (\d+) "
        rf"\({tmp_path} keeps round (\d+)\)\n",
        err,
    )
    assert (code, out) == (status, "") and match, err
    found = checkpoint.load_checkpoint(tmp_path)
    assert found is not None and found.round == int(match[2]) == int(match[1]) - 1
    assert not (tmp_path / "summary.json").exists() and not [*tmp_path.rglob("*.part")]


@pytest.mark.slow
@pytest.mark.processes
def test_without_a_checkpoint_none_is_promised(tmp_path: Path) -> None:
    given = ("run", "--iterations", "100000", "--temporal", "5")  # a checkpoint every 20 seconds
    code, _, err = stopped("config.toml", signal.SIGTERM, tmp_path, *given)
    line = f"goes on with round 1 ({tmp_path} keeps no checkpoint)\n"
    assert code == 143 and err.endswith(line)


@pytest.mark.slow
@pytest.mark.processes
def test_a_search_keeps_its_trials(tmp_path: Path) -> None:
    given = ("search", "--task", "digits", "--budget", "100kbit", "--iterations", "100",
             "--trials", "99", "--seeds", "1")  # fmt: skip
    code, _, err = stopped("cells/*/summary.json", signal.SIGTERM, tmp_path, *given, group=False)
    assert code == 143 and not [*tmp_path.rglob("*.part")]
    assert re.search(rf"SIGTERM; .* goes on \({tmp_path} keeps \d+ finished runs? and no c", err)


@pytest.mark.proof
@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_sweep_of_two_jobs(number: signal.Signals, tmp_path: Path) -> None:
    code, out, err = stopped(
        "cells/*/checkpoint-*",
        number,
        tmp_path,
        "sweep",
        *LONG,
        "--jobs",
        "2",
        "--gradient",
        "0.1,0.01",
        "--no-baseline",
    )
    assert (code, out) == (128 + number, "") and "Traceback" not in err
    assert re.search(rf"{number.name}; .*keeps no finished run and [12] checkpoints?\)", err)


def test_what_a_folder_keeps(tmp_path: Path) -> None:
    one = tmp_path / "one"
    (one / "checkpoint-00000").mkdir(parents=True)  # of clients that keep their memory themselves
    (one / "config.toml").touch()
    assert resume_note(one) == f" with round 1 ({one} keeps no checkpoint)"
    (one / "checkpoint-00035").mkdir()
    (one / ".checkpoint-00040").mkdir()  # is being written
    assert resume_note(one) == f" with round 36 ({one} keeps round 35)"
    for name, status in (("a", "done"), ("b", "failed"), ("c", None)):
        (tmp_path / "cells" / name).mkdir(parents=True)
        if status:
            summary = tmp_path / "cells" / name / "summary.json"
            summary.write_text(json.dumps({"status": status}))
    (tmp_path / "cells" / "c" / "checkpoint-00002").mkdir()
    assert resume_note(tmp_path) == f" ({tmp_path} keeps 1 finished run and 1 checkpoint)"


def test_a_command_without_runs_promises_nothing(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr("fedsim.runs.machine.machine", lambda: os.kill(os.getpid(), signal.SIGTERM))
    said = typed("doctor")
    assert (said.code, said.out, said.err) == (143, "", "fedsim: stopped by SIGTERM\n")
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_under_nohup_a_run_goes_on(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hung_up = partial(os.kill, os.getpid(), signal.SIGHUP)
        monkeypatch.setattr("fedsim.runs.machine.machine", lambda: [hung_up()][1:])
        assert typed("doctor").code == 0
    finally:
        signal.signal(signal.SIGHUP, before)
