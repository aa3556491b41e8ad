"""Stacks that cannot be, and a device on which they do not fit."""

import gc
import logging
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from compressors import State
from fedsim import Machine, RunConfig, UsageError, run
from fedsim.federation import stackable
from fedsim.federation.clientdata import ClientData
from fedsim.federation.stackable import fit_of
from fedsim.federation.stacks import Stack, stack_of
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import DeviceFull, RunFailed
from fedsim.tasks import Dropout
from strategies import ClientEnd, TrainJob, TrainResult
from tests.support.runs import make_task

__all__ = ["make_task"]  # the fixture

FULL = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 1.20 GiB is free. Process 7 has 77 GiB in use."
)


class Drawing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(functional.dropout(x, 0.5, self.training))
        return out


class Asking(Drawing):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return -out if float(out.detach().sum()) > 0 else out


class Mixing(Drawing):
    """As a layer that looks at all clients at once would be wrong: its numbers are others."""

    def forward(self, x: Tensor) -> Tensor:
        scale = 1.0 if torch._C._functorch.maybe_current_level() is None else 1.5
        out: Tensor = scale * self.layer(x)
        return out


def lbfgs(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.LBFGS(parameters)


def hooked(parameters: Any) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: None)
    return optimizer


def hooked_after(parameters: Any) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    optimizer.register_step_post_hook(lambda *_: None)
    return optimizer


def patched(parameters: Any) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    optimizer.step = optimizer.step  # type: ignore[method-assign]
    return optimizer


def clipped() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 3))
    model[0].weight.register_hook(lambda gradient: gradient.clamp(-9, 9))
    return model


CANNOT: list[tuple[dict[str, Any], str]] = [
    ({"build": Drawing}, "vmap: called random operation"),
    ({"build": Asking}, r"vmap: .*\.item\(\)"),
    ({"build": Mixing}, "differs where clients train at once"),
    ({"build": lambda: nn.Sequential(nn.Linear(6, 3), Dropout(0.5))}, "dropout draws its masks"),
    ({"optimizer": hooked}, "a hook before the optimizer's steps"),
    ({"optimizer": hooked_after}, "a hook after the optimizer's steps"),
    ({"optimizer": patched}, r"the optimizer's own step\(\)"),
    ({"build": clipped}, "a hook on the gradient of '0.weight'"),
    ({"optimizer": lbfgs}, "LBFGS is not known to work entry by entry"),
]


@pytest.mark.parametrize(("fields", "why"), CANNOT)
def test_what_cannot_be_stacked_is_refused(fields: Any, why: str, make_task: Any) -> None:
    config = RunConfig(task=make_task(**fields).name, method="raw", machine=Machine(stack="2"))
    with pytest.raises(UsageError, match=f"--stack is 2: task .* cannot be stacked: .*{why}"):
        fit_of(config)


