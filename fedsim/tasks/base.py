"""What a task is: a model, its data and the settings it is trained with.

Everything that a task needs is a field of one frozen value, `Task`; the table of tasks is
`fedsim.tasks.TASKS`. The shared pieces (cross entropy, the accuracy sum) are functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer


@dataclass(frozen=True)
class Data:
    """A whole data set in memory, shared by all clients of a process: never written to.

    Attributes:
        train_x: training inputs, normalised, float32, shape (N, ...); images are NCHW.
        train_y: training targets, int64, shape (N,).
        test_x: held-out inputs, as `train_x`, shape (M, ...).
        test_y: held-out targets, int64, shape (M,).
        source: which copy of the data this is, in words; no path of this machine.
    """

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    source: str


@dataclass(frozen=True)
class Task:
    """A model, its data and the published way of training it.

    Attributes:
        name: what users type.
        title: one line for lists.
        source: where the settings come from: paper and section.
        build: a new model; weights are drawn from torch's global generator, which the caller
            forks and seeds.
        load: (data folder or None, may download?) -> `Data`; raises `DataError` where the data
            is missing or damaged.
        optimizer: parameters -> optimizer with the task's settings.
        loss: (outputs, targets) -> mean loss over the samples, a scalar.
        metric: (outputs, targets) -> sum of the score over the samples, a scalar, so that it can
            be accumulated over batches of any size.
        metric_name: what `metric` divided by the number of samples is called.
        higher_is_better: which way the metric improves.
        batch_size: samples per client and local iteration.
        iterations: local iterations of a run (its budget).
        lr_steps: (local iteration from which, factor on the base learning rate), in order.
        channels_last: whether models and batches are best laid out NHWC in memory.
        clients: default number of clients.
    """

    name: str
    title: str
    source: str
    build: Callable[[], nn.Module]
    load: Callable[[Path | None, bool], Data]
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Callable[[Tensor, Tensor], Tensor]
    metric_name: str = "accuracy"
    higher_is_better: bool = True
    batch_size: int = 32
    iterations: int = 1000
    lr_steps: tuple[tuple[int, float], ...] = ()
    channels_last: bool = True
    clients: int = 4


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats of logits (B, C) against class numbers (B,), a scalar."""
    return F.cross_entropy(outputs, targets)


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """How many rows of logits (B, C) have their maximum at the target (B,): an int64 scalar.

    Example:
        >>> import torch
        >>> correct(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
        tensor(1)
    """
    return (outputs.argmax(dim=1) == targets).sum()
