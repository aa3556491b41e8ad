"""What local iterations draw: the order of a client's samples, and what a step draws by itself.

Samples come in batches of a client's shard, epoch by epoch. All clients of a process share torch's
global generators, so what a step draws from one (`F.dropout`, noise in a model's forward, in a
loss, in an optimizer) would depend on who drew before. Nearly no step does: steps are watched, and
each step of a task that was seen drawing runs with generators seeded by (seed, client, iteration).
They draw the same on any number of workers.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from compressors import derive
from compressors.kernels.gpu.layout import send
from fedsim.tasks import Task
from strategies.generators import global_generators, seeded

Watched = TypeVar("Watched")

_HOST = torch.device("cpu")

_UNWATCHED = nullcontext()

_DRAWING: list[Task] = []  # tasks whose steps have been seen drawing


def epoch_length(samples: int, size: int) -> int:
    """How many batches an epoch has: whole ones, and the samples that are left over are in none.

    A client with fewer samples than the ``size`` of a batch has one batch of all.

    Example:
        >>> epoch_length(101, 32), epoch_length(378, 32), epoch_length(5, 32)
        (3, 11, 1)
    """
    return samples // min(size, samples)


def evenly_spread(total: int, count: int | None) -> Tensor:
    """``count`` of the numbers below ``total``, evenly spread (None: all of them), int64.

    Held-out samples may be in the order of their classes; the first ones would not do.

    Example:
        >>> evenly_spread(10, 4).tolist(), evenly_spread(3, None).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    count = min(count or total, total)
    return torch.arange(count) * total // count


class Batches:
    """Batches of one client's shard, a fresh order every epoch.

    Args:
        shard: indices (m,) of the client's training samples.
        size: samples a batch; a shard smaller than that is one batch.
        seed: the order of epoch e follows from (seed, client, e).
        client: the number of the client.
        device: where the indices are wanted; an epoch's go there at once, and nothing waits.
    """

    def __init__(
        self, shard: np.ndarray, size: int, seed: int, client: int, device: torch.device = _HOST
    ) -> None:
        self.shard = torch.from_numpy(shard)
        self.size = min(size, len(shard))
        self.an_epoch = epoch_length(len(shard), size)
        self.seed, self.client, self.device = seed, client, device
        self._epoch, self._order = -1, self.shard  # on the host
        self._sent_epoch, self._sent = -1, self.shard  # where they are wanted

    def run(self, first: int, count: int) -> Tensor:
        """Sample indices (count, batch) of local iterations from ``first`` on, on the host.

        Example:
            >>> batches = Batches(np.arange(10), 5, seed=0, client=0)
            >>> torch.equal(batches.run(1, 3)[2], batches.at(3))
            True
        """
        parts = list[Tensor]()
        while count > 0:
            epoch, slot = divmod(first, self.an_epoch)
            order = self._order_of(epoch)[: self.an_epoch * self.size]
            parts.append(order.view(self.an_epoch, self.size)[slot : slot + count])
            first, count = first + len(parts[-1]), count - len(parts[-1])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def at(self, iteration: int) -> Tensor:
        """Sample indices (batch,) of local iteration ``iteration`` (0, 1, ...)."""
        epoch, slot = divmod(iteration, self.an_epoch)
        if epoch != self._sent_epoch:
            order, self._sent_epoch = self._order_of(epoch), epoch
            self._sent = order if order.device == self.device else send(order, self.device)
        return self._sent[slot * self.size : (slot + 1) * self.size]

    def _order_of(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            seed = derive(self.seed, "batches", self.client, epoch)
            generator = torch.Generator().manual_seed(seed)
            self._order = self.shard[torch.randperm(len(self.shard), generator=generator)]
            self._epoch = epoch
        return self._order


@contextmanager
def untouched(device: torch.device) -> Iterator[None]:
    """Restores every global generator at the end: a user's functions may draw from any.

    Tasks that draw inside are forgotten afterwards: the first step of a run notices it again.
    """
    before = [*_DRAWING]
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 - users draw from it
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            _DRAWING[:] = [task for task in _DRAWING if task in before]
            random.setstate(plain)
            np.random.set_state(arrays)  # noqa: NPY002


class _Drew(Exception):
    """A step drew with seeded generators; the other steps of its call must have these, too."""


class Watch:
    """A trainer's watch on what its steps draw: if it sees a task draw, all of its process know.

    The generator of ``device`` is watched in addition to the CPU's.
    """

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task, self.device = task, device
        self._warm = False
        self._generators = global_generators(device)

    @property
    def drew(self) -> bool:
        """Whether a step of the task has been seen drawing."""
        return self.task in _DRAWING

    def call(self, train: Callable[[bool], Watched]) -> Watched:
        """Returns ``train(seeds)``; calls it again, with seeds, if a step of it drew without.

        ``train`` does not change its inputs, and runs each step within its ``turn``.
        """
        if self.task not in _DRAWING:
            before = [generator.get_state() for generator in self._generators]
            try:
                trained = train(False)
                after = [generator.get_state() for generator in self._generators]
                if all(map(torch.equal, before, after)):
                    return trained
            except _Drew:
                pass
            _DRAWING.append(self.task)
        return train(True)

    def turn(self, seed: Callable[[], int], seeds: bool) -> AbstractContextManager[None]:
        """One step, with seeded generators where ``seeds``; a trainer's first is always so.

        ``seed`` is called where generators are seeded: few steps need it.
        """
        return self._watched(seed, seeds) if seeds or not self._warm else _UNWATCHED

    @contextmanager
    def _watched(self, seed: Callable[[], int], seeds: bool) -> Iterator[None]:
        with seeded(seed(), self.device):
            before = [generator.get_state() for generator in self._generators]
            yield
            self._warm = True
            after = [generator.get_state() for generator in self._generators]
            if not seeds and not all(map(torch.equal, before, after)):
                raise _Drew
