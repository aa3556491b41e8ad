"""Says that kernels are being compiled: the first message of a method on a machine waits for it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core.compiler_lock import global_compiler_lock
from numba.core.event import Event, Listener, install_listener

COMPILING = "compiling kernels, once per machine: 5 to 15 s"
"""Measured with an empty cache on one core: 4 s for ``raw``, 9 s for ``sbc``, 11 s for ``qsgd``,
15 s for an ``ef(topk | cnat | golomb)``."""


_LISTENING: list["_Once"] = []

# In a forked process a thread that compiles would be waited for without end.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)


class _Once(Listener):
    """Calls ``say`` when numba begins to compile what is not in its cache, the first time."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._done, self._pid = say, False, os.getpid()

    def on_start(self, event: Event | None) -> None:
        # A forked process has the other's listeners, and a terminal's lock that nobody may free.
        if not self._done and os.getpid() == self._pid:
            self._done = True
            self._say(COMPILING)

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def compiling_told(say: Callable[[str], None]) -> Iterator[None]:
    """Inside, ``say`` is called once with a sentence when a kernel is compiled in this process."""
    once = _Once(say)
    with install_listener("numba:compile", once):
        _LISTENING.append(once)
        try:
            yield
        finally:
            _LISTENING.remove(once)


def compiling_elsewhere() -> None:
    """Says here what a process has said that was forked from this one."""
    for once in _LISTENING:
        once.on_start(None)
