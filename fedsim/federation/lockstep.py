"""Runs of one process whose clients train together, each run in a thread of its own.

One thread runs at a time. It goes on until its run has clients to train; when all wait for that,
the clients of all are trained as one stack, and each run goes on with its own.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

import torch

from fedsim.federation.stackedsteps import StackJob
from fedsim.federation.stacks import Result, Stack
from fedsim.ground.threads import one_thread

Returned = TypeVar("Returned")

_END_SECONDS = 5.0
"""How long a run that trains is waited for after Ctrl-C; it ends with the process."""


class _Ended(KeyboardInterrupt):
    """The others were broken off, as by Ctrl-C: no run goes on, and none has failed."""


class _Parked:
    """A thread that waits for its turn; ``jobs``: what it wants trained before."""

    def __init__(self, stack: Stack | None = None, jobs: Sequence[StackJob] = ()) -> None:
        self.stack, self.jobs = stack, jobs
        self.results: list[Result] = []
        self._turn = threading.Semaphore(0)
        self.wait, self.go_on = self._turn.acquire, self._turn.release


class Lockstep:
    """Several runs of one ``Fit.model``, trained together.

    Example:
        >>> Lockstep().carry_out([lambda: "each in a thread", lambda: "one at a time"])
        ['each in a thread', 'one at a time']
    """

    def __init__(self) -> None:
        # Changed by the thread whose turn it is, alone; all others are in one of them.
        self._ready, self._waiting = deque[_Parked](), list[_Parked]()
        self._ended: BaseException | None = None

    def carry_out(self, works: Sequence[Callable[[], Returned]]) -> list[Returned]:
        """The results of all works, which call ``train`` from their own threads.

        Raises what a work raised, or Ctrl-C, once the others have left their folders.
        """
        outcomes: dict[int, Returned] = {}

        def carry(i: int, place: _Parked) -> None:
            torch.set_num_threads(1)
            place.wait()
            try:
                if self._ended is None:
                    outcomes[i] = works[i]()
            except BaseException as error:
                self._ended = self._ended or error
            finally:
                self._pass_on()

        self._ready.extend(_Parked() for _ in works)
        threads = [
            threading.Thread(target=carry, args=(i, place), daemon=True)
            for i, place in enumerate([*self._ready])
        ]
        with one_thread():
            for thread in threads:
                thread.start()
            try:
                self._pass_on()
                for thread in threads:
                    thread.join()
            except BaseException as error:
                self._ended = error
                for thread in threads:
                    thread.join(_END_SECONDS / len(threads))
                raise
        if self._ended is not None:
            raise self._ended
        return [outcomes[i] for i in range(len(works))]

    def train(self, stack: Stack, jobs: Sequence[StackJob]) -> list[Result]:
        """As ``stack.train_all``, together with the jobs of the other runs."""
        parked = _Parked(stack, jobs)
        self._waiting.append(parked)
        self._pass_on()
        parked.wait()
        if self._ended is not None:
            raise _Ended
        return parked.results

    def _pass_on(self) -> None:
        """Gives the turn to the next thread, after training what all wait for."""
        if not self._ready or self._ended is not None:
            self._ready.extend(self._waiting)
            waiting, self._waiting = self._waiting, []
            if waiting and self._ended is None:
                _train(waiting)
        if self._ready:
            self._ready.popleft().go_on()


def _train(waiting: Sequence[_Parked]) -> None:
    """Trains what these threads wait for; where that fails, each hears why."""
    jobs = [one for parked in waiting for one in parked.jobs]
    stack = waiting[0].stack
    assert stack is not None
    try:
        results = iter(stack.train_all(jobs))
    except Exception as error:
        results = iter([error] * len(jobs))
    for parked in waiting:
        parked.results = list(islice(results, len(parked.jobs)))
