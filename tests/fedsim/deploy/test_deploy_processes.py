"""Processes of a deployment end on every path, with all that they started."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsim import RunFailed
from fedsim.engines.deploy.processes import Group, Guard, stop_all
from tests.support.markdown import ROOT

_FAMILY = "sleep 60 & echo child $!; wait"
_STUBBORN = "trap '' TERM; sleep 60 & echo child $!; wait"


@pytest.fixture
def guard() -> Iterator[Guard]:
    """What ends our groups where this process cannot."""
    made = Guard()
    yield made
    made.close()


def family(tmp_path: Path, guard: Guard, script: str = _FAMILY) -> tuple[Group, int]:
    """A shell that has started a child, and the child's number."""
    group = Group("family", ["sh", "-c", script], tmp_path / "log", dict(os.environ), guard)
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
def test_a_group_ends_with_its_children(tmp_path: Path, guard: Guard, way: str) -> None:
    group, child = family(tmp_path, guard)
    assert group.alive
    getattr(group, way)()
    assert not group.alive and gone(child)


@pytest.mark.slow
def test_children_end_whose_parent_has_ended(tmp_path: Path, guard: Guard) -> None:
    group, child = family(tmp_path, guard)
    os.kill(group.process.pid, signal.SIGKILL)
    stop_all([group])
    assert gone(child)


def test_what_does_not_listen_is_killed(
    tmp_path: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.engines.deploy.processes._GRACE_SECONDS", 0.3)
    group, child = family(tmp_path, guard, _STUBBORN)
    group.stop()
    assert not group.alive and gone(child)


def started_by(code: str, log: Path) -> "subprocess.Popen[bytes]":
    """A process that has started a family and sleeps; ``code`` is run before."""
    script = (
        "import os, signal, sys, time; from pathlib import Path\n"
        "from fedsim.engines.deploy.processes import Group, Guard\n"
        f"{code}\n"
        f"command = ['sh', '-c', {_FAMILY!r}]\n"
        "private = Path(sys.argv[1] + '-private')\n"
        "private.mkdir()\n"
        "(private / 'file').touch()\n"
        "Group('family', command, Path(sys.argv[1]), dict(os.environ), Guard(private))\n"
        "time.sleep(60)\n"
    )
    return subprocess.Popen([sys.executable, "-c", script, str(log)], cwd=ROOT)


def test_a_process_that_is_killed_leaves_none_behind(tmp_path: Path) -> None:
    parent = started_by("", tmp_path / "log")
    child = child_of(tmp_path / "log")
    assert (tmp_path / "log-private" / "file").exists()
    parent.kill()
    parent.wait()
    assert gone(child)
    until = time.monotonic() + 60
    while (tmp_path / "log-private").exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_nothing_begins_of_which_the_guard_was_not_told(tmp_path: Path) -> None:
    """The process is killed after it has started the program, before it tells the guard."""
    code = (
        "def tell(self, sign, group):\n"
        "    Path(sys.argv[1] + '-group').write_text(str(group))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Guard.tell = tell"
    )
    assert started_by(code, tmp_path / "log").wait() == -signal.SIGKILL
    assert gone(int((tmp_path / "log-group").read_text()))
    assert (tmp_path / "log").read_text() == ""


def test_what_a_program_said_is_told_where_it_ends(tmp_path: Path, guard: Guard) -> None:
    (tmp_path / "log").write_text("of an earlier start\n")
    script = "echo one; echo; echo two >&2; exit 3"
    group = Group("it", ["sh", "-c", script], tmp_path / "log", dict(os.environ), guard)
    group.join()
    assert group.process.returncode == 3 and group.has_printed("one")
    assert group.last_lines() == f"\n    one\n    two\n  all of it: {tmp_path / 'log'}"
    assert group.end() == f"it ended (exit code 3):{group.last_lines()}"
    new = Group("it", ["echo", "three"], tmp_path / "new", dict(os.environ), guard)
    new.join()
    assert new.output() == "three\n" and new.end().startswith("it ended (exit code 0):")
    with pytest.raises(RunFailed, match="it cannot be started .nowhere: not found or not exec"):
        Group("it", ["nowhere"], tmp_path / "log", dict(os.environ), guard)
    with pytest.raises(RunFailed, match="it cannot be started .*No such file.*no/log"):
        Group("it", ["sh"], tmp_path / "no" / "log", dict(os.environ), guard)
