"""Steps that draw from torch's global generators: each begins with these seeded.

All clients of a process share these generators, so what a step draws from one (`F.dropout`, noise
in a model's forward, in a loss, in an optimizer) would depend on who drew before. Nearly no step
does: steps are watched, and each step of a task that was seen drawing runs with generators seeded
by (seed, client, iteration). They draw the same on any number of workers.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from fedsim.tasks import Task
from strategies.generators import seeded, states

Watched = TypeVar("Watched")

_DRAWING: set[Task] = set()  # tasks whose steps have been seen drawing


@contextmanager
def untouched(device: torch.device) -> Iterator[None]:
    """Restores every global generator at the end: a user's functions may draw from any.

    Tasks that draw inside are forgotten afterwards: the first step of a run notices it again.
    """
    before = {*_DRAWING}
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 - users draw from it
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            _DRAWING.intersection_update(before)
            random.setstate(plain)
            np.random.set_state(arrays)  # noqa: NPY002


class _Drew(Exception):
    """A step drew with seeded generators; the other steps of its call must have these, too."""


class Watch:
    """A trainer's watch on what its steps draw.

    Args:
        task: whose steps they are; if one trainer sees it draw, all trainers of its process know.
        device: where it trains; its generator is watched in addition to the CPU's.
    """

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task, self.device = task, device
        self._warm = False

    @property
    def drew(self) -> bool:
        """Whether a step of the task has been seen drawing."""
        return self.task in _DRAWING

    def call(self, train: Callable[[bool], Watched]) -> Watched:
        """Returns ``train(seeds)``; calls it again, with seeds, if a step of it drew without.

        ``train`` does not change its inputs, and runs each step within its ``turn``.
        """
        if self.task not in _DRAWING:
            before = states(self.device)
            try:
                trained = train(False)
                if self._same(before):
                    return trained
            except _Drew:
                pass
            _DRAWING.add(self.task)
        return train(True)

    @contextmanager
    def turn(self, seed: Callable[[], int], seeds: bool) -> Iterator[None]:
        """One step, with seeded generators where ``seeds``; a trainer's first is always so.

        ``seed`` is called where generators are seeded: few steps need it.
        """
        if self._warm and not seeds:
            yield
            return
        with seeded(seed(), self.device):
            before = states(self.device)
            yield
            self._warm = True
            if not seeds and not self._same(before):
                raise _Drew

    def _same(self, before: list[Tensor]) -> bool:
        return all(torch.equal(a, b) for a, b in zip(before, states(self.device), strict=True))
