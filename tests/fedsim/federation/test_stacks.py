"""Clients trained at once: each as one after the other, but for the last bits."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    NAdam,
    RAdam,
    RMSprop,
)

from compressors import State
from fedsim import Data, Machine, RunConfig
from fedsim.federation.clientdata import ClientData
from fedsim.federation.stackable import fit_of
from fedsim.federation.stackedsteps import ENTRY_BY_ENTRY
from fedsim.federation.stacks import Result, Stack, stack_of
from fedsim.federation.trainer import Trainer
from strategies import TrainJob, TrainResult
from strategies import client_optimizers as own
from tests.support.models import normed
from tests.support.runs import make_task

__all__ = ["make_task"]  # the fixture


def plain(config: RunConfig) -> Trainer:
    return Trainer(config, ClientData.of(config))


def weights_of(trainer: Trainer) -> State:
    return {n: p.detach().clone() for n, p in trainer.parameters.items()}


def near(one: State, other: State) -> None:
    assert one.keys() == other.keys()
    for name, x in one.items():
        y = other[name]
        assert (x.shape, x.dtype) == (y.shape, y.dtype), name
        torch.testing.assert_close(y, x, rtol=2e-4, atol=2e-6)


def same(one: Result, other: Result) -> TrainResult:
    assert isinstance(one, TrainResult), one
    assert isinstance(other, TrainResult), other
    assert all(x.is_contiguous() for x in other.update.values())
    near(one.update, other.update)
    near(one.optimizer, other.optimizer)
    near(one.buffers, other.buffers)
    assert other.loss == pytest.approx(one.loss, rel=1e-5)
    return one


def rounds(config: RunConfig, counts: tuple[int, ...], cohorts: list[list[int]]) -> Stack:
    """Trains round after round both ways, from the memory that one after the other leaves."""
    alone, stack = plain(config), stack_of(config)
    weights = weights_of(alone)
    done: dict[int, int] = {}
    memory: dict[int, TrainResult] = {}
    start = 0
    for count, cohort in zip(counts, cohorts, strict=True):
        jobs = []
        for client in cohort:
            last = memory.get(client)
            held = (last.optimizer, last.buffers) if last else ({}, {})
            begun = done.get(client, 0)
            jobs.append(TrainJob(client, weights, held[0], begun, count, held[1], start))
        found = stack.train(jobs)
        for job, other in zip(jobs, found, strict=True):
            memory[job.client] = same(alone.train(*job), other)
            done[job.client] = done.get(job.client, 0) + count
        start += count
        weights = {n: x + memory[cohort[0]].update[n] for n, x in weights.items()}
    return stack


OPTIMIZERS: dict[str, Any] = {
    "momentum": lambda p: SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "dampened": lambda p: SGD(p, lr=0.05, momentum=0.9, dampening=0.1),
    "adam": lambda p: Adam(p, lr=0.01),
    "adagrad": lambda p: Adagrad(p, lr=0.05, initial_accumulator_value=0.5),
    "rmsprop": lambda p: RMSprop(p, lr=0.01, centered=True),
    "adamw": lambda p: AdamW(p, lr=0.01, amsgrad=True),
    "adadelta": lambda p: Adadelta(p, lr=1.0),
    "adamax": lambda p: Adamax(p, lr=0.01),
    "nadam": lambda p: NAdam(p, lr=0.01),
    "radam": lambda p: RAdam(p, lr=0.01),
    "own momentum": lambda p: own.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "own adam": lambda p: own.Adam(p, lr=0.01, amsgrad=True),
    "own adamw": lambda p: own.AdamW(p, lr=0.01),
}


def test_every_optimizer_that_is_taken_is_tried() -> None:
    w = nn.Parameter(torch.zeros(2))
    assert {type(make([w])) for make in OPTIMIZERS.values()} == set(ENTRY_BY_ENTRY)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_client_is_trained_as_alone(name: str, make_task: Any) -> None:
    """Steps of the rate, a last round of fewer iterations, clients that sat out or are new."""
    task = make_task(optimizer=OPTIMIZERS[name], lr_steps=((3, 0.1), (7, 0.5)), clients=4)
    config = RunConfig.of(task=task.name, method="raw", temporal=5, clients=4, stack="4")
    rounds(config, (5, 5, 2), [[0, 1, 2], [3, 1, 0, 2], [2, 0, 3]])


def test_groups_of_parameters_keep_their_settings(make_task: Any) -> None:
    def grouped(parameters: Any) -> SGD:
        every = list(parameters)
        bias = [p for p in every if p.dim() == 1]
        return SGD(
            [
                {"params": [p for p in every if p.dim() > 1], "weight_decay": 0.1},
                {"params": bias, "lr": 0.3},
            ],
            lr=0.1,
            momentum=0.5,
        )

    config = RunConfig.of(task=make_task(optimizer=grouped).name, method="raw", stack="3")
    rounds(config, (3, 3), [[0, 1, 2]] * 2)


def test_convolutions_and_batchnorm(make_task: Any) -> None:
    rounds(RunConfig.of(task="digits", clients=3, batch_size=8, stack="3"), (2, 2), [[0, 1, 2]] * 2)
    task = make_task(build=normed)
    rounds(RunConfig.of(task=task.name, method="raw", stack="3"), (3, 2), [[0, 1, 2]] * 2)


def test_a_batch_s_gradient_where_the_strategy_takes_it(make_task: Any) -> None:
    config = RunConfig.of(
        task=make_task().name, method="raw", temporal=1, strategy="gradients", stack="3"
    )
    rounds(config, (1, 1), [[0, 1, 2]] * 2)


class Partly(nn.Module):
    """One layer is frozen, one the loss never reaches: neither moves, decayed or not."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.frozen, self.idle = nn.Linear(6, 3), nn.Linear(3, 3), nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.frozen(self.used(x)) * self.scale
        return out


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_the_loss_does_not_reach_is_left_alone(name: str, make_task: Any) -> None:
    task = make_task(build=Partly, optimizer=OPTIMIZERS[name])
    stack = rounds(RunConfig.of(task=task.name, method="raw", stack="3"), (3, 3), [[0, 1, 2]] * 2)
    job = TrainJob(0, weights_of(stack.trainer), {}, 0, 2, {}, 0)
    for found in stack.train([job, job._replace(client=1)]):
        assert isinstance(found, TrainResult)
        assert not found.update["idle.weight"].any() and "frozen.bias" not in found.update


