"""Processes that train clients: forked from this one, or new ones where a fork could not train.

Clients in one process would wait for each other's Python. A fork shares what this process has
imported and loaded; a new process imports it again, and takes what a script or a notebook defines
by value. A client's memory stays here: it leaves with a message and comes back with the reply, so
that a process that is lost takes nothing with it.
"""

import logging
import math
import mmap
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import BytesIO
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from torch import Tensor

from fedsim.engines import heap
from fedsim.engines.flowerlog import flower_quiet
from fedsim.engines.local import reason_of
from fedsim.engines.remote import AppOf, Job, RemoteAnswer, RemoteClients
from fedsim.ground.children import begin_child
from fedsim.ground.compiling import compiling_elsewhere, compiling_told
from fedsim.ground.errors import RunFailed, UsageError, reason
from fedsim.ground.threads import lock_of_process

_LARGE = 1 << 14  # bytes from which on a payload goes past the pipe
_ALIGNED = 64
_COMPILES, _READY = "compiles", "ready"
_FORKING = lock_of_process()
"""Whose fork holds the ways of another would keep them open when that one is gone."""


class Processes:
    """Processes of this machine that answer jobs.

    A job whose process is gone is to be given to another: the answer would have been the same.

    Args:
        app_of: makes the clients' app over the place of their memory.
        count: of processes.
        spawned: whether they are new processes instead of forked ones.
        environment: of a new process by its number, from 0: what differs from this one's.

    Raises ``UsageError`` where the system refuses a process, or a new one cannot import the task.
    """

    def __init__(
        self,
        app_of: AppOf,
        count: int,
        spawned: bool = False,
        environment: Callable[[int], Mapping[str, str]] = lambda number: {},
    ) -> None:
        self._children, self._idle = list[_Child](), list[_Child]()
        self._jobs: dict[_Child, Job] = {}
        self._living, self._exit = count, ""
        packed = _packed(app_of, count) if spawned else b""
        try:
            while len(self._children) < count:
                more = environment(len(self._children))
                self._children.append(_spawn(packed, more) if spawned else _fork(app_of))
            for child in self._children if spawned else []:
                child.begun(count)
        except BaseException as error:
            begun = len(self._children)
            self.close()
            if not isinstance(error, OSError):
                raise
            raise UsageError(
                f"--workers is {count}: the system starts {begun} processes, and refuses another "
                f"({reason(error)}); give fewer, or raise its limits (ulimit -a shows them)"
            ) from error
        self._idle = self._children[::-1]

    @property
    def free(self) -> bool:
        return bool(self._idle)

    def submit(self, job: Job) -> None:
        self._idle[-1].send(job.request)
        self._jobs[self._idle.pop()] = job

    def wait(self, seconds: float) -> tuple[Job, RemoteAnswer | None] | None:
        if not self._living:
            raise RunFailed(f"all processes that train clients have ended, one with {self._exit}")
        by_pipe = {child.replies.reads: child for child in self._jobs}
        for pipe in wait([*by_pipe], seconds):
            assert isinstance(pipe, Connection)
            child = by_pipe[pipe]
            try:
                answer = child.receive()
            except _Ended as ended:
                self._living -= 1
                self._exit = str(ended)
                logging.getLogger("fedsim").warning(
                    "a process that trains clients ended with %s; %d of %d are left",
                    ended,
                    self._living,
                    len(self._children),
                )
                return self._jobs.pop(child), None
            if answer is not None:
                self._idle.append(child)
                return self._jobs.pop(child), answer
        return None

    def close(self) -> None:
        for child in self._children:
            child.process.kill()
        for child in self._children:
            child.end()


class _Ended(Exception):
    """A process is gone, or was ended as its answer could not be had; says with what."""


class _Spawned(subprocess.Popen[bytes]):
    """A process, with the names that ``multiprocessing`` has for the same."""

    @property
    def exitcode(self) -> int:
        return int(self.returncode)

    def join(self) -> None:
        self.wait()


