"""Whether the system tells how a child has ended: a program that ignores SIGCHLD forgets it.

It hands that on to all that it starts.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


@contextmanager
def children_waited() -> Iterator[None]:
    """Inside, the system tells how a child has ended, though it was told before to forget that.

    Other threads than the main one cannot change it.

    Example:
        >>> with children_waited():
        ...     signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        False
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
