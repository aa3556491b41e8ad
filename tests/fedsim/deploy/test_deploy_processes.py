"""Processes of a deployment end on every path, with all that they started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedsim import RunFailed
from fedsim.engines.deploy.processes import Group, stop_all
from tests.support.markdown import ROOT

_FAMILY = "sleep 300 & echo child $!; wait"
_STUBBORN = "trap '' TERM; sleep 300 & echo child $!; wait"


def family(tmp_path: Path, script: str = _FAMILY) -> tuple[Group, int]:
    """A shell that has started a child, and the child's number."""
    group = Group("family", ["sh", "-c", script], tmp_path / "log", dict(os.environ))
    return group, child_of(tmp_path / "log")


def child_of(log: Path) -> int:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if log.exists() and (words := log.read_text().split())[-2:-1] == ["child"]:
            return int(words[-1])
        time.sleep(0.02)
    raise AssertionError("no child")


def gone(process: int) -> bool:
    """Whether it has ended; one that nobody has reaped is dead too."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_group_ends_with_its_children(tmp_path: Path, way: str) -> None:
    group, child = family(tmp_path)
    assert group.alive
    getattr(group, way)()
    assert not group.alive and gone(child)


@pytest.mark.slow
def test_children_end_whose_parent_has_ended(tmp_path: Path) -> None:
    group, child = family(tmp_path)
    os.kill(group.process.pid, signal.SIGKILL)
    stop_all([group])
    assert gone(child)


def test_what_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.engines.deploy.processes._GRACE_SECONDS", 0.3)
    group, child = family(tmp_path, _STUBBORN)
    group.stop()
    assert not group.alive and gone(child)


def test_a_process_that_is_killed_leaves_none_behind(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from pathlib import Path\n"
        "from fedsim.engines.deploy.processes import Group\n"
        f"Group('family', ['sh', '-c', {_FAMILY!r}], Path(sys.argv[1]), dict(os.environ))\n"
        "time.sleep(60)\n"
    )
    log = tmp_path / "log"
    parent = subprocess.Popen([sys.executable, "-c", script, str(log)], cwd=ROOT)
    child = child_of(log)
    parent.kill()
    parent.wait()
    assert gone(child)


def test_what_a_program_said_is_told_where_it_ends(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("of an earlier start\n")
    script = "echo one; echo; echo two >&2; exit 3"
    group = Group("it", ["sh", "-c", script], tmp_path / "log", dict(os.environ))
    group.join()
    assert group.process.returncode == 3 and group.has_printed("one")
    assert group.last_lines() == f"\n    one\n    two\n  all of it: {tmp_path / 'log'}"
    assert group.end() == f"it ended (exit code 3):{group.last_lines()}"
    new = Group("it", ["echo", "three"], tmp_path / "new", dict(os.environ))
    new.join()
    assert new.output() == "three\n" and new.end().startswith("it ended (exit code 0):")
    with pytest.raises(RunFailed, match="it cannot be started .nowhere: not found or not exec"):
        Group("it", ["nowhere"], tmp_path / "log", dict(os.environ))
    with pytest.raises(RunFailed, match="it cannot be started .*No such file.*no/log"):
        Group("it", ["sh"], tmp_path / "no" / "log", dict(os.environ))
