"""Client updates of a dense run, after every number of local iterations that is needed.

A dense federation of the task trains at the task's own rate, ``DELAY`` local iterations a round.
From its model after each of ``STARTS`` rounds one client trains on by itself, and its update is
recorded after each delay.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from fedsim import RunConfig
from fedsim.federation import ClientData, Trainer

Tensors = dict[str, Tensor]

DELAY = 10
"""Local iterations between two rounds of the dense run."""

STARTS = (0, 10, 20)
"""Rounds of the dense run after which updates are recorded: those of client i from the i-th."""

SEED = 0
"""That of like-for-like's tuning: no final run has it."""


class Federation(Protocol):
    """The fields that are read of a task of like-for-like (its ``rows.Task``)."""

    task: str
    partition: str
    clients: int
    cohort: int | None
    batch_size: int | None


def dense(task: Federation, data: str | None) -> RunConfig:
    """The settings of a task's dense run."""
    return RunConfig.of(
        method="raw",
        temporal=DELAY,
        iterations=DELAY,
        seed=SEED,
        task=task.task,
        partition=task.partition,
        clients=task.clients,
        cohort=task.cohort,
        batch_size=task.batch_size,
        data=data,
    )


def recorded(config: RunConfig, delays: Iterable[int]) -> list[dict[int, Tensors]]:
    """Updates by their number of local iterations, one dict for each of ``STARTS``.

    Args:
        config: of the dense run.
        delays: numbers of local iterations after which the update is recorded.
    """
    trainer = Trainer(config, ClientData.of(config))
    ends = sorted(set(delays))
    return [
        dict(local_updates(trainer, client, model, done, ends))
        for client, (done, model) in enumerate(models(trainer))
    ]


def models(trainer: Trainer) -> Iterator[tuple[int, tuple[Tensors, Tensors]]]:
    """Iterations done, then weights and buffers of the dense run, at each start."""
    plan = trainer.plan
    cohort = plan.cohort or plan.clients
    weights = {name: p.detach().clone() for name, p in trainer.parameters.items()}
    buffers: Tensors = {}
    states: dict[int, Any] = {}
    counts = dict.fromkeys(range(plan.clients), 0)
    for number in range(STARTS[-1] + 1):
        if number in STARTS:
            yield number * DELAY, (weights, buffers)
        if number == STARTS[-1]:
            return
        clients = [(number * cohort + i) % plan.clients for i in range(cohort)]
        results = []
        for client in clients:
            state, done = states.get(client, {}), counts[client]
            result = trainer.train(client, weights, state, done, DELAY, buffers, number * DELAY)
            states[client], counts[client] = result.optimizer, done + DELAY
            results.append(result)
        weights = {n: x + mean([r.update[n] for r in results]) for n, x in weights.items()}
        buffers = {n: mean([r.buffers[n] for r in results]) for n in results[0].buffers}


def local_updates(
    trainer: Trainer, client: int, model: tuple[Tensors, Tensors], done: int, delays: list[int]
) -> Iterator[tuple[int, Tensors]]:
    """The updates of ``client`` from ``model`` (weights, buffers) after each of sorted delays."""
    begin, buffers = model
    weights, state, count = begin, dict[str, Tensor](), 0
    for delay in delays:
        result = trainer.train(
            client, weights, state, done + count, delay - count, buffers, done + count
        )
        weights = {name: x + result.update[name] for name, x in weights.items()}
        state, buffers, count = result.optimizer, result.buffers, delay
        yield delay, {name: x - begin[name] for name, x in weights.items()}


def mean(tensors: list[Tensor]) -> Tensor:
    """The mean of tensors of one shape; of whole numbers (counters) the first."""
    if not tensors[0].is_floating_point():
        return tensors[0]
    return torch.stack(tensors).mean(dim=0)
