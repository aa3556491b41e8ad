"""Steps that draw from torch's global generators: each has them for itself, seeded.

All threads of a process share these generators, so what a step draws from one (`F.dropout`, noise
in a model's forward, in a loss, in an optimizer) would depend on who drew before. Nearly no step
does: steps are watched, and those of a task that was seen drawing run one at a time, under a
generator seeded by (seed, client, iteration). They draw the same on any number of workers.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from fedsim.tasks import Task

T = TypeVar("T")

_MINE = threading.RLock()  # whose thread may seed the generators, and must put them back
_TURN = threading.Condition()
_DRAWING: set[Task] = set()  # tasks whose steps have been seen drawing
_FREE: Counter[Task] = Counter()  # calls under way whose steps do not wait for each other


class _Drew(Exception):
    """A step drew and had the generators to itself; the rest of its call must have them, too."""


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """The global generators for this thread alone, seeded; afterwards they are as they were.

    Example:
        >>> with seeded(7, torch.device("cpu")):
        ...     first = torch.rand(3)
        >>> with seeded(7, torch.device("cpu")):
        ...     torch.equal(first, torch.rand(3))
        True
    """
    with _MINE:
        before = _states(device)
        for generator in _generators(device):
            generator.manual_seed(seed)
        try:
            yield
        finally:
            for generator, state in zip(_generators(device), before, strict=True):
                generator.set_state(state)


def _generators(device: torch.device) -> list[torch.Generator]:
    """The CPU's global generator, and that of ``device`` where it has one of its own."""
    found = [torch.default_generator]
    if device.type == "cuda":
        torch.cuda.init()  # there are none before
        number = torch.cuda.current_device() if device.index is None else device.index
        found.append(torch.cuda.default_generators[number])
    if device.type == "mps":
        found.append(torch.mps._get_default_mps_generator())
    return found


def _states(device: torch.device) -> list[Tensor]:
    with _MINE:
        return [generator.get_state() for generator in _generators(device)]


class Watch:
    """A trainer's watch on what its steps draw.

    Args:
        task: whose steps they are; what one trainer sees, all trainers of a process know.
        device: where it trains, whose generator is watched beside the CPU's.
    """

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task, self.device = task, device
        self._tried = False

    def call(self, train: Callable[[bool], T]) -> T:
        """What ``train(alone)`` returns; called again, with ``alone``, if a step of it drew.

        ``train`` changes nothing that it is given, and gives each step its ``turn``.
        """
        if self._enter():
            before = _states(self.device)
            try:
                found = train(False)
                drew = not self._same(before)
            except _Drew:
                drew = True
            finally:
                self._leave()
            if not drew and self.task not in _DRAWING:
                return found
            _DRAWING.add(self.task)
        with _TURN:  # calls that began before it was seen may still draw
            _TURN.wait_for(lambda: not _FREE[self.task])
        return train(True)

    @contextmanager
    def turn(self, seed: int, alone: bool) -> Iterator[None]:
        """One step: free, or alone with seeded generators; a trainer's first step is always so."""
        if self._tried and not alone:
            yield
            return
        with seeded(seed, self.device):
            before = _states(self.device)
            yield
            self._tried = True
            if not alone and not self._same(before):
                raise _Drew

    def _enter(self) -> bool:
        with _TURN:
            free = self.task not in _DRAWING
            _FREE[self.task] += free
            return free

    def _leave(self) -> None:
        with _TURN:
            _FREE[self.task] -= 1
            _TURN.notify_all()

    def _same(self, before: list[Tensor]) -> bool:
        return all(torch.equal(a, b) for a, b in zip(before, _states(self.device), strict=True))
