"""A fork while another thread has a lock: the forked process does not wait for that thread."""

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from numba.core.compiler_lock import global_compiler_lock

from fedsim.ground import compiling
from fedsim.tasks.data.memo import read_once

assert compiling  # which has a fork wait for the compiler
_PATIENCE_SECONDS = 20
"""After which a forked process that waits is ended: only a test that fails takes so long."""


@read_once
def _load(folder: Path | None, download: bool) -> None:
    _loading.set()
    _go_on.wait()


_loading, _go_on = Event(), Event()


def _compiling() -> None:
    with global_compiler_lock:
        _loading.set()
        _go_on.wait(0.5)  # whoever forks waits for it


def _loads() -> None:
    _go_on.set()
    _load()


def _enters(lock: Callable[[], AbstractContextManager[Any]]) -> Callable[[], None]:
    def enter() -> None:
        with lock():
            pass

    return enter


@pytest.mark.parametrize(
    ("holds", "wants"),
    [
        (_load, _loads),
        (_compiling, _enters(lambda: global_compiler_lock)),
    ],
)
def test_a_forked_process_waits_for_no_thread_of_the_other(
    holds: Callable[[], None], wants: Callable[[], None]
) -> None:
    _loading.clear()
    _go_on.clear()
    thread = Thread(target=holds)
    thread.start()
    _loading.wait()
    if not (child := os.fork()):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_PATIENCE_SECONDS)
        wants()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    _go_on.set()
    thread.join()
    assert status == 0
