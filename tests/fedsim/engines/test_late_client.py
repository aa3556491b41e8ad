"""A client that is late, on the local engine and on Ray: the same rounds, and nothing is lost."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch import Generator, Tensor, nn
from torch.optim import SGD

from fedsim import Data, RunConfig, Task, run
from fedsim.tasks.base import correct, cross_entropy
from tests.support.owntasks import X, Y
from tests.support.runs import assert_same, rounds

pytestmark = [pytest.mark.proof, pytest.mark.processes]
CLIENT = range(16, 32)  # the samples of client 1 of three, in one stretch each


def drawn(folder: Path, seconds: float, index: Tensor, generator: Generator) -> Any:
    """A batch; client 1 sleeps in its second round, and client 0 in its third, until it woke."""
    first = int(index[0])
    with open(folder / f"calls-{first // 16}", "a") as file:
        file.write(".")
        calls = file.tell()
    if first in CLIENT and calls == 3:
        time.sleep(seconds)
        (folder / "woke").touch()
    if first < 16 and calls == 6:  # one call more: a batch is tried before the run
        while not (folder / "woke").exists():
            time.sleep(0.1)
        time.sleep(2)
    return X[index], Y[index]


def sleepy(folder: Path, seconds: float) -> Task:
    """A task whose second client is late once."""
    folder.mkdir()
    data = Data(X[:48], Y[:48], X[48:], Y[48:], "made up", draw=partial(drawn, folder, seconds))
    return Task(
        name="sleepy", build=lambda: nn.Linear(6, 3), load=lambda folder, download: data,
        optimizer=lambda parameters: SGD(parameters, lr=0.1, momentum=0.9), loss=cross_entropy,
        metric=correct, clients=3, batch_size=4, partition="contiguous", channels_last=False,
    )  # fmt: skip


def test_a_late_client_on_both_engines(tmp_path: Path) -> None:
    config = RunConfig.of(task=sleepy(tmp_path / "a", 12.0), method="sbc", gradient=0.2, temporal=2,
                       iterations=10, min_replies=2, timeout=10.0, workers=3, keep_payloads=True)
    run(config, tmp_path / "local")
    frame = rounds(tmp_path / "local")
    assert frame["failures"].tolist() == [0, 1, 1, 0, 0]
    assert frame["returned"].tolist() == [0, 0, 0, 1, 0]
    assert (frame["failed_up_bits"] > 0).tolist() == [False, False, True, False, False]
    late = config.but(task=sleepy(tmp_path / "b", 75.0), engine="flower", timeout=60.0)
    run(late, tmp_path / "flower")
    assert_same(tmp_path / "local", tmp_path / "flower")
