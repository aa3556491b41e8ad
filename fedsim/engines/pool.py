"""Ray workers of Flower's simulation; one that is lost is replaced, and its message done again."""

import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from threading import Condition, Event, Thread
from typing import Any, NamedTuple

import ray
from flwr.clientapp import ClientApp
from flwr.simulation.ray_transport.ray_actor import BasicActorPool
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError

from fedsim.engines.lost import AGAIN

_LOOK_SECONDS = 0.5
_AT_ONCE = 2  # messages that a worker has: one that it does, and the next


@dataclass(frozen=True)
class Once:
    """Gives the clients' app; a worker unpacks it for its first message and keeps it.

    ``packed``: what Flower would send with every message.
    """

    packed: "ray.ObjectRef[Callable[[], ClientApp]]"

    def __call__(self) -> ClientApp:
        return _unpacked(self.packed)


@lru_cache(maxsize=1)
def _unpacked(packed: "ray.ObjectRef[Callable[[], ClientApp]]") -> ClientApp:
    return ray.get(packed)()


class _Work(NamedTuple):
    """What a worker does, and in which of its lives."""

    worker: int
    life: int
    actor_fn: Any
    job: tuple[Any, ...]


class Pool(BasicActorPool):
    """Flower's pool of workers, of which some may be lost, with their machine or alone.

    A message whose worker is lost goes to another that is there: all that a client knows comes with
    the message, and the reply is the same. A worker that Ray has replaced serves again; where no
    machine has room for it, the others do its work. A message waits at a worker that is busy, so
    that a worker has the next one at once.

    ``over``: set when the server is done; who still waits for a worker or for its reply, as that of
    a client that hangs, then gets a ``CancelledError``.
    """

    def __init__(self, over: Event, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._room: dict[int, int] = {}  # worker that is there -> how many messages it may get
        self._lives: Counter[int] = Counter()  # worker -> how often it was lost
        self._work: dict[Any, _Work] = {}  # by future
        self._change = Condition()
        self._app: Once | None = None
        self._over, self._waiting = over, list[Thread]()

    def add_actors_to_pool(self, num_actors: int) -> None:
        super().add_actors_to_pool(num_actors)
        self._room = dict.fromkeys(range(num_actors), _AT_ONCE)
        self.num_actors = _AT_ONCE * num_actors  # threads of Flower's that wait for a reply each

    def submit(self, actor_fn: Any, job: tuple[Any, ...]) -> Any:
        with self._change:
            if self._app is None:
                self._app = Once(ray.put(job[0]))
        return self._give(self._take(), actor_fn, (self._app, *job[1:]))

    def add_actor_back_to_pool(self, future: Any) -> None:
        if future in self._work:
            self._leave(self._work.pop(future))

    def fetch_result_and_return_actor_to_pool(self, future: Any) -> tuple[Any, Any]:
        for losses in count(1):
            try:
                _, reply, context = self._got(future)
            except (RayActorError, ObjectLostError):
                work = self._work.pop(future)
                self._lose(work.worker, work.life)
                if losses > AGAIN or not ray.is_initialized():  # to ask it would start another
                    raise
                while not self._answers(worker := self._take()):
                    self._lose(worker, self._lives[worker])
                future = self._give(worker, *work[2:])
            else:
                self.add_actor_back_to_pool(future)
                break
        return reply, context

    def terminate_all_actors(self) -> None:
        self._over.set()
        for thread in self._waiting:  # Ray would break off under one that asks it
            thread.join()
        super().terminate_all_actors()

    def _take(self) -> int:
        """The worker that is there and has least to do; waits until there is one."""
        with self._change:
            while not any(self._room.values()):
                if self._over.is_set():
                    raise CancelledError
                self._change.wait(_LOOK_SECONDS)
            worker = max(self._room, key=self._room.__getitem__)
            self._room[worker] -= 1
            return worker

    def _give(self, worker: int, actor_fn: Any, job: tuple[Any, ...]) -> Any:
        life = self._lives[worker]
        future = actor_fn(self.pool[worker], *job)
        self._work[future] = _Work(worker, life, actor_fn, job)
        return future

    def _leave(self, work: _Work) -> None:
        with self._change:
            if work.life == self._lives[work.worker]:
                self._room[work.worker] += 1
                self._change.notify()

    def _answers(self, worker: int) -> bool:
        """Whether a worker is there; waits until it has done what it has to do before."""
        actor: Any = self.pool[worker]
        try:
            self._got(actor.__ray_ready__.remote())
        except RayActorError:
            return False
        return True

    def _got(self, asked: Any) -> Any:
        while not self._over.is_set():
            with suppress(GetTimeoutError):
                return ray.get(asked, timeout=_LOOK_SECONDS)
        raise CancelledError

    def _lose(self, worker: int, life: int) -> None:
        """Tells, once, that a worker is lost, and takes it back when it is there again."""

        def back() -> None:
            with suppress(CancelledError):
                while not (ray.is_initialized() and self._answers(worker)):
                    if self._over.wait(_LOOK_SECONDS):
                        return
                with self._change:
                    self._room[worker] = _AT_ONCE
                    self._change.notify_all()

        with self._change:
            if life != self._lives[worker]:
                return
            self._lives[worker] += 1
            self._room.pop(worker, None)
        logging.getLogger("fedsim").warning(
            "Ray lost a worker (%d so far) and replaces it; its message is done again",
            self._lives.total(),
        )
        self._waiting.append(Thread(target=back, daemon=True))
        self._waiting[-1].start()
