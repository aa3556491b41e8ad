"""Several runs side by side in processes forked from this one, which share what it has imported.

A worker stays for all runs that it is given. It adds to memory what it trains with; what Ray and
the imports of a new process take is not needed.
"""

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Lock
from typing import Any

from fedsim.ground.children import begin_child, forks_train
from fedsim.ground.compiling import compiling_elsewhere, compiling_told
from fedsim.ground.errors import RunFailed
from fedsim.ground.files import cores, own_ram, ram
from fedsim.ground.sigchld import children_waited
from fedsim.runs import parallel
from fedsim.runs.parallel import TRIES, Ended, ProgressCallback, RunSpec, Tries, record, run_on_ray
from fedsim.runs.remoterun import Pins
from fedsim.settings.sentconfig import SentConfig

_COMPILES = "compiles"


@children_waited()
def run_beside(
    work: Iterable[RunSpec],
    jobs: int | None,
    address: str | None,
    progress: ProgressCallback | None,
    ended: Ended = lambda name: None,
    *,
    on_gpu: bool = False,
) -> None:
    """Runs up to ``jobs`` at a time: in forked processes, or as Ray tasks.

    Args:
        work: returns the next run when one can begin, after ``ended`` was called for all before.
        jobs: how many at a time; None: one per core, and here as many as free memory has room for
            by what those take that have done a round.
        address: of a Ray cluster; None: they run on this machine.
        progress: is called with rows (``ProgressCallback``).
        ended: is called with each run that has ended.
        on_gpu: whether a run trains on a GPU, which a forked process cannot use: Ray shares it out.
            Ray is taken, too, where a fork of this process could not train.
    """
    if on_gpu or address is not None or not forks_train():
        run_on_ray(work, jobs or cores(), address, progress, ended)
    else:
        _run_forked(work, jobs, progress, ended)


class _Worker:
    """A process, and the run that it carries out; None: it waits."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,))
        self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid
        theirs.close()  # a worker that is gone then ends the line
        self.item: RunSpec | None = None
        self.trained = False

    def begin(self, item: RunSpec) -> None:
        self.item = item
        name, config, folder = item
        self.tell((name, SentConfig(config), folder))

    def tell(self, what: object) -> None:
        """Sends it. That the process is gone shows where it is waited for."""
        with suppress(OSError):
            self.line.send(what)

    def end(self) -> None:
        """Ends the process, with its run if it has one."""
        if self.item is not None:
            self.process.kill()
        else:
            self.tell(None)
        self.process.join()


def _run_forked(
    work: Iterable[RunSpec], jobs: int | None, progress: ProgressCallback | None, ended: Ended
) -> None:
    """As ``run_on_ray``, in processes of this machine's own.

    A run whose process was killed goes on from its checkpoint in another, twice at most.
    """
    tries, workers = Tries(work), list[_Worker]()
    limit = jobs or cores()
    try:
        while True:
            busy = [worker for worker in workers if worker.item]
            while len(busy) < limit:
                idle = [worker for worker in workers if not worker.item]
                if not (idle or jobs or _room(workers)):
                    break
                if not (item := tries.next()):
                    break
                if not idle:
                    workers.append(_Worker())
                    idle = workers[-1:]
                idle[0].begin(item)
                busy.append(idle[0])
            if not busy:
                break
            ready = wait([worker.line for worker in busy])
            for worker in busy:
                if worker.line not in ready:
                    continue
                assert worker.item
                name, config, folder = worker.item
                try:
                    answer = worker.line.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    worker.process.join()
                    code = worker.process.exitcode
                    reason = f"its process ended with {code} (a signal, if below 0)"
                    if tries.goes_on(worker.item, reason):
                        continue
                    record(config, folder, RunFailed(f"{reason}, {TRIES} times"))
                    answer = None
                if answer is None:
                    worker.item = None
                    ended(name)
                elif answer == _COMPILES:
                    compiling_elsewhere()
                elif isinstance(answer, logging.LogRecord):
                    logging.getLogger(answer.name).handle(answer)
                else:
                    worker.trained = True
                    worker.tell(progress(*answer) if progress else None)
    finally:
        for worker in workers:
            worker.end()


def _room(workers: list[_Worker]) -> bool:
    """Whether free memory has room for another, with as much again to spare."""
    if not all(worker.trained for worker in workers):
        return False  # what it takes is not known yet
    try:
        return ram()[1] > 2 * max((own_ram(worker.pid) for worker in workers), default=0)
    except OSError:  # one is gone, which is seen where it is waited for
        return False


class _LogForwarder(QueueHandler):
    """Hands what is logged to a function, in a form that goes to another process."""

    def __init__(self, tell: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(SimpleQueue())
        self._tell = tell

    def enqueue(self, record: logging.LogRecord) -> None:
        """See ``QueueHandler``, which has made it fit to be sent."""
        self._tell(record)


def _serve(line: Connection) -> None:
    """A worker's loop: run after run, until a message ends it."""
    begin_child()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # the terminal only shows what comes through ``line``
        os.dup2(nowhere, stream)

    one_at_a_time = Lock()

    def tell(what: tuple[str, dict[str, Any]] | str | logging.LogRecord) -> None:
        with one_at_a_time:
            line.send(what)

    log = logging.getLogger("fedsim")
    log.handlers, log.propagate = [_LogForwarder(tell)], False

    def ask(name: str, row: dict[str, Any], bundle: object) -> str | None:
        tell((name, row))
        return line.recv()

    with compiling_told(lambda _: tell(_COMPILES)):
        while (item := line.recv()) is not None:
            name, sent, folder = item
            parallel.attempt(sent.config, folder, Pins(partial(ask, name)))
            line.send(None)
