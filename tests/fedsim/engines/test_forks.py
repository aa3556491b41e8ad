"""Clients in forked processes: the same bits, a process that is lost takes nothing with it."""

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from copy import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedsim import Federation, RunConfig, RunFailed, run
from fedsim.engines.forks import _Way
from fedsim.tasks.base import cross_entropy
from tests.support.faults import told
from tests.support.killing import killed_once, killed_session
from tests.support.runs import assert_same, make_task

__all__ = ["make_task"]  # the fixture


@pytest.mark.parametrize(
    "more",
    [
        {"method": "sbc(0.05)", "downlink": "sbc(0.1)"},
        {"method": "ef(topk(0.1) | cnat)", "cohort": 2, "memory": "1KiB"},
        {"method": "sbc(0.1)", "downlink": "relay", "precision": "bfloat16"},
    ],
    ids=lambda more: more["method"],
)
def test_runs_end_with_the_bits_of_one_worker(more: dict[str, Any], tmp_path: Path) -> None:
    config = RunConfig.of(temporal=2, iterations=8, **more)
    run(config, tmp_path / "one", progress=False)
    run(config.but(workers=3), tmp_path / "three", progress=False)
    assert_same(tmp_path / "one", tmp_path / "three")
    assert not multiprocessing.active_children()


def test_a_federation_s_processes_end_with_it() -> None:
    with Federation(RunConfig.of(temporal=1, iterations=2, workers=2)) as federation:
        federation.round()
        assert len(multiprocessing.active_children()) == 2
    assert not multiprocessing.active_children()


def test_clients_train_in_other_processes_and_what_they_raise_is_told(make_task: Any) -> None:
    here = os.getpid()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if os.getpid() != here:
            raise ArithmeticError("it is too late")
        return cross_entropy(outputs, targets)

    config = RunConfig.of(task=make_task(loss=loss).name, workers=2)
    with pytest.raises(RunFailed, match=r"client \d: ArithmeticError: it is too late"):
        run(config, progress=False)
    run(config.but(workers=1), progress=False)


def test_another_process_does_what_a_lost_one_had(
    make_task: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if mortal and os.getpid() != here:
            killed_once(tmp_path / "killed")
        return cross_entropy(outputs, targets)

    here, mortal = os.getpid(), True
    config = RunConfig.of(task=make_task(loss=loss).name, method="sbc(0.2)", temporal=3, workers=2)
    with caplog.at_level(logging.WARNING, "fedsim"):
        run(config, tmp_path / "lost", progress=False)
    assert (tmp_path / "killed").exists()
    assert [r.getMessage() for r in caplog.records] == [
        "a process that trains clients ended with -9 (a signal, if below 0); 1 of 2 are left"
    ]
    mortal = False
    run(config.but(workers=1), tmp_path / "whole", progress=False)
    assert_same(tmp_path / "lost", tmp_path / "whole")
    told("worker killed", "one of two", 1)


def test_a_run_without_any_process_left_ends(make_task: Any) -> None:
    here = os.getpid()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return cross_entropy(outputs, targets)

    config = RunConfig.of(task=make_task(loss=loss).name, workers=2)
    with pytest.raises(RunFailed, match="all processes that train clients have ended"):
        run(config, progress=False)


def ends(copies: bool) -> tuple[_Way, _Way]:
    """Of one way, as a fork makes them."""
    sends = _Way(copies)
    receives = copy(sends)
    receives._file = os.fdopen(os.dup(sends._file.fileno()), "r+b", buffering=0)
    return sends, receives


@pytest.mark.parametrize("copies", [False, True])
def test_values_come_as_they_went(copies: bool) -> None:
    (sends, receives), large = ends(copies), os.urandom(1 << 16)
    image = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    tensors = [
        image, image.to(torch.bfloat16), torch.tensor(3), torch.empty(0, 2), torch.ones(1, 3) > 0,
        torch.arange(12.0).view(3, 4).T, torch.arange(6.0)[::2], torch.zeros(1).expand(3),
        torch.arange(5, dtype=torch.float64),
    ]  # fmt: skip
    seen = None
    for value in ([large, tensors, {"n": 1}], [large, b"short"], [os.urandom(1 << 20), large]):
        sends.send(value)
        came = receives.receive()
        for a, b in zip(value, came, strict=True):
            if a is not tensors:
                assert a == b and type(a) is type(b)
                continue
            for x, y in zip(a, b, strict=True):
                assert torch.equal(x, y) and x.dtype == y.dtype
                if x is image:
                    assert x.stride() == y.stride()
        if seen is not None and large in value[:1]:
            assert came[0] is seen  # it did not travel again
        seen = came[0]


def test_what_was_copied_stays_as_it_came() -> None:
    sends, receives = ends(copies=True)
    sends.send(torch.ones(1000))
    first = receives.receive()
    sends.send(torch.zeros(1000))
    receives.receive()
    assert torch.equal(first, torch.ones(1000))


_RUN = """
from fedsim import RunConfig, run
run(RunConfig.of(method="sbc(0.1)", iterations=10**6, temporal=5, workers=2), "out")
"""


@pytest.mark.slow
@pytest.mark.processes
def test_processes_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RUN]
    child = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    while len(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()) < 2:
        assert child.poll() is None
        time.sleep(0.1)
    killed_session(child)
