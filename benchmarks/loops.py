"""What `round.py` times: rounds of fedsim, and the same training in hand-written PyTorch."""

import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Optimizer

from fedsim import TASKS, Data, RunConfig, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import Batches
from fedsim.federation.trainer import build_model
from fedsim.tasks.mnist import MNIST_LENET5, LeNet5, load_mnist
from strategies.client_optimizers import SGD, Adam

OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": partial(SGD, lr=0.01),
    "adam": partial(Adam, lr=0.001),
}
"""``sgd`` has no memory and is what simulators are compared with; ``adam`` is Table III's."""


class Loop(Protocol):
    """Something that trains round by round."""

    def round(self) -> float:
        """Trains all clients for one round; returns their mean training loss."""
        ...


def register(optimizer: str, data: Path | None, samples: int) -> str:
    """Adds the benchmark's task to fedsim's table and returns its name.

    LeNet5 with a ReLU after each pooling, so that it is the same function as the peers'
    convolution, ReLU, pool. Without ``data`` it learns ``samples`` random images: the
    arithmetic costs the same.
    """
    name = f"benchmark-{optimizer}-{samples}"
    TASKS[name] = replace(
        MNIST_LENET5,
        name=name,
        build=LeNet5,
        load=load_mnist if data else partial(random_images, samples),
        optimizer=OPTIMIZERS[optimizer],
        batch_size=32,
    )
    return name


def random_images(samples: int, folder: Path | None = None, download: bool = False) -> Data:
    """Of MNIST's shape, always the same."""
    generator = torch.Generator().manual_seed(0)
    held_out = max(1, samples // 60)
    images = torch.randn(samples + held_out, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (samples + held_out,), generator=generator)
    train, test = (images[:samples], labels[:samples]), (images[samples:], labels[samples:])
    return Data(*train, *test, source=f"{samples} random images of MNIST's shape")


class HandWritten:
    """The floor: the same model, batches and optimizer, averaged; nothing is sent.

    Args:
        config: the run of fedsim whose training this repeats.
        peers: LeNet5 with contiguous tensors and ReLU before pooling, as public simulators write
            it; otherwise channels-last and ReLU after pooling, as fedsim trains.
    """

    def __init__(self, config: RunConfig, peers: bool = False) -> None:
        torch.set_num_threads(1)  # of this thread, as every worker of fedsim does
        plan, federation = config.plan, ClientData.of(config)
        self.data, self.iterations, self.done = federation.data, plan.temporal, 0
        last = plan.task.channels_last and not peers
        self.layout = torch.channels_last if last else torch.contiguous_format
        model = build_model(plan.task, config.seed)
        self.model = as_peers_write(model) if peers else model.to(memory_format=self.layout)
        self.parameters = list(self.model.parameters())
        self.weights = [p.detach().clone() for p in self.parameters]
        self.optimizers = [plan.task.optimizer(self.parameters) for _ in federation.shards]
        self.batches = [
            Batches(shard, plan.batch_size, config.seed, client)
            for client, shard in enumerate(federation.shards)
        ]

    def round(self) -> float:
        clients = len(self.batches)
        mean, loss = [torch.zeros_like(w) for w in self.weights], 0.0
        for optimizer, batches in zip(self.optimizers, self.batches, strict=True):
            with torch.no_grad():
                for p, w in zip(self.parameters, self.weights, strict=True):
                    p.copy_(w)
            loss += self._train(optimizer, batches) / clients
            for m, p in zip(mean, self.parameters, strict=True):
                m.add_(p.detach(), alpha=1 / clients)
        self.weights = mean
        self.done += self.iterations
        return loss

    def _train(self, optimizer: Optimizer, batches: Batches) -> float:
        total = torch.zeros(())
        for iteration in range(self.done, self.done + self.iterations):
            index = batches.at(iteration)
            x = self.data.train_x[index].contiguous(memory_format=self.layout)
            loss = F.cross_entropy(self.model(x), self.data.train_y[index])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        return float(total) / self.iterations


def as_peers_write(model: LeNet5) -> nn.Module:
    """The same layers in the usual order: convolution, ReLU, pool."""
    return nn.Sequential(
        model.conv1,
        nn.ReLU(),
        nn.MaxPool2d(2),
        model.conv2,
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        model.fc1,
        nn.ReLU(),
        model.fc2,
    )


class Fedsim:
    """A run of ``fedsim.run`` that pauses after every round until it is asked for the next.

    So loops can take turns round by round in one process. A round lasts from being asked
    to the end of its record, all that a user waits for.

    Args:
        config: the run, with more rounds than will be timed: the last one is evaluated.
        out: its folder.
    """

    def __init__(self, config: RunConfig, out: Path) -> None:
        self.config, self.out = config, out
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._answer: queue.SimpleQueue[dict[str, Any] | Exception | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()
        self.rounds = 0

    def _main(self) -> None:
        def pause(row: dict[str, Any]) -> None:
            self._answer.put(row)
            self._asked.get()

        self._asked.get()
        try:
            run(self.config, self.out, callbacks=[pause])
            self._answer.put(None)
        except Exception as error:
            self._answer.put(error)

    def round(self) -> float:
        """Raises what the run raised."""
        self._asked.put(None)
        row = self._answer.get()
        if row is None:
            raise RuntimeError(f"the run has only {self.rounds} rounds")
        if isinstance(row, Exception):
            raise row
        self.rounds += 1
        return float(row["train_loss"])

    def finish(self) -> pd.DataFrame:
        """Runs what is left of the rounds; returns the run's ``rounds.parquet``."""
        for _ in range(self.config.plan.rounds - self.rounds):
            self.round()
        self._asked.put(None)
        answer = self._answer.get()
        if isinstance(answer, Exception):
            raise answer
        self._thread.join()
        return pd.read_parquet(self.out / "rounds.parquet")
