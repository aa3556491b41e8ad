"""A client that is late, on every engine: the same rounds, and nothing is lost."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from flwr.serverapp import Grid
from torch import Generator, Tensor, nn
from torch.optim import SGD

from fedsim import Data, RunConfig, Task, run
from fedsim.engines.flower_memory import CarryingGrid
from fedsim.engines.remote import RemoteGrid
from fedsim.tasks.base import correct, cross_entropy
from tests.support.hanging import LONG, asks
from tests.support.owntasks import X, Y
from tests.support.runs import assert_same, rounds

pytestmark = [pytest.mark.proof, pytest.mark.processes]
CLIENT = range(16, 32)  # the samples of client 1 of three, in one stretch each
SENT = "sent"  # a file, which is there when the run's server has sent its first messages


def drawn(folder: Path, index: Tensor, generator: Generator) -> Any:
    """A batch; client 1 waits in its second round until client 0 is in its third, which waits too.

    Some seconds are for the late answer's way to the server.
    """
    first = int(index[0])
    if not (folder.parent / SENT).exists():  # tried before the run
        return X[index], Y[index]
    with open(folder / f"calls-{first // 16}", "a") as file:
        file.write(".")
        calls = file.tell()
    if first in CLIENT and calls == 3:
        until(folder / "third round")
        (folder / "late").touch()
    if first < 16 and calls == 5:
        (folder / "third round").touch()
        until(folder / "late")
        time.sleep(5)
    return X[index], Y[index]


def until(file: Path) -> None:
    """Waits for it."""
    while not file.exists():
        time.sleep(0.1)


def given_up(monkeypatch: pytest.MonkeyPatch, grid: type[Grid], sent: Path) -> None:
    """The time of round 2, in which all workers are warm, is over when all have answered but client
    1; or, as Flower hands out what came at the end alone, after half a minute."""
    real = grid.send_and_receive

    def send(self: Grid, messages: Any, *, timeout: float | None = None) -> Iterator[Message]:
        asked = list(messages)
        sent.touch()
        left = sum(not asks(message, 1, 2) for message in asked)
        for reply in real(self, asked, timeout=LONG if left == len(asked) else 30.0):
            yield reply
            left -= 1
            if not left:
                return

    monkeypatch.setattr(grid, "send_and_receive", send)


def sleepy(folder: Path) -> Task:
    """A task whose second client is late once."""
    folder.mkdir()
    data = Data(X[:48], Y[:48], X[48:], Y[48:], "made up", draw=partial(drawn, folder))
    return Task(
        name="sleepy",
        build=lambda: nn.Linear(6, 3),
        load=lambda folder, download: data,
        optimizer=lambda parameters: SGD(parameters, lr=0.1, momentum=0.9),
        loss=cross_entropy,
        metric=correct,
        clients=3,
        batch_size=4,
        partition="contiguous",
        channels_last=False,
    )


def test_a_late_client_on_every_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for grid in (RemoteGrid, CarryingGrid):
        given_up(monkeypatch, grid, tmp_path / SENT)
    config = RunConfig.of(
        task=sleepy(tmp_path / "a"),
        method="sbc",
        gradient=0.2,
        temporal=2,
        iterations=10,
        min_replies=2,
        workers=3,
        keep_payloads=True,
    )
    run(config, tmp_path / "local")
    frame = rounds(tmp_path / "local")
    assert frame["failures"].tolist() == [0, 1, 1, 0, 0]
    assert frame["returned"].tolist() == [0, 0, 0, 1, 0]
    assert (frame["failed_up_bits"] > 0).tolist() == [False, False, True, False, False]
    for engine in ("ray", "flower"):
        (tmp_path / SENT).unlink()
        task = sleepy(tmp_path / f"on {engine}")
        run(config.but(task=task, engine=engine), tmp_path / engine)
        assert_same(tmp_path / "local", tmp_path / engine)