def test_auto_says_so_once_and_trains_one_by_one(
    make_task: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = RunConfig(task=make_task(build=Drawing).name, method="raw", temporal=4)
    auto = RunConfig.of(**{**plain.flat(), "stack": "auto"})
    with caplog.at_level(logging.WARNING, "fedsim"):
        one = run(plain, tmp_path / "plain", progress=False).summary
        other = run(auto, tmp_path / "auto", progress=False).summary
    told = [r.getMessage() for r in caplog.records if "--stack" in r.getMessage()]
    assert len(told) == 1 and "cannot be stacked" in told[0]
    assert one["loss"] == other["loss"]


def test_auto_stacks_dense_layers_of_small_models(
    make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fit_of(RunConfig.of(task=make_task().name, method="raw", stack="auto")).width == 32
    assert fit_of(RunConfig.of(task="digits", stack="auto")).width == 1  # convolutions lose
    monkeypatch.setattr(stackable, "AT_MOST", 40)
    assert fit_of(RunConfig.of(task=make_task().name, method="raw", stack="auto")).width == 1


@pytest.mark.parametrize("value", ["0", "-2", "2.5", "many", ""])
def test_what_stack_takes(value: str) -> None:
    with pytest.raises(UsageError, match=f"--stack is '{value}': give a number above 0, or auto"):
        RunConfig(machine=Machine(stack=value))


def test_a_worker_on_ray_is_handed_one_message_at_a_time() -> None:
    with pytest.raises(UsageError, match="--stack is 2: it goes with --engine local"):
        RunConfig(machine=Machine(engine="ray", stack="2"))
    assert fit_of(RunConfig(machine=Machine(engine="ray", stack="auto"))).width == 1


def test_the_name_of_a_run_tells_whether_clients_trained_at_once() -> None:
    plain, stacked = RunConfig(), RunConfig(machine=Machine(stack="4"))
    assert "stack" not in plain.identity() and stacked.identity()["stack"] == "4"
    assert plain.digest == RunConfig(machine=Machine(stack="1")).digest != stacked.digest


def full_above(most: int, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A device with room for so many clients; the sizes of the stacks that were tried."""
    tried: list[int] = []
    gradients = stack._gradients

    def step(weights: Any, buffers: Any, x: Tensor, y: Tensor) -> Any:
        tried.append(len(x))
        if len(x) > most:
            raise torch.cuda.OutOfMemoryError(FULL)
        return gradients(weights, buffers, x, y)

    monkeypatch.setattr(stack, "_gradients", step)
    return tried


def jobs_of(stack: Stack) -> list[TrainJob]:
    weights = {n: p.detach().clone() for n, p in stack.trainer.parameters.items()}
    clients = range(stack.trainer.config.plan.clients)
    return [TrainJob(client, weights, {}, 0, 1, {}, 0) for client in clients]


@pytest.mark.parametrize(
    ("step", "room", "width", "turns"),
    [(7.9, 8, 32, 5), (8.1, 8, 1, 5), (3.9, 4, 4, 5), (4.1, 5, 1, 5), (0.1, 1, 1, 0)],
)
def test_elsewhere_auto_stacks_what_gains_by_the_clock(
    step: float, room: int, width: int, turns: int, make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client's step takes a second and a stack of all ``step``; no more than ``room`` fit."""
    now, real, times = [0.0], stackable.gradients_of, [0]

    def gradients_of(*given: Any) -> stackable.Gradients:
        step_of = real(*given)

        def stepped(weights: State, buffers: State, x: Tensor, y: Tensor) -> Any:
            if len(compared) < 2:  # two clients, then five, as one by one
                compared.append(len(x))
            elif len(x) > room:
                raise torch.cuda.OutOfMemoryError(FULL)
            else:
                times[0] += 1
                now[0] += step + 100 * (times[0] == 1)  # the first one does not count
            return step_of(weights, buffers, x, y)

        compared: list[int] = []
        return stepped

    def alone(trial: Any, i: int) -> Tensor:
        now[0] += 1.0
        return one(trial, i)

    one = stackable._Trial._single
    monkeypatch.setattr(stackable._Trial, "_single", alone)
    monkeypatch.setattr(stackable, "gradients_of", gradients_of)
    monkeypatch.setattr(stackable, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(stackable, "RULED", ())
    config = RunConfig.of(task=make_task(clients=8).name, method="raw", clients=8, stack="auto")
    assert (fit_of(config).width, times[0]) == (width, turns)


def test_auto_shrinks_until_the_stack_fits(
    make_task: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = RunConfig.of(task=make_task(clients=6).name, method="raw", clients=6, stack="auto")
    stack = stack_of(config)
    tried, jobs = full_above(2, stack, monkeypatch), jobs_of(stack)
    found = stack.train(jobs)
    assert tried == [6, 3, 2, 2, 2, 2]  # of each 3, two and one beside itself
    alone = Trainer(config, ClientData.of(config))
    for job, one in zip(jobs, found, strict=True):
        assert isinstance(one, TrainResult)
        expected = alone.train(*job).update
        for name, x in one.update.items():
            torch.testing.assert_close(x, expected[name], rtol=2e-4, atol=2e-6)
    tried.clear()
    stack.train(jobs)
    assert tried == [2, 2, 2]  # it remembers
    assert "20.00 GiB more needed" in caplog.text and "2 at once from here on" in caplog.text


def test_what_did_not_fit_is_free_before_fewer_are_tried(
    make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stack that failed no tensor is left: neither error of the chain holds a frame."""
    config = RunConfig.of(task=make_task(clients=8).name, method="raw", clients=8, stack="auto")
    stack = stack_of(config)
    gradients, made, alive = stack._gradients, list[weakref.ref[Tensor]](), list[int]()

    def step(weights: Any, buffers: Any, x: Tensor, y: Tensor) -> Any:
        alive.append(sum(one() is not None for one in made))
        made.extend(weakref.ref(one) for one in (*weights.values(), x))
        if len(x) > 2:
            activations = torch.zeros(len(x), 1000)
            made.append(weakref.ref(activations))
            raise torch.cuda.OutOfMemoryError(FULL)
        return gradients(weights, buffers, x, y)

    monkeypatch.setattr(stack, "_gradients", step)
    gc.disable()  # what only a collection frees is not free where it is needed
    try:
        stack.train(jobs_of(stack))
    finally:
        gc.enable()
    assert alive[:3] == [0, 0, 0]  # before 8, 4 and 2 at once


def test_a_number_of_clients_that_does_not_fit_is_an_error(
    make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(task=make_task().name, method="raw", machine=Machine(stack="3"))
    stack = stack_of(config)
    full_above(2, stack, monkeypatch)
    found = stack.train(jobs_of(stack))
    assert all(isinstance(error, DeviceFull) for error in found)
    told = "cpu: 20.00 GiB more needed, 1.20 GiB free; lower --stack, --workers, --batch-size"
    assert str(found[0]) == told


@pytest.mark.parametrize("part", [(Trainer, "_step"), (ClientEnd, "decode"), (ClientEnd, "encode")])
def test_what_does_not_fit_ends_the_run(
    part: tuple[type, str], make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Tensor:
        raise torch.cuda.OutOfMemoryError(FULL)

    monkeypatch.setattr(*part, full)
    told = "cpu: 20.00 GiB more needed, 1.20 GiB free; lower --stack, --workers, --batch-size"
    with pytest.raises(RunFailed, match=told):
        run(RunConfig(task=make_task().name, method="raw"), tmp_path, progress=False)