class _Child:
    """A process, which answers one message after the other."""

    def __init__(self, process: Any, requests: "_Channel", replies: "_Channel") -> None:
        self.process, self._requests, self.replies = process, requests, replies
        requests.reads.close()
        replies.writes.close()  # a process that is gone then ends this way

    def begun(self, count: int) -> None:
        """Waits until the process has the clients' app; raises ``UsageError`` where it has not."""
        try:
            answer = self.replies.receive()
        except (EOFError, ConnectionError):
            self.process.join()
            answer = f"it ended with {self.process.exitcode}"
        if answer != _READY:
            raise _refused(count, answer)

    def send(self, request: object) -> None:
        """Sends a message; that the process is gone shows where its answer is waited for."""
        stream = self._requests.written(request)
        with suppress(ConnectionError):
            self._requests.writes.send_bytes(stream)

    def receive(self) -> RemoteAnswer | None:
        """The answer; None where the process had something else to say. Raises ``_Ended``."""
        try:
            answer = self.replies.receive()
            if isinstance(answer, tuple):
                return answer
            if answer == _COMPILES:
                compiling_elsewhere()
                return None
            cause = str(answer)
        except Exception as error:
            is_lost = isinstance(error, (EOFError, ConnectionError))
            cause = "" if is_lost else reason_of(error)
        self.process.kill()  # what it sends next would not be what it is asked for
        self.process.join()
        raise _Ended(cause or f"{self.process.exitcode} (a signal, if below 0)")

    def end(self) -> None:
        """After its process was killed."""
        self.process.join()
        self._requests.close()
        self.replies.close()


def _fork(app_of: AppOf) -> _Child:
    context = multiprocessing.get_context("fork")
    with _FORKING:
        channels = requests, replies = _Channel(copies=False), _Channel(copies=True)
        process = context.Process(target=_serve_forked, args=(app_of, *channels), daemon=True)
        try:
            process.start()
        except BaseException:
            requests.close()
            replies.close()
            raise
        return _Child(process, requests, replies)


def _serve_forked(app_of: AppOf, requests: "_Channel", replies: "_Channel") -> None:
    begin_child()
    requests.writes.close()
    replies.reads.close()
    multiprocessing.current_process().daemon = False  # so that a client may start processes
    _serve(app_of, requests, replies)


def _serve(app_of: AppOf, requests: "_Channel", replies: "_Channel") -> None:
    clients = RemoteClients(app_of)
    with compiling_told(lambda _: replies.send(_COMPILES)):
        try:
            while True:
                replies.send(clients.answer(requests.receive()))
        except (EOFError, ConnectionError):
            return  # its parent is gone
        except Exception as error:  # memory for a message was refused
            replies.send(reason_of(error))


def _spawn(packed: bytes, environment: Mapping[str, str]) -> _Child:
    """A new process, which runs nothing of the main module; ``packed``: see ``_packed``."""
    requests, replies = _Channel(copies=False), _Channel(copies=True)
    ends = *requests.ends(requests.reads), *replies.ends(replies.writes)
    code = f"from {__name__} import serve_spawned; serve_spawned({os.getpid()}, *{ends})"
    folders = os.pathsep.join(map(os.path.abspath, sys.path))
    try:
        process = _Spawned(
            [sys.executable, "-P", "-c", code],
            pass_fds=ends,
            env={**os.environ, "PYTHONPATH": folders, **environment},
            process_group=0,  # Ctrl-C is for this process
        )
    except BaseException:
        requests.close()
        replies.close()
        raise
    child = _Child(process, requests, replies)
    child.send(packed)
    return child


def serve_spawned(
    parent: int, requests_file: int, requests_pipe: int, replies_file: int, replies_pipe: int
) -> None:
    """What a new process does: answers messages until its parent, a process id, is gone.

    The other arguments are the descriptors of both channels: of their memory and of their pipe.
    """
    begin_child(parent)
    heap.keep()
    reads = Connection(requests_pipe, writable=False)
    writes = Connection(replies_pipe, readable=False)
    requests = _Channel(False, requests_file, (reads, reads))
    replies = _Channel(True, replies_file, (writes, writes))
    try:
        app_of = pickle.loads(requests.receive())
    except BaseException as error:
        replies.send(reason_of(error))
        return
    replies.send(_READY)
    with flower_quiet():
        _serve(app_of, requests, replies)


def _packed(app_of: AppOf, count: int) -> bytes:
    """What makes the clients' app, as a new process can load it."""
    from numba import cloudpickle  # takes what a script or a notebook defines by value

    try:
        packed: bytes = cloudpickle.dumps(app_of)
    except Exception as error:
        raise _refused(count, reason_of(error)) from error
    return packed


def _refused(count: int, cause: str) -> UsageError:
    return UsageError(
        f"--workers is {count}: clients train in new processes here, which cannot load the task "
        f"({cause}); define it in the script or notebook itself, or in a module that `import` "
        "finds on PYTHONPATH, or give --workers 1"
    )


