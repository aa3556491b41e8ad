"""Exit statuses of child processes where SIGCHLD is ignored: the system then discards them.

A program that ignores SIGCHLD passes that on to the programs that it starts.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


@contextmanager
def children_waited() -> Iterator[None]:
    """A context in which the system keeps the exit status of children, even if SIGCHLD is ignored.

    It changes nothing in threads other than the main one, which may not set signal handlers.
    """
    if not sigchld_ignored() or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def sigchld_ignored() -> bool:
    """Whether SIGCHLD is ignored: a child that has ended leaves nothing to wait for."""
    return sys.platform != "win32" and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
