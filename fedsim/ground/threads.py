"""Torch's threads, and locks between threads."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock

import torch


def lock_of_process() -> AbstractContextManager[bool]:
    """A lock that is free in a forked process, where the thread that may have it is not.

    The thread that has it may take it again.
    """
    lock = RLock()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread for the caller; afterwards as many as there were."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
