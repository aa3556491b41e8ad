"""Ray's actors that train clients; one that is lost is replaced, and its messages sent again."""

import itertools
import logging
import math
import pickle
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

import ray
import torch
from ray.exceptions import ObjectLostError, OutOfMemoryError, RayActorError, RayError
from torch import Tensor

from compressors import State
from fedsim.engines import cluster
from fedsim.engines.local import reason_of
from fedsim.engines.remote import AppOf, ClientStates, Job, RemoteAnswer, RemoteClients, RemoteGrid
from fedsim.ground.errors import RunFailed, UsageError

AGAIN = 3  # how often a message is sent again whose worker was lost; then the run ends
JOBS_PER_WORKER = 2  # messages that a worker has: one that it answers, and the next

_LOOK_SECONDS = 0.5
_LOST = (RayActorError, ObjectLostError, OutOfMemoryError)

_ALIGNED = 64

Packed = tuple[bytes, Any]
"""A message as Ray copies it fastest: its plain values pickled, its tensors in one numpy array."""


class Worker:
    """A Ray actor that keeps the clients' app and answers messages."""

    def __init__(self) -> None:
        self._app_of: list[ray.ObjectRef[AppOf]] = []
        self._clients: RemoteClients | None = None

    def ready(self, app_of: "list[ray.ObjectRef[AppOf]]") -> None:
        """Returns when all before it is done; ``app_of``: the reference of what makes the app."""
        self._app_of = app_of

    def answer(self, head: bytes, data: Any) -> Packed | None:
        """A client's answer, packed as its message is; None of one that Ray has replaced.

        The app is unpacked for the first message.
        """
        if not self._app_of:
            return None
        try:
            if self._clients is None:
                self._clients = RemoteClients(ray.get(self._app_of[0]))
        except (Exception, SystemExit) as error:  # Ray would not replace an actor that exits
            return pack_for_ray(reason_of(error), None)
        (records, node), memory = unpack_from_ray((head, data))
        return pack_for_ray(*self._clients.answer((records, node, memory or {})))


class _Assignment(NamedTuple):
    """A job at a worker, in which of its lives, and whether it was there before the job came."""

    job: Job
    worker: int
    life: int
    ready: Any


class Workers:
    """Actors that answer messages, of which some may be lost, with their machine or alone.

    A job whose worker is lost waits for another that is there: all that a client knows comes with
    the message, and the answer is the same. A worker that Ray has replaced serves again; where no
    machine has room for it, the others do its work. A run ends where a job lost too many.

    ``gpus``: the share of a GPU that Ray sets aside for each. Raises ``UsageError`` where the app
    cannot be sent to them.
    """

    def __init__(self, app_of: AppOf, count: int, gpus: float) -> None:
        try:
            self._app_of = [ray.put(app_of)]
        except Exception as error:
            raise UsageError(
                f"--engine is 'ray': the task cannot be sent to Ray's workers ({reason_of(error)})"
            ) from error
        actor: Any = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1)(Worker)
        self._actors = [actor.remote() for _ in range(count)]
        self._room: dict[int, int] = {}  # worker that is there -> how many jobs it may get
        self._lives: Counter[int] = Counter()  # worker -> how often it was lost
        self._assignments: dict[Any, _Assignment] = {}  # by reference of the answer
        self._probes: dict[Any, int] = {}  # workers that are asked whether they are there
        self._absent: dict[int, float] = {}  # worker -> when it is asked again
        for worker in range(count):
            self._ask(worker)

    @property
    def free(self) -> bool:
        return any(self._room.values())

    def submit(self, job: Job) -> None:
        """Gives a job to the worker that has least to do, of those that are there."""
        worker = max(self._room, key=self._room.__getitem__)
        self._room[worker] -= 1
        actor, (*plain, memory) = self._actors[worker], job.request
        ready = actor.ready.remote(self._app_of) if job.losses else None
        answer = actor.answer.remote(*pack_for_ray(plain, memory))
        self._assignments[answer] = _Assignment(job, worker, self._lives[worker], ready)

    def wait(self, seconds: float) -> tuple[Job, RemoteAnswer | None] | None:
        for worker in [w for w, at in self._absent.items() if at <= time.monotonic()]:
            del self._absent[worker]
            self._ask(worker)
        open_, seconds = [*self._probes, *self._assignments], min(seconds, _LOOK_SECONDS)
        if not open_:
            time.sleep(seconds)
            return None
        done, _ = ray.wait(open_, timeout=seconds)
        if not done:
            return None
        if (one := done[0]) in self._probes:
            self._heard(one)
            return None
        assignment = self._assignments.pop(one)
        return assignment.job, self._taken(one, assignment)

    def close(self) -> None:
        for actor in self._actors:
            with suppress(RayError):
                ray.kill(actor)

    def _ask(self, worker: int) -> None:
        self._probes[self._actors[worker].ready.remote(self._app_of)] = worker

    def _heard(self, probe: Any) -> None:
        """Takes a worker back that is there; asks one that is not later."""
        worker = self._probes.pop(probe)
        try:
            ray.get(probe)
            self._room[worker] = JOBS_PER_WORKER
        except _LOST:
            self._absent[worker] = time.monotonic() + _LOOK_SECONDS

    def _taken(self, reference: Any, assignment: _Assignment) -> RemoteAnswer | None:
        """What a worker has answered; None where it was lost."""
        job, worker, life, ready = assignment
        try:
            answer = ray.get(reference)
        except _LOST as error:
            self._lose(worker, life)
            if ready is None or _was_there(ready):
                job.losses += 1
            if job.losses > AGAIN:
                raise RunFailed(
                    f"Ray lost the worker of a client {AGAIN + 1} times in a row: the clients may "
                    "need more memory than the machine has (fewer --workers need less)"
                ) from error
            return None
        except RayError as error:  # what came or went cannot be read: the client's failure
            answer = pack_for_ray(reason_of(error), None)
        if answer is None:  # it was lost and replaced before the message came
            self._lose(worker, life)
            return None
        if life == self._lives[worker]:
            self._room[worker] += 1
        records, memory = unpack_from_ray(answer)
        return records, memory

    def _lose(self, worker: int, life: int) -> None:
        """Tells, once, that a worker is lost, and asks it until it is there again."""
        if life != self._lives[worker]:
            return
        self._lives[worker] += 1
        self._room.pop(worker)
        logging.getLogger("fedsim").warning(
            "Ray lost a worker (%d so far) and replaces it; its message is done again",
            self._lives.total(),
        )
        self._ask(worker)


