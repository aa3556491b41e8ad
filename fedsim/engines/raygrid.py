"""The engine ``ray``: clients that train in Ray's actors, on this machine or on a cluster.

One thread does it all: whoever asks for replies hands messages to workers while it waits. A
client's memory stays in this process, and travels with its message (``fedsim.engines.remote``).
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from flwr.app import Context, Message, MessageType, RecordDict

from fedsim.engines import cluster
from fedsim.engines.numbered_grid import RUN, NumberedGrid, too_late
from fedsim.engines.remote import AppOf, States, remote_reply, remote_request
from strategies.channel.nodes import PARTITION_ID

if TYPE_CHECKING:  # importing Ray takes a second, for this engine only
    from fedsim.engines.workers import Job, Workers


class RayGrid(NumberedGrid):
    """Nodes 1 to ``clients``, whose messages to train are answered by workers, all others here.

    A node answers one message after the other. A message that no worker has begun when its round
    is over is not done; the reply to another that comes late is what ``pull_messages`` returns.

    Args:
        app_of: makes the clients' app.
        clients: how many there are.
        states: their memory.
        workers: who trains.
    """

    def __init__(self, app_of: AppOf, clients: int, states: States, workers: "Workers") -> None:
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
        """Replies as they come; ``pull_messages`` has those later than ``timeout`` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        in_flight = dict[str, Message]()
        for message in messages:
            self.name(message)
            in_flight[message.metadata.message_id] = message
            if message.metadata.message_type == MessageType.TRAIN:
                self._waiting.append(message)
            else:
                self._come(self._local_app(message, self._context(message)))
        try:
            while in_flight:
                for reply in self._pulled(in_flight):
                    del in_flight[reply.metadata.reply_to_message_id]
                    yield reply
                left = 1.0 if until is None else until - time.monotonic()
                if in_flight:
                    self._work(max(0.0, left))
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
        self._hand_out()
        result = self._workers.wait(seconds)
        if result is None:
            return False
        job, answer = result
        if answer is None:
            self._again.append(job)
        else:
            message, context = self._jobs.pop(job)
            self._at_work.remove(message.metadata.dst_node_id)
            self._come(remote_reply(answer, message, context, self._states))
        self._hand_out()  # before the server decodes: it may take long
        return True

    def _hand_out(self) -> None:
        from fedsim.engines.workers import Job

        while self._workers.free:
            if self._again:
                self._workers.submit(self._again.popleft())
                continue
            free = (m for m in self._waiting if m.metadata.dst_node_id not in self._at_work)
            message = next(free, None)
            if message is None:
                return
            self._waiting.remove(message)
            context = self._context(message)
            job = Job(remote_request(message, context, self._states))
            self._jobs[job] = message, context
            self._at_work.add(message.metadata.dst_node_id)
            self._workers.submit(job)

    def _context(self, message: Message) -> Context:
        number = message.metadata.dst_node_id
        node: Any = {PARTITION_ID: number - 1, "num-partitions": len(self._ids)}
        return Context(RUN, number, node, RecordDict(), {})


@contextmanager
def on_ray(
    app_of: AppOf, clients: int, states: States, workers: int, address: str | None, gpus: float
) -> Iterator[RayGrid]:
    """A grid on a cluster of its own, or on that at ``address``, all of whose cores serve clients.

    Args:
        app_of: makes the clients' app.
        clients: how many.
        states: their memory.
        workers: how many train at once on a cluster of its own.
        address: of a running cluster; None: one is started.
        gpus: the share of a GPU that Ray sets aside for a client; it sees no other GPU.

    Raises ``UsageError`` where no cluster answers at ``address``, this process has one already, or
    no machine has room for a client.
    """
    cluster.connect(workers, address, "--engine is 'ray'")
    import ray

    from fedsim.engines.workers import Workers, count_places

    try:
        actors = Workers(app_of, count_places(gpus), gpus)
        with closing(RayGrid(app_of, clients, states, actors)) as grid:
            yield grid
    finally:
        ray.shutdown()
