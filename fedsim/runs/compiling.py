"""Says that kernels are being compiled: the first message of a method on a machine waits for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core.event import Event, Listener, install_listener

TOLD = "compiling kernels, once per machine: 5 to 15 s"
"""Measured with an empty cache on one core: 4 s for ``raw``, 9 s for ``sbc``, 11 s for ``qsgd``,
15 s for an ``ef(topk | cnat | golomb)``."""


class _Once(Listener):
    """Calls ``say`` when numba begins to compile what is not in its cache, the first time."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, False

    def on_start(self, event: Event) -> None:
        if not self._said:
            self._said = True
            self._say(TOLD)

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def compiling_told(say: Callable[[str], None]) -> Iterator[None]:
    """Inside, ``say`` is told once, in a sentence, when a kernel is compiled in this process."""
    with install_listener("numba:compile", _Once(say)):
        yield