class _Channel:
    """One direction between two processes: values go through a pipe, what is large past it.

    Tensors and payloads are written to memory that both processes see. A payload that was in the
    message before is named: a round's clients are sent the same, which a client decodes once.

    Args:
        copies: whether tensors are copied when they come; else they are views, until the next.
        file: the descriptor of the memory; None: it is made.
        pipe: the end that is read and the one that is written to; None: both are made.
    """

    def __init__(
        self,
        copies: bool,
        file: int | None = None,
        pipe: tuple[Connection, Connection] | None = None,
    ) -> None:
        self._copies = copies
        descriptor = os.memfd_create("fedsim") if file is None else file
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        self.reads, self.writes = pipe or multiprocessing.Pipe(duplex=False)
        self._both = memoryview(b"")
        self._payloads: list[bytes] = []  # of the message before

    def close(self) -> None:
        """Gives back what this process has of it; the views of tensors live as long as they do."""
        for part in (self.reads, self.writes, self._file):
            part.close()
        self._both, self._payloads = memoryview(b""), []

    def ends(self, pipe: Connection) -> tuple[int, int]:
        """Descriptors of the memory and of an end of the pipe."""
        return self._file.fileno(), pipe.fileno()

    def send(self, value: object) -> None:
        self.writes.send_bytes(self.written(value))

    def written(self, value: object) -> memoryview:
        """Writes tensors and payloads to shared memory; returns the bytes for the pipe."""
        writer = _Writer(self._payloads)
        writer.dump(value)
        if (size := writer.size) > len(self._both):
            self._file.truncate(2 * size)
            self._both = memoryview(mmap.mmap(self._file.fileno(), 2 * size))
        for place, part in writer.parts:
            if isinstance(part, bytes):
                self._both[place : place + len(part)] = part
            else:
                self._tensor(place, part.dtype, part.numel()).copy_(part.reshape(-1))
        self._payloads = writer.payloads
        return writer.stream.getbuffer()

    def receive(self) -> Any:
        """What was sent; ``EOFError`` where nobody is there any more."""
        stream = self.reads.recv_bytes()
        if (size := os.fstat(self._file.fileno()).st_size) > len(self._both):
            self._both = memoryview(mmap.mmap(self._file.fileno(), size))
        reader = _Reader(BytesIO(stream))
        reader.channel, reader.payloads = self, []
        value = reader.load()
        self._payloads = reader.payloads
        return value

    def _tensor(self, place: int, dtype: torch.dtype, count: int) -> Tensor:
        """Entries that both processes see."""
        return torch.frombuffer(self._both, dtype=dtype, count=count, offset=place)

    def tensor(self, place: int, dtype: torch.dtype, shape: list[int], order: list[int]) -> Tensor:
        """A tensor that was sent, in the order of memory that it had."""
        count = math.prod(shape)
        flat = self._tensor(place, dtype, count) if count else torch.empty(0, dtype=dtype)
        dense = (flat.clone() if self._copies else flat).view(shape)
        back = sorted(range(len(order)), key=order.__getitem__)
        return dense.permute(back)

    def payload(self, place: int, size: int) -> bytes:
        return bytes(self._both[place : place + size])

    def before(self, i: int) -> bytes:
        return self._payloads[i]


class _Writer(pickle.Pickler):
    """Pickles a value without its tensors and payloads, which go to shared memory."""

    def __init__(self, before: list[bytes]) -> None:
        self.stream = BytesIO()
        super().__init__(self.stream, protocol=5)
        self._before, self.payloads = before, list[bytes]()
        self.parts, self.size = list[tuple[int, Tensor | bytes]](), 0

    def persistent_id(self, x: object) -> tuple[str, Any] | None:
        if isinstance(x, bytes) and len(x) >= _LARGE:
            self.payloads.append(x)
            for i, old in enumerate(self._before):
                if old is x:
                    return "before", (i,)
            return "payload", (self._placed(x, len(x)), len(x))
        if isinstance(x, Tensor):
            order = sorted(range(x.ndim), key=x.stride, reverse=True)
            dense = x.detach().permute(order).contiguous()
            place = self._placed(dense, dense.numel() * dense.element_size())
            return "tensor", (place, dense.dtype, list(dense.shape), order)
        return None

    def _placed(self, part: Tensor | bytes, size: int) -> int:
        place = self.size
        if size:
            self.parts.append((place, part))
        self.size += math.ceil(size / _ALIGNED) * _ALIGNED
        return place


class _Reader(pickle.Unpickler):
    """Reads what a ``_Writer`` has written."""

    channel: _Channel
    payloads: list[bytes]

    def persistent_load(self, named: tuple[str, Any]) -> Tensor | bytes:
        kind, values = named
        if kind == "tensor":
            return self.channel.tensor(*values)
        x = self.channel.payload(*values) if kind == "payload" else self.channel.before(*values)
        self.payloads.append(x)
        return x
