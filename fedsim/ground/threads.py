"""Torch's threads, and locks between threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch


def lock_of_process() -> Lock:
    """A lock that is free in a forked process, where the thread that may have it is not.

    Example:
        >>> with lock_of_process():
        ...     print("alone")
        alone
    """
    lock = Lock()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread for the caller; afterwards as many as there were.

    Example:
        >>> before = torch.get_num_threads()
        >>> with one_thread():
        ...     torch.get_num_threads()
        1
        >>> torch.get_num_threads() == before
        True
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
