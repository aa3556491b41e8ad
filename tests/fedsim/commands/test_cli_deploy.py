"""``fedsim deploy``: what is refused before a process starts, and what is passed to the app."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict

import fedsim
from fedsim.commands.cli import parser
from fedsim.results.schema import write_run
from fedsim.runs import lock
from fedsim.runs.app import config_of
from tests.support.commands import Typed
from tests.support.runs import small


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is started fails the test."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("subprocess.Popen", refuse)


def test_a_finished_folder_starts_nothing(
    nothing_starts: None, no_page: None, typed: Typed, tmp_path: Path
) -> None:
    fedsim.run(small(clients=2), tmp_path)
    flags = ["--clients", "2", "--method", "sbc(0.05)", "--temporal", "5", "--iterations", "20"]
    said = typed("deploy", *flags, "--out", str(tmp_path))
    assert said.code == 0 and f"Results: {tmp_path}" in said.out
    said = typed("deploy", "--clients", "3", "--out", str(tmp_path))
    assert said.code == 2 and "iterations 20 there, 1200 here" in said.err


def test_what_is_in_use_or_taken_is_refused(
    nothing_starts: None, typed: Typed, tmp_path: Path
) -> None:
    with lock.locked(tmp_path):
        said = typed("deploy", "--out", str(tmp_path))
    assert said.code == 2 and "another process writes to it" in said.err
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = typed("deploy", "--port", str(port), "--out", str(tmp_path))
    assert said.code == 2 and f"--port is {port}: another process listens there" in said.err


@pytest.mark.parametrize(
    "flags", [["--workers", "2"], ["--engine", "flower"], ["--track", "tensorboard"]]
)
def test_settings_of_other_engines_are_not_flags(typed: Typed, flags: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parser().parse_args(["deploy", *flags])
    assert end.value.code == 2


def test_settings_of_other_engines_are_refused_in_a_file(
    nothing_starts: None, typed: Typed, tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text("machine.workers = 2\n")
    said = typed("deploy", "--config", str(tmp_path / "run.toml"), "--out", str(tmp_path / "out"))
    assert said.code == 2 and "workers is not a setting of `fedsim deploy`" in said.err


class Deployed:
    """A deployment without processes: ``app`` is what the app does in its folder."""

    def __init__(self, app: Callable[[dict[str, Any], Path], None], said: str = "") -> None:
        self.app, self.said, self.port = app, said, 1

    def __call__(self, clients: int, out: Path, port: int) -> "Deployed":
        return self

    def __enter__(self) -> "Deployed":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, settings: dict[str, Any], out: Path, tell: Any, at_work: Any) -> "Deployed":
        assert not at_work()
        with lock.locked(out):
            assert at_work()
        self.app(settings, out)
        return self

    def last_lines(self) -> str:
        return self.said


def test_the_app_has_the_settings_of_the_flags(
    monkeypatch: pytest.MonkeyPatch, typed: Typed, tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text(
        'stop-at-bits = "2Mbit"\n[training]\nbatch-size = 5\n[machine]\nengine = "local"\n'
    )
    given = (
        "deploy --clients 4 --seed 0 --momentum 0 --gradient 0.02 --iterations 30 "
        "--partition dirichlet(0.3) --keep-payloads"
    )
    seen: list[fedsim.RunConfig] = []

    def app(settings: dict[str, Any], out: Path) -> None:
        seen.append(config_of(Context(1, 0, {}, RecordDict(), settings | {"out": "x"})))

    monkeypatch.setattr("fedsim.engines.deploy.Deployment", Deployed(app))
    file, out = str(tmp_path / "run.toml"), str(tmp_path / "out")
    typed(*given.split(), "--config", file, "--out", out)
    asked = fedsim.RunConfig(
        clients=fedsim.Clients(4, partition="dirichlet(0.3)"),
        seed=0,
        gradient=0.02,
        iterations=30,
        stop_at_bits="2Mbit",
        training=fedsim.Training(momentum=0, batch_size=5),
        keep=fedsim.Keep(payloads=True),
        machine=fedsim.Machine(engine="flower"),
    )
    assert seen == [asked]


def test_what_the_app_left_is_judged(
    monkeypatch: pytest.MonkeyPatch, typed: Typed, tmp_path: Path
) -> None:
    def fails(settings: dict[str, Any], out: Path) -> None:
        with pytest.raises(fedsim.RunFailed):
            fedsim.run(small(clients=2, lr=1e30), out)

    flags = ("deploy", "--clients", "2", "--out")
    silent = Deployed(lambda settings, out: None, "\n    oh")
    monkeypatch.setattr("fedsim.engines.deploy.Deployment", silent)
    said = typed(*flags, str(tmp_path / "silent"))
    assert said.code == 1 and "the app ended without results:\n    oh" in said.err
    assert said.err.endswith("the same command goes on with round 1\n")
    monkeypatch.setattr("fedsim.engines.deploy.Deployment", Deployed(fails))
    said = typed(*flags, str(tmp_path / "fails"))
    assert said.code == 1 and "the run failed: " in said.err and "learning rate" in said.err


def test_a_deployment_that_ends_well_tells_the_seconds_of_a_round(
    monkeypatch: pytest.MonkeyPatch, no_page: None, typed: Typed, tmp_path: Path
) -> None:
    def app(settings: dict[str, Any], out: Path) -> None:
        write_run(out, fedsim.run(small(clients=2), out).summary | {"seconds": 10.0})

    monkeypatch.setattr("fedsim.engines.deploy.Deployment", Deployed(app))
    said = typed("deploy", "--clients", "2", "--out", str(tmp_path))
    assert said.code == 0 and "\n2.5 s per round" in said.err


def test_a_deployment_that_dies_when_its_run_is_done_says_so_and_forgets(
    monkeypatch: pytest.MonkeyPatch, typed: Typed, tmp_path: Path
) -> None:
    def dies(settings: dict[str, Any], out: Path) -> None:
        fedsim.run(small(clients=2), out)
        (out / "nodes" / "0").mkdir(parents=True)
        raise fedsim.RunFailed("the SuperLink was killed")

    monkeypatch.setattr("fedsim.engines.deploy.Deployment", Deployed(dies))
    flags = (
        "deploy",
        "--clients",
        "2",
        "--method",
        "sbc(0.05)",
        "--temporal",
        "5",
        "--iterations",
        "20",
        "--out",
        str(tmp_path),
    )
    said = typed(*flags)
    assert said.code == 1 and said.err.endswith("the run is done: the same command shows it\n")
    assert typed(*flags).code == 0 and not (tmp_path / "nodes").exists()
