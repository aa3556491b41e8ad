"""The clients' app in other processes: a client's memory comes with the message, and goes back.

The memory stays with the server's process, so that a process that is lost takes nothing with it.
Whoever asks for replies hands messages to workers while it waits: no other thread is needed.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from flwr.app import Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp

from compressors import State
from fedsim.engines import compat
from fedsim.engines.local import RUN, NumberedGrid, call_app, failure_reply, too_late, trace_of
from strategies.channel.payload import settings_in

_LOOK_SECONDS = 1.0  # a wait that takes much longer was interrupted: the process was stopped

PlainRecords = list[tuple[str, type, dict[str, Any]]]
"""The records of a message: name, kind and values of each."""

RemoteRequest = tuple[PlainRecords, dict[str, Any], State]
"""What leaves for another process: a message's records, its node's config, the client's memory."""

RemoteAnswer = tuple[PlainRecords | str | type[KeyboardInterrupt], State | None]
"""What comes back: a reply's records, or why there is none; and the client's memory afterwards.

The memory is None where it stays as it was."""


class ClientStates(Protocol):
    """Loads and commits the memory of the client that a context belongs to."""

    def load(self, context: Context, settings: Mapping[str, Any]) -> State:
        """The memory with which a client answers a message with ``settings``; empty at first."""
        ...

    def commit(self, context: Context, settings: Mapping[str, Any], state: State) -> None:
        """Replaces the memory."""
        ...

    def forget(self, context: Context, settings: Mapping[str, Any]) -> None:
        """The run is done: its memory is not wanted any more."""
        ...


AppOf = Callable[[ClientStates], ClientApp]  # makes the clients' app over the place of their memory


class _Brought:
    """The memory that came with a message, and what it is afterwards."""

    before: State
    after: State | None

    def load(self, context: Context, settings: Mapping[str, Any]) -> State:
        return self.before

    def commit(self, context: Context, settings: Mapping[str, Any], state: State) -> None:
        self.after = state

    def forget(self, context: Context, settings: Mapping[str, Any]) -> None:
        """Nothing stays here."""


class RemoteClients:
    """Clients in this process, whose server is in another; ``app_of`` makes their app."""

    def __init__(self, app_of: AppOf) -> None:
        compat.identify(RUN)
        self._brought = _Brought()
        self._app = app_of(self._brought)

    def answer(self, request: RemoteRequest) -> RemoteAnswer:
        """The answer to a message to train."""
        records, node, self._brought.before = request
        self._brought.after = None
        job = Message(to_record_dict(records), dst_node_id=1, message_type=MessageType.TRAIN)
        try:
            reply = self._app(job, Context(RUN, 1, node, RecordDict(), {}))
            return plain_records(reply.content), self._brought.after
        except Exception as error:
            return trace_of(error), None
        except KeyboardInterrupt:  # a client's own: Ctrl-C is for the server's process alone
            return KeyboardInterrupt, None


def plain_records(content: RecordDict) -> PlainRecords:
    """A message's records as plain values, which are fast to pickle."""
    return [(name, type(record), dict(record)) for name, record in content.items()]


def to_record_dict(records: PlainRecords) -> RecordDict:
    """The way back from ``plain_records``."""
    return RecordDict({name: kind(values) for name, kind, values in records})


class Job:
    """A message at a worker, or on its way to one; ``request``: what the worker is sent."""

    def __init__(self, request: RemoteRequest) -> None:
        self.request, self.losses = request, 0


class WorkerPool(Protocol):
    """Workers that answer jobs, some of which may be lost."""

    @property
    def free(self) -> bool:
        """Whether a worker takes another job."""

    def submit(self, job: Job) -> None:
        """Gives a job to a worker that is free. An error: no worker has it."""

    def wait(self, seconds: float) -> tuple[Job, RemoteAnswer | None] | None:
        """A job with its answer, or with None: its worker was lost, and it is to be given again.

        None where there is none in so many seconds. ``RunFailed``: no answer can be expected.
        """

    def close(self) -> None:
        """Ends the workers, also those that are busy."""


