"""A deployment whose programs are stand-ins: what is told where one ends, and who is stopped."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.common.config import parse_config_args

from fedsim import RunFailed, UsageError
from fedsim.engines.deploy import Deployment, ports, programs
from fedsim.engines.deploy.clientapp import ask, become, listening
from fedsim.engines.deploy.processes import Group
from tests.support.markdown import ROOT

_LISTENS = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    time.sleep(60)
"""


def waits(*_: Any) -> list[str]:
    return ["sleep", "60"]


def listens(port: int, *_: Any) -> list[str]:
    return [sys.executable, "-S", "-c", _LISTENS, str(port)]


def imports(socket: Path) -> list[str]:
    return ["sh", "-c", f"touch '{socket}'; sleep 60"]


def registers(*_: Any) -> list[str]:
    return ["sh", "-c", "echo SuperNode ID: 7; sleep 60"]


def breaks(*_: Any) -> list[str]:
    return ["sh", "-c", "sleep 0.5; echo starting; echo the disk is full >&2; exit 5"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Group]:
    """Every group that is started, of programs that do nothing."""
    groups: list[Group] = []
    init = Group.__init__

    def noted(self: Group, *given: Any) -> None:
        init(self, *given)
        groups.append(self)

    monkeypatch.setattr(Group, "__init__", noted)
    for name, command in {
        "superlink": listens,
        "superexec": waits,
        "warm": imports,
        "supernode": registers,
    }.items():
        monkeypatch.setattr(programs, name, command)
    return groups


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "called"), [("supernode", "SuperNode 0"), ("warm", "the clients")]
)
def test_a_program_that_ends_at_its_start_is_told_of_and_all_are_stopped(
    started: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, called: str
) -> None:
    monkeypatch.setattr(programs, name, breaks)
    with pytest.raises(RunFailed, match=rf"(?s){called}.*exit code 5\):.*the disk is full"):
        Deployment(1, tmp_path).__enter__()
    assert len(started) == 4 and not any(group.alive for group in started)


@pytest.mark.slow
def test_a_node_that_never_registers_is_told_of(
    started: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "supernode", waits)
    monkeypatch.setattr("fedsim.engines.deploy.deployment.START_SECONDS", 0.3)
    with pytest.raises(RunFailed, match="SuperNode 0 is not ready after 0.3 s"):
        Deployment(1, tmp_path).__enter__()
    assert not any(group.alive for group in started)


def test_a_start_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(programs, "write_shim", full)
    federation = Deployment(1, tmp_path)
    with pytest.raises(OSError, match="No space left"):
        federation.__enter__()
    assert not federation.private.exists()


