"""Processes that this one starts: how they begin, and whether a forked one could train."""

import gc
import multiprocessing
import os
import signal
import time
from threading import Thread, Timer

import torch

from fedsim.ground.sigchld import sigchld_ignored

_PARENT_SECONDS = 5.0
"""How long a process that gets SIGTERM waits for its parent to end: the parent may have got it."""
_LOOK_SECONDS = 1.0


def begin_child(parent: int | None = None) -> None:
    """Called first in a process that this one starts: it ends with its parent.

    Ctrl-C, SIGHUP and SIGTERM of a whole group are for the parent, which says what is kept. One
    that gets SIGTERM alone ends after some seconds. ``parent``: its process id; None: it was forked
    by ``multiprocessing``.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_soon)
    Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    gc.freeze()  # a collection would write into, and so copy, all that is shared
    torch.set_num_threads(1)  # threads that the other process has started are not here


def _end_soon(*_: object) -> None:
    timer = Timer(_PARENT_SECONDS, os._exit, (128 + signal.SIGTERM,))
    timer.daemon = True
    timer.start()


def _end_with_parent(parent: int | None) -> None:
    if (process := multiprocessing.parent_process()) is not None:
        process.join()
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def forks_train() -> bool:
    """Whether a process that is forked from this one can train: it is tried.

    Torch refuses it once its threads for a GPU run, which a first gradient starts where there is
    one, on the CPU too. Python refuses a daemonic process, such as one of a
    ``multiprocessing.Pool``, any of its own. Where SIGCHLD is ignored, nobody could wait for it.
    """
    if multiprocessing.current_process().daemon or sigchld_ignored():
        return False
    child = os.fork()
    if not child:
        try:
            torch.ones(1, requires_grad=True).sum().backward()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0