class RemoteGrid(NumberedGrid):
    """Nodes 1 to ``clients``, whose messages to train are answered by workers, all others here.

    A node answers one message after the other. A message that no worker has begun when its round is
    over is not done; the reply to another that comes late is what ``pull_messages`` returns.
    """

    def __init__(
        self, app_of: AppOf, clients: int, states: ClientStates, workers: WorkerPool
    ) -> None:
        super().__init__(clients)
        self.numbered = self._ids
        self._local_app, self._states, self._workers = app_of(states), states, workers
        self._waiting: deque[Message] = deque()
        self._again: deque[Job] = deque()  # their worker was lost
        self._jobs: dict[Job, tuple[Message, Context]] = {}
        self._at_work: set[int] = set()  # nodes
        self._replies: dict[str, Message] = {}  # replies, by the id of what they answer

    def close(self) -> None:
        """Ends the workers; nobody waits for a client that hangs."""
        self._workers.close()

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Replies as they come, until ``timeout`` seconds pass without one.

        ``pull_messages`` has those that come later. Only time in which this process waits counts:
        not that of the caller between two replies, nor that in which the process is stopped.
        """
        left = limit = math.inf if timeout is None else timeout
        in_flight = dict[str, Message]()
        for message in messages:
            compat.name(message, f"message-{next(self._count)}")
            in_flight[message.metadata.message_id] = message
            if message.metadata.message_type == MessageType.TRAIN:
                self._waiting.append(message)
            else:
                self._come(call_app(self._local_app, message, self.new_context(message)))
        try:
            while in_flight:
                for reply in self._pulled(in_flight):
                    del in_flight[reply.metadata.reply_to_message_id]
                    yield reply
                if in_flight:
                    start = time.monotonic()
                    replied = self._work(max(0.0, min(left, _LOOK_SECONDS)))
                    waited = min(time.monotonic() - start, 2 * _LOOK_SECONDS)
                    left = limit if replied else left - waited
                if left <= 0:
                    break
            yield from self._pulled(in_flight)
        finally:
            waiting, self._waiting = self._waiting, deque()
            for message in waiting:
                if message.metadata.message_id in in_flight:
                    self._come(too_late(message))
                else:
                    self._waiting.append(message)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to these messages that came after their call was over."""
        while self._work(0.0):
            pass
        return list(self._pulled({*message_ids}))

    def _pulled(self, ids: Any) -> Iterator[Message]:
        """Replies that have come to messages with the ids ``ids``, one by one."""
        for name in [name for name in self._replies if name in ids]:
            yield self._replies.pop(name)

    def _come(self, reply: Message) -> None:
        self._replies[reply.metadata.reply_to_message_id] = reply

    def _work(self, seconds: float) -> bool:
        """Gives workers what they have room for, and takes an answer that comes within ``seconds``.

        Returns whether one has come.
        """
        if self._hand_out():
            return True
        result = self._workers.wait(seconds)
        if result is None:
            return False
        job, answer = result
        if answer is None:
            self._again.append(job)
        else:
            message, context = self._jobs.pop(job)
            self._at_work.remove(message.metadata.dst_node_id)
            try:
                reply = self._reply(answer, message, context)
            except Exception as error:  # the disk of the clients' memory is full
                reply = failure_reply(message, trace_of(error))
            self._come(reply)
        self._hand_out()  # before the server decodes: it may take long
        return True

    def _hand_out(self) -> bool:
        """Gives workers what they have room for; returns whether a client has failed by that."""
        before = len(self._replies)
        while self._workers.free:
            free = (m for m in self._waiting if m.metadata.dst_node_id not in self._at_work)
            if self._again:
                job = self._again.popleft()
                self._submit(*self._jobs.pop(job), job)
            elif (message := next(free, None)) is not None:
                self._waiting.remove(message)
                self._submit(message, self.new_context(message))
            else:
                break
        return len(self._replies) > before

    def _submit(self, message: Message, context: Context, job: Job | None = None) -> None:
        """Gives a message to a worker; its client has failed where that cannot be sent or read."""
        node = message.metadata.dst_node_id
        try:
            if job is None:
                memory = self._states.load(context, settings_in(message.content))
                job = Job((plain_records(message.content), dict(context.node_config), memory))
            self._workers.submit(job)
        except Exception as error:
            self._at_work.discard(node)
            self._come(failure_reply(message, trace_of(error)))
        else:
            self._jobs[job] = message, context
            self._at_work.add(node)

    def _reply(self, answer: RemoteAnswer, message: Message, context: Context) -> Message:
        """The reply that a worker has given; the client's memory is committed."""
        records, after = answer
        if isinstance(records, str):
            return failure_reply(message, records)
        if not isinstance(records, list):
            raise records  # the client's own KeyboardInterrupt
        if after is not None:
            self._states.commit(context, settings_in(message.content), after)
        return Message(to_record_dict(records), reply_to=message)
