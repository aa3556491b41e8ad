"""torch's global generators, seeded for one thread alone.

All threads of a process share these generators. A thread that must seed them (for a model's initial
weights, or a step that draws from them) has them alone for that time, and restores them. Other
threads that may draw declare it (`drawing`), and seeding waits for them: a draw meanwhile would
change the numbers of the thread that seeded, and would be undone when the generators are restored.
"""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_MINE = threading.RLock()  # whose thread may seed the generators, and must put them back
_LEFT = threading.Condition()  # notified when a thread leaves `drawing`
_INSIDE: set[int] = set()  # threads in `drawing`
_PATIENCE_SECONDS = 60


def _anew() -> None:
    """In a forked process: the threads that had these are not there, and would be waited for."""
    global _MINE, _LEFT
    _MINE, _LEFT = threading.RLock(), threading.Condition()
    _INSIDE.clear()


os.register_at_fork(after_in_child=_anew)


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
        with _LEFT:  # until no other thread draws: what wants to begins with _MINE
            others = not _LEFT.wait_for(
                lambda: not _INSIDE - {threading.get_ident()}, _PATIENCE_SECONDS
            )
        if others:  # a step that hangs ends no run
            logging.getLogger(__name__).warning(
                "a step has taken more than %d s and is not waited for; if it draws from torch's "
                "global generator, this run cannot be repeated to the bit",
                _PATIENCE_SECONDS,
            )
        before = states(device)
        for generator in _generators(device):
            generator.manual_seed(seed)
        try:
            yield
        finally:
            for generator, state in zip(_generators(device), before, strict=True):
                generator.set_state(state)


class drawing:
    """A context in which this thread may draw, as others may, while no thread has seeded.

    Example:
        >>> with drawing():
        ...     mask = torch.rand(3) < 0.5
    """

    def __enter__(self) -> None:
        self._me = threading.get_ident()
        self._first = self._me not in _INSIDE
        if self._first:
            with _MINE:
                _INSIDE.add(self._me)

    def __exit__(self, *_: object) -> None:
        if self._first:
            with _LEFT:
                _INSIDE.remove(self._me)
                _LEFT.notify_all()


def _generators(device: torch.device) -> list[torch.Generator]:
    """The CPU's global generator, and that of ``device`` where it has one of its own."""
    generators = [torch.default_generator]
    if device.type == "cuda":
        torch.cuda.init()  # there are none before
        number = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[number])
    if device.type == "mps":
        generators.append(torch.mps._get_default_mps_generator())
    return generators


def states(device: torch.device) -> list[Tensor]:
    """What the generators of ``device`` hold now."""
    with _MINE:
        return [generator.get_state() for generator in _generators(device)]