def test_batches_of_another_size_are_stacked_among_themselves(make_task: Any) -> None:
    """48 samples: 7 clients have 7 or 6 of them, of which a batch of 7 takes all."""
    task = make_task(batch_size=7, clients=7)
    config = RunConfig(task=task.name, method="raw", machine=Machine(stack="7"))
    stack = rounds(config, (2, 2), [[3, 0, 6, 2, 1, 5, 4]] * 2)
    assert {stack.trainer.batches_of(c).size for c in range(7)} == {6, 7}


def data_that_is_drawn(index: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    if int(index.max()) >= 48 - 2:
        raise OSError("sample 46 cannot be read")
    return torch.randn(len(index), 6, generator=generator), index % 3


def test_a_client_without_samples_fails_alone(make_task: Any) -> None:
    x = torch.zeros(48, 6)
    data = Data(x, torch.arange(48) % 3, x, torch.arange(48) % 3, "", draw=data_that_is_drawn)
    task = make_task(load=lambda folder, download: data, partition="contiguous", clients=6)
    config = RunConfig(task=task.name, method="raw", clients=6, machine=Machine(stack="6"))
    alone, stack = plain(config), stack_of(config)
    jobs = [TrainJob(c, weights_of(alone), {}, 0, 4, {}, 0) for c in (5, 0, 1, 2)]
    failed, *others = stack.train(jobs)
    assert isinstance(failed, OSError)
    for job, other in zip(jobs[1:], others, strict=True):
        same(alone.train(*job), other)


def test_nothing_that_is_given_is_changed_and_nothing_is_shared(make_task: Any) -> None:
    config = RunConfig(task=make_task().name, method="raw", machine=Machine(stack="3"))
    stack = stack_of(config)
    weights = weights_of(stack.trainer)
    kept = {n: x.clone() for n, x in weights.items()}
    first = stack.train([TrainJob(c, weights, {}, 0, 2, {}, 0) for c in range(3)])
    trained = [x for x in first if isinstance(x, TrainResult)]
    memory = [{n: x.clone() for n, x in one.optimizer.items()} for one in trained]
    stack.train([TrainJob(c, weights, one.optimizer, 2, 2, {}, 2) for c, one in enumerate(trained)])
    assert all(torch.equal(weights[n], x) for n, x in kept.items())
    for one, before in zip(trained, memory, strict=True):
        assert all(torch.equal(one.optimizer[n], x) for n, x in before.items())
    every = [x for one in trained for x in (*one.update.values(), *one.optimizer.values())]
    assert len({x.untyped_storage().data_ptr() for x in every}) == len(every)


def test_the_default_never_looks() -> None:
    assert fit_of(RunConfig(task="char_lstm")).width == 1  # whose data is not there
