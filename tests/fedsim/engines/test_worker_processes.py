"""Clients in other processes: the same bits, a process that is lost takes nothing with it."""

import errno
import logging
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from asyncio import CancelledError
from collections.abc import Iterator
from copy import copy
from functools import partial
from pathlib import Path
from threading import Lock
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from fedsim import Federation, RunConfig, RunFailed, run
from fedsim.engines import processes
from fedsim.engines.processes import _Channel
from fedsim.federation.client_memory import InProcess
from fedsim.ground.errors import UsageError
from fedsim.runs.devices import worker_environment
from fedsim.tasks.base import cross_entropy
from tests.support.faults import told
from tests.support.hanging import LONG
from tests.support.killing import killed_once, killed_session
from tests.support.runs import assert_same, make_task, run_module

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


@pytest.fixture
def no_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are new processes, as on a GPU."""
    monkeypatch.setattr(run_module, "forks_train", lambda: False)


@pytest.mark.slow
@pytest.mark.usefixtures(no_forks.__name__)
def test_new_processes_train_with_the_bits_of_one_worker(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that no module holds goes with them, and each sees a GPU of its own."""
    here = os.getpid()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    of_gpu = partial(worker_environment, "cuda")
    monkeypatch.setattr(run_module.devices, "worker_environment", lambda _, number: of_gpu(number))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if os.getpid() != here:
            (tmp_path / f"gpu{os.environ['CUDA_VISIBLE_DEVICES']}").touch()
        return cross_entropy(outputs, targets)

    more = {"method": "ef(topk(0.2) | cnat)", "downlink": "sbc(0.5)", "temporal": 2}
    config = RunConfig.of(task=make_task(loss=loss).name, **more)
    run(config, tmp_path / "one", progress=False)
    assert not [*tmp_path.glob("gpu*")]
    run(config.but(workers=2), tmp_path / "two", progress=False)
    assert {path.name for path in tmp_path.glob("gpu*")} == {"gpu3", "gpu5"}
    assert_same(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.usefixtures(no_forks.__name__)
def test_a_task_that_a_new_process_cannot_import_is_refused(
    make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("nowhere")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("def loss(outputs, targets):\n    return (outputs**2).mean()", module.__dict__)
    config = RunConfig.of(task=make_task(loss=module.loss).name, workers=2)
    with pytest.raises(UsageError, match="--workers is 2: .*nowhere.*PYTHONPATH.*--workers 1"):
        Federation(config)


@pytest.mark.usefixtures(no_forks.__name__)
def test_a_task_that_cannot_travel_is_refused(make_task: Any) -> None:
    lock = Lock()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        with lock:
            return cross_entropy(outputs, targets)

    with pytest.raises(UsageError, match="--workers is 3: .*lock.*PYTHONPATH.*--workers 1"):
        Federation(RunConfig.of(task=make_task(loss=loss).name, workers=3))


def test_a_client_that_hangs_ends_with_the_timeout(make_task: Any) -> None:
    here = os.getpid()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if os.getpid() != here:
            time.sleep(LONG)
        return cross_entropy(outputs, targets)

    config = RunConfig.of(task=make_task(loss=loss).name, workers=2, timeout=0.1)
    with pytest.raises(RunFailed, match="no reply within the timeout"):
        run(config, progress=False)
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


def test_no_more_processes_than_clients_and_their_memory_goes_back(make_task: Any) -> None:
    def shared() -> list[str]:
        there = [file.resolve().name for file in Path("/proc/self/fd").iterdir()]
        return [name for name in there if name.startswith("memfd:fedsim")]

    with Federation(RunConfig.of(task=make_task().name, workers=16)) as federation:
        federation.round()
        assert len(multiprocessing.active_children()) == 3 and shared()
    assert not shared()  # a collection of what is not reached any more may be far


def test_processes_that_are_refused_are_told(
    make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, fork = iter(range(9)), os.fork

    def refused() -> int:
        if next(count) == 3:  # the first one tries whether a fork trains
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return fork()

    monkeypatch.setattr(os, "fork", refused)
    with pytest.raises(UsageError, match=r"--workers is 3: .* starts 2 processes.*temporarily"):
        Federation(RunConfig.of(task=make_task().name, workers=3))
    assert not multiprocessing.active_children()


EVERY = [(True, "written"), (True, "receive"), (False, "written"), (False, "receive")]
"""Where memory for a message is taken: in the server's process or another, and at which step."""


def refuse(
    monkeypatch: pytest.MonkeyPatch, where: list[tuple[bool, str]], once: Path | None = None
) -> None:
    """Memory for messages, always or once in each place."""
    own, mapped = os.getpid(), mmap.mmap

    def map_(file: int, size: int) -> mmap.mmap:
        place = (os.getpid() == own, sys._getframe(1).f_code.co_name)
        if place in where:
            try:
                if once is not None:
                    (once / f"{place}").touch(exist_ok=False)
                raise OSError(errno.ENOMEM, "Cannot allocate memory")
            except FileExistsError:
                pass
        return mapped(file, size)

    monkeypatch.setattr(processes, "mmap", SimpleNamespace(mmap=map_))


@pytest.mark.slow
@pytest.mark.parametrize("place", EVERY)
def test_memory_that_is_refused_for_messages_is_told(
    place: tuple[bool, str],
    make_task: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refuse(monkeypatch, [place])
    lost = place != (True, "written")  # of which nothing has reached a process
    with pytest.raises(RunFailed, match="OSError: .*Cannot allocate memory"):
        run(RunConfig.of(task=make_task().name, workers=2), progress=False)
    told_of = [r.getMessage() for r in caplog.records if "Cannot allocate" in r.getMessage()]
    assert len(told_of) == 2 * lost
    assert not multiprocessing.active_children()


def test_memory_that_is_refused_once_changes_no_number(
    make_task: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each time another process is lost, and one is left in the end."""
    (tmp_path / "refused").mkdir()
    refuse(monkeypatch, EVERY[1:], tmp_path / "refused")
    name = make_task(clients=4).name
    config = RunConfig.of(task=name, method="sbc(0.2)", temporal=3, workers=4)
    run(config, tmp_path / "four", progress=False)
    run(config.but(workers=1), tmp_path / "one", progress=False)
    assert_same(tmp_path / "four", tmp_path / "one")
    times = len(list((tmp_path / "refused").iterdir()))
    told("worker without memory for a message", "once in each place", times)


def test_a_disk_full_of_clients_memory_fails_one_client_and_no_process(
    make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    config = RunConfig.of(task=make_task().name, method="sbc(0.2)", workers=2)
    with Federation(config) as federation:
        with monkeypatch.context() as patch:
            patch.setattr(InProcess, "commit", full)
            with pytest.raises(RunFailed, match="No space left on device"):
                federation.round()
        assert len(multiprocessing.active_children()) == 2


@pytest.mark.slow
def test_a_client_may_start_processes_and_may_leave(make_task: Any) -> None:
    here = os.getpid()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if os.getpid() != here:
            child = multiprocessing.get_context("fork").Process(target=int)
            child.start()
            child.join()
            if leaves:
                sys.exit(3)
        return cross_entropy(outputs, targets)

    name, leaves = make_task(loss=loss).name, False
    config = RunConfig.of(task=name, workers=2, temporal=1, iterations=1)
    run(config, progress=False)
    leaves = True
    with pytest.raises(RunFailed, match=r"client \d: SystemExit: 3"):
        run(config, progress=False)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_client_whose_task_was_cancelled_has_failed(make_task: Any, workers: int) -> None:
    """Its error is no ``Exception``. A worker that it ended would answer nobody any more."""

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if cancelled:
            raise CancelledError("too late")
        return cross_entropy(outputs, targets)

    name, cancelled = make_task(loss=loss).name, False
    config = RunConfig.of(task=name, workers=workers, temporal=1, iterations=1, timeout=20)
    run(config, progress=False)
    cancelled = True
    with pytest.raises(RunFailed, match=r"client \d: .*CancelledError: too late"):
        run(config, progress=False)


@pytest.fixture
def ends(copies: bool) -> Iterator[tuple[_Channel, _Channel]]:
    """Of one way, as a fork makes them."""
    sends = _Channel(copies)
    receives = copy(sends)
    receives._file = os.fdopen(os.dup(sends._file.fileno()), "r+b", buffering=0)
    yield sends, receives
    sends.close()
    receives.close()


@pytest.mark.parametrize("copies", [False, True])
def test_values_come_as_they_went(ends: tuple[_Channel, _Channel]) -> None:
    (sends, receives), large = ends, os.urandom(1 << 16)
    image = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    tensors = [
        image,
        image.to(torch.bfloat16),
        torch.tensor(3),
        torch.empty(0, 2),
        torch.ones(1, 3) > 0,
        torch.arange(12.0).view(3, 4).T,
        torch.arange(6.0)[::2],
        torch.zeros(1).expand(3),
        torch.arange(5, dtype=torch.float64),
    ]
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


@pytest.mark.parametrize("copies", [True])
def test_what_was_copied_stays_as_it_came(ends: tuple[_Channel, _Channel]) -> None:
    sends, receives = ends
    sends.send(torch.ones(1000))
    first = receives.receive()
    sends.send(torch.zeros(1000))
    receives.receive()
    assert torch.equal(first, torch.ones(1000))


_RUN = """
import fedsim.runs.run as module
module.forks_train = lambda: {forks}
from fedsim import RunConfig, run
run(RunConfig.of(method="sbc(0.1)", iterations=10**6, temporal=5, workers=2), "out")
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("forks", [True, False])
def test_processes_end_with_a_run_that_is_killed(forks: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RUN.format(forks=forks)]
    child = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    started = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while len(workers := started.read_text().split()) < 2:
        assert child.poll() is None
        time.sleep(0.1)
    killed_session(child)
    while any(Path(f"/proc/{worker}").exists() for worker in workers):  # or the test hangs
        time.sleep(0.1)