@pytest.mark.slow
def test_sigterm_stops_all(started: list[Group], tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray may have left an answer of its own
    try:
        with pytest.raises(KeyboardInterrupt), Deployment(1, tmp_path):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(10)
        assert not any(group.alive for group in started)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.slow
def test_rounds_and_ended_nodes_are_told_while_the_app_runs(
    started: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = "echo noise; echo 'round 1/2 · x'; sleep 0.5; echo 'round 2/2 · y'"
    monkeypatch.setattr(programs, "find", lambda name: _script(tmp_path, follow))
    lines: list[str] = []
    with Deployment(2, tmp_path / "out") as federation:
        federation.nodes[1].process.kill()
        federation.run({"temporal": 5}, tmp_path / "out", lines.append)
        assert sorted(federation.nodes) == [0]
    assert [line for line in lines if line[:5] == "round"] == ["round 1/2 · x", "round 2/2 · y"]
    (ended,) = [line for line in lines if line[:5] != "round"]
    assert ended.startswith("SuperNode 1 was killed (SIGKILL); its log: ")


@pytest.mark.slow
def test_an_app_that_is_gone_without_results_is_noticed(
    started: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.engines.deploy.deployment._GONE_SECONDS", 0.3)
    monkeypatch.setattr(programs, "find", lambda name: _script(tmp_path, "sleep 60"))
    told = iter([False, True, True, False, True])
    with (
        Deployment(1, tmp_path / "out") as federation,
        pytest.raises(RunFailed, match=r"the server's app was killed; its log: .*superexec.log"),
    ):
        federation.run({}, tmp_path / "out", print, lambda: next(told, False))
    assert next(told, None) is None  # it came back once, as one that was only slow


@pytest.mark.slow
def test_a_run_that_is_refused_is_told_of(
    started: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "find", lambda name: _script(tmp_path, "echo no; exit 1"))
    with (
        Deployment(1, tmp_path / "out") as federation,
        pytest.raises(RunFailed, match=r"(?s)`flwr run` failed:.*no"),
    ):
        federation.run({}, tmp_path / "out", print)


def test_what_runs_sent_is_told_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic = [{"inbound-bytes": n, "outbound-bytes": n + 1} for n in (30, 10)]
    runs = [{"pending-at": f"2026-0{9 - i}", "network-traffic": x} for i, x in enumerate(traffic)]
    printed = json.dumps({"runs": runs})
    monkeypatch.setattr(programs, "find", lambda name: _script(tmp_path, f"echo '{printed}'"))
    federation = Deployment(1, tmp_path)
    federation.private = tmp_path
    assert federation.traffic() == [{"up": 10, "down": 11}, {"up": 30, "down": 31}]


def _script(folder: Path, text: str) -> str:
    program = folder / "program"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o700)
    return str(program)


def test_a_taken_port_is_refused_before_anything_starts(
    started: list[Group], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port is {port}: another process listens there"):
            Deployment(1, tmp_path, port=port)
    assert not started


def test_the_shim_hands_over_and_waits(tmp_path: Path) -> None:
    """The program in Flower's place: arguments and output arrive; the end of the work ends it.

    The socket's path is longer than the 107 bytes that a bound path may have, as under a long
    TMPDIR.
    """
    folder = tmp_path / ("long-" * 30)
    folder.mkdir()
    programs.write_shim(tmp_path / "bin", folder / "s")
    with listening(str(folder / "s")) as server:
        shim = subprocess.Popen(
            [tmp_path / "bin" / "flwr-clientapp", "--token", "a b"], stdout=subprocess.PIPE
        )
        connection, _ = server.accept()
        told, files, _, _ = socket.recv_fds(connection, 1 << 16, 2)
        os.write(files[0], b"from the child")
        for file in files:
            os.close(file)
        assert b'"arguments": ["--token", "a b"]' in told and shim.poll() is None
        connection.close()
    assert shim.wait(10) == 0 and shim.stdout is not None
    assert shim.stdout.read() == b"from the child"
    shim.stdout.close()


def test_the_child_becomes_the_program_that_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it asks is longer than one read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THE_PROGRAM", "x" * 200_000)
    with listening(str(tmp_path / "s")) as server:
        if (child := os.fork()) == 0:
            try:
                signal.alarm(10)
                os.environ.clear()
                os.chdir("/")
                become(server.accept()[0])
                had = [sys.argv[1:], os.getcwd(), len(os.environ["OF_THE_PROGRAM"])]
                (tmp_path / "child").write_text(json.dumps(had))
            finally:
                os._exit(0)
        try:
            ask(str(tmp_path / "s"), ["--token", "a b"])
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert json.loads((tmp_path / "child").read_text()) == [
        ["--token", "a b"],
        str(tmp_path),
        200_000,
    ]


def test_the_child_ends_whose_program_is_gone_before_it_has_asked() -> None:
    left = iter([b": [", b""])  # asked once more, it would ask for ever
    gone: Any = SimpleNamespace(
        recvmsg=lambda *_: (b'{"arguments"', [], 0, None), recv=lambda _: next(left)
    )
    with pytest.raises(SystemExit):
        become(gone)


def test_programs_of_flower_know_this_fedsim_and_the_superlink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/modules")
    variables = programs.environment(tmp_path)
    assert variables["PYTHONPATH"] == os.pathsep.join([str(ROOT), "/modules"])
    programs.write_connection(Path(variables["FLWR_HOME"]), 9093)
    settings = tomllib.loads((tmp_path / "config.toml").read_text(encoding="utf-8"))["superlink"]
    assert settings[settings["default"]] == {"address": "127.0.0.1:9093", "insecure": True}


@pytest.mark.parametrize(
    "folder", ["/a b/ü", "/c=d, e", "/back\\slash", "/b\\n", '/"', "/'\"", "/x\\", "/\\u0041"]
)
def test_a_supernode_is_told_the_folder_as_it_is_called(folder: str) -> None:
    settings: dict[str, str | int] = {"partition-id": 0, "client-id": "0", "state-dir": folder}
    command = programs.supernode(1, 2, settings)
    assert parse_config_args([command[command.index("--node-config") + 1]]) == settings
    assert command[command.index("--superlink") + 1] == "127.0.0.1:1"


def test_free_ports_can_be_used_at_once() -> None:
    numbers = ports.free_ports(20)
    assert len(set(numbers)) == 20
    for number in numbers:
        ports.check_port(number, "--port")
