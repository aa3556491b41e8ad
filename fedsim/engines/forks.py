"""The clients' app in processes that are forked from this one.

Threads that train wait for each other's Python; processes do not. A fork shares what this process
has imported and loaded. A client's memory stays here: it leaves with a message and comes back with
the reply, so that a process that is lost takes nothing with it.
"""

import logging
import math
import mmap
import multiprocessing
import os
import pickle
import queue
from io import BytesIO
from typing import Any

import torch
from flwr.app import Context, Message, MessageType
from flwr.clientapp import ClientApp
from torch import Tensor

from fedsim.engines.numbered_grid import reason_of
from fedsim.engines.remote import (
    AppOf,
    RemoteAnswer,
    RemoteClients,
    States,
    remote_reply,
    remote_request,
)
from fedsim.ground.children import begin_child
from fedsim.ground.compiling import compiling_elsewhere, compiling_told
from fedsim.ground.errors import UsageError, reason
from fedsim.ground.threads import lock_of_process

_LARGE = 1 << 14
"""Bytes from which on a payload goes past the pipe."""
_ALIGNED = 64
_COMPILES = "compiles"
_FORKING = lock_of_process()
"""Whose fork holds the ways of another would keep them open when that one is gone."""


class ForkedApp(ClientApp):
    """Answers training messages in the first process that is free, and all others here.

    The answer of a process that is gone is asked for again of another: it would have been the same.

    Args:
        app_of: makes the clients' app over the place of their memory.
        states: where it lies here.
        count: of processes.
    """

    def __init__(self, app_of: AppOf, states: States, count: int) -> None:
        super().__init__()
        self._local_app, self._states = app_of(states), states
        self._living, self._closed, self._exit = count, False, ""
        self._idle: queue.SimpleQueue[_Child | None] = queue.SimpleQueue()
        self._children = list[_Child]()
        try:
            while len(self._children) < count:
                self._children.append(_Child(app_of))
                self._idle.put(self._children[-1])
        except BaseException as error:
            begun = len(self._children)
            self.close()
            if not isinstance(error, OSError):
                raise
            raise UsageError(
                f"--workers is {count}: the system starts {begun} processes, and refuses another "
                f"({reason(error)}); give fewer, or raise its limits (ulimit -a shows them)"
            ) from error

    def __call__(self, message: Message, context: Context) -> Message:
        """A reply, or why there is none."""
        if message.metadata.message_type != MessageType.TRAIN:
            return self._local_app(message, context)
        request = remote_request(message, context, self._states)
        while (child := self._idle.get()) is not None:
            try:
                answer = child.ask(request)
            except _Ended as ended:
                self._living -= 1
                self._exit = str(ended)
                if not self._closed:
                    logging.getLogger("fedsim").warning(
                        "a process that trains clients ended with %s; %d of %d are left",
                        ended,
                        self._living,
                        len(self._children),
                    )
                if not self._living:
                    self._idle.put(None)
                continue
            except BaseException:  # memory for the message was refused: nothing was sent
                self._idle.put(child)
                raise
            self._idle.put(child)
            return remote_reply(answer, message, context, self._states)
        self._idle.put(None)
        raise RuntimeError(f"all processes that train clients have ended, one with {self._exit}")

    def close(self) -> None:
        """Ends the processes, also those at work."""
        self._closed = True
        self._idle.put(None)
        for child in self._children:
            child.process.kill()
        for child in self._children:
            child.end()


class _Ended(Exception):
    """A process is gone, or was ended as its answer could not be had; says with what."""


class _Child:
    """A process, which answers one message after the other."""

    def __init__(self, app_of: AppOf) -> None:
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=self._serve, args=(app_of,), daemon=True)
        with _FORKING:
            self._requests, self._replies = _Channel(copies=False), _Channel(copies=True)
            try:
                self.process.start()
            except BaseException:
                self._requests.close()
                self._replies.close()
                raise
            self._requests.reads.close()
            self._replies.writes.close()  # a process that is gone then ends this way

    def ask(self, what: object) -> RemoteAnswer:
        """Sends a message and waits for the answer.

        Raises ``_Ended``; and errors of writing the message, before any of it is sent.
        """
        stream = self._requests.written(what)
        try:
            self._requests.writes.send_bytes(stream)
            while (answer := self._replies.receive()) == _COMPILES:
                compiling_elsewhere()
            if isinstance(answer, tuple):
                return answer
            cause = answer
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
        self._replies.close()

    def _serve(self, app_of: AppOf) -> None:
        begin_child()
        self._requests.writes.close()
        self._replies.reads.close()
        multiprocessing.current_process().daemon = False  # so that a client may start processes
        clients = RemoteClients(app_of)
        with compiling_told(lambda _: self._replies.send(_COMPILES)):
            try:
                while True:
                    self._replies.send(clients.answer(self._requests.receive()))
            except (EOFError, ConnectionError):
                return  # its parent is gone
            except Exception as error:  # memory for a message was refused
                self._replies.send(reason_of(error))


class _Channel:
    """One direction between two processes: values go through a pipe, what is large past it.

    Tensors and payloads are written to memory that both processes see. A payload that was in the
    message before is named: a round's clients are sent the same, which a client decodes once.

    Args:
        copies: whether tensors are copied when they come; else they are views, until the next.
    """

    def __init__(self, copies: bool) -> None:
        self._copies = copies
        self._file = os.fdopen(os.memfd_create("fedsim"), "r+b", buffering=0)
        self.reads, self.writes = multiprocessing.Pipe(duplex=False)
        self._both = memoryview(b"")
        self._payloads: list[bytes] = []  # of the message before

    def close(self) -> None:
        """Gives back what this process has of it; the views of tensors live as long as they do."""
        for part in (self.reads, self.writes, self._file):
            part.close()
        self._both, self._payloads = memoryview(b""), []

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
