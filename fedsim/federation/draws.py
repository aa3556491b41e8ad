"""Steps that draw from torch's global generators: each has them for itself, seeded.

All threads of a process share these generators, so what a step draws from one (`F.dropout`, noise
in a model's forward, in a loss, in an optimizer) would depend on who drew before. Nearly no step
does: steps are watched, and those of a task that was seen drawing run one at a time, under a
generator seeded by (seed, client, iteration). They draw the same on any number of workers.
"""

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from fedsim.tasks import Task
from strategies.generators import drawing, seeded, states

Watched = TypeVar("Watched")

_TURN = threading.Condition()
_DRAWING: set[Task] = set()  # tasks whose steps have been seen drawing
_FREE: Counter[Task] = Counter()  # calls under way whose steps do not wait for each other


def _anew() -> None:
    """In a forked process: calls are under way in the other one, whose threads are not here."""
    global _TURN
    _TURN = threading.Condition()
    _FREE.clear()


os.register_at_fork(after_in_child=_anew)


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
    """A step drew and had the generators to itself; the rest of its call must have them, too."""


class Watch:
    """A trainer's watch on what its steps draw.

    Args:
        task: whose steps they are; if one trainer sees it draw, all trainers of its process know.
        device: where it trains; its generator is watched in addition to the CPU's.
    """

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task, self.device = task, device
        self._warm = False

    def call(self, train: Callable[[bool], Watched]) -> Watched:
        """Returns ``train(exclusive)``; calls it again, exclusively, if a step of it drew.

        ``train`` does not change its inputs, and runs each step within its ``turn``.

        An exclusive call waits for the calls under way, without a limit of its own: at the same
        time as them, it would draw other numbers than those of the seed. Each of them ends with its
        client's last iteration. If one hangs, so does its worker, and the round's ``--timeout``
        ends the run.
        """
        with _TURN:
            free = self.task not in _DRAWING
            _FREE[self.task] += free
        if free:
            before = states(self.device)
            try:
                trained = train(False)
                drew = not self._same(before)
            except _Drew:
                drew = True
            finally:
                with _TURN:
                    _FREE[self.task] -= 1
                    _TURN.notify_all()
            if not drew and self.task not in _DRAWING:
                return trained
            _DRAWING.add(self.task)
        with _TURN:  # calls that began before it was seen may still draw
            _TURN.wait_for(lambda: not _FREE[self.task])
        return train(True)

    @contextmanager
    def turn(self, seed: Callable[[], int], exclusive: bool) -> Iterator[None]:
        """One step: free, or exclusive with seeded generators; a trainer's first is always so.

        ``seed`` is called where generators are seeded: few steps are exclusive.
        """
        if self._warm and not exclusive:
            with drawing():  # a draw that `seeded` undoes elsewhere would not be seen
                yield
            return
        with seeded(seed(), self.device):
            before = states(self.device)
            yield
            self._warm = True
            if not exclusive and not self._same(before):
                raise _Drew

    def _same(self, before: list[Tensor]) -> bool:
        return all(torch.equal(a, b) for a, b in zip(before, states(self.device), strict=True))