def _was_there(probe: Any) -> bool:
    """Whether a worker was there when it got its next message: then that one has cost it."""
    try:
        ray.get(probe)
    except _LOST:
        return False
    return True


def pack_for_ray(plain: Any, memory: State | None) -> Packed:
    """What travels, as Ray copies it fastest: plain values, and a memory from any device.

    Example:
        >>> unpack_from_ray(pack_for_ray("a reply", {"w": torch.arange(3.0)}))
        ('a reply', {'w': tensor([0., 1., 2.])})
    """
    if memory is None:
        return pickle.dumps((plain, None), protocol=5), None
    on_host = {name: x.detach().cpu().contiguous() for name, x in memory.items()}
    sizes = [_padded(x.numel() * x.element_size()) for x in on_host.values()]
    starts = [0, *itertools.accumulate(sizes)]
    data = torch.empty(starts[-1], dtype=torch.uint8)
    layout = []
    for start, (name, x) in zip(starts, on_host.items(), strict=False):
        _part(data, start, x.dtype, x.numel()).copy_(x.reshape(-1))
        layout.append((name, start, x.dtype, tuple(x.shape)))
    return pickle.dumps((plain, layout), protocol=5), data.numpy()


def unpack_from_ray(message: Packed) -> tuple[Any, State | None]:
    """The way back from ``pack_for_ray``; a copy, which keeps nothing in Ray's store."""
    plain, layout = pickle.loads(message[0])
    if layout is None:
        return plain, None
    data = torch.from_numpy(message[1].copy())
    return plain, {
        name: _part(data, start, dtype, math.prod(shape)).reshape(shape)
        for name, start, dtype, shape in layout
    }


def _part(data: Tensor, start: int, dtype: torch.dtype, count: int) -> Tensor:
    return data[start : start + count * dtype.itemsize].view(dtype)


def _padded(size: int) -> int:
    return math.ceil(size / _ALIGNED) * _ALIGNED


def count_places(gpus: float) -> int:
    """How many workers of one core the cluster has room for, machine by machine.

    ``gpus``: the share of a GPU that each takes. Raises ``UsageError`` where it has room for none.
    """
    room = 0
    for machine in (node["Resources"] for node in ray.nodes() if node["Alive"]):
        cores = machine.get("CPU", 0.0)
        room += math.floor(min(cores, machine.get("GPU", 0.0) / gpus + 1e-9) if gpus else cores)
    if not room:
        raise UsageError(
            f"--engine is 'ray': no machine of the cluster has a core and {gpus:g} of a GPU "
            "(--gpus-per-client) for a client"
        )
    return room


@contextmanager
def on_ray(
    app_of: AppOf,
    clients: int,
    states: ClientStates,
    workers: int,
    address: str | None,
    gpus: float,
) -> Iterator[RemoteGrid]:
    """A grid on a cluster of its own, or on that at ``address``, all of whose cores serve clients.

    ``workers``: how many train at once on a cluster of its own; ``gpus``: the share of a GPU that
    Ray sets aside for a client; it sees no other GPU.

    Raises ``UsageError`` where no cluster answers at ``address``, this process has one already, or
    no machine has room for a client.
    """
    cluster.connect(workers, address, "--engine is 'ray'")
    try:
        actors = Workers(app_of, count_places(gpus), gpus)
        with closing(RemoteGrid(app_of, clients, states, actors)) as grid:
            yield grid
    finally:
        ray.shutdown()
