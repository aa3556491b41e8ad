"""The in-process engine: a Flower Grid that calls the ClientApp directly.

The same unchanged apps as on Ray, at tens of microseconds per message. Clients of a round
run on worker threads of one torch thread each; which worker serves which client changes
nothing, because all of a client's memory comes in and goes out as values. The app may be one that
answers in other processes (``fedsim.engines.forks``).
"""

import copy
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp

from fedsim.engines.numbered_grid import RUN, NumberedGrid, failure_reply, too_late, trace_of

AnswerSeveral = Callable[
    [Sequence[Message], Sequence[Context]], Iterator[tuple[int, Message | Exception]]
]
"""Messages and their nodes' contexts -> the place of each, and its reply or its error."""

# The server decodes while clients train, in short steps of Python each. At Python's 5 ms a
# thread waits for most of the other's work before it gets its turn: 4 % of a LeNet5 round.
_SWITCH_SECONDS = 2e-4
# Ctrl-C may come while clients train; the interpreter aborts if it ends before a thread in torch.
_END_SECONDS = 0.5


class Call:
    """One ``send_and_receive``: where its replies go, until it is closed.

    Args:
        waiting: how many replies there are to be.
    """

    def __init__(self, waiting: int) -> None:
        self.lock = threading.Lock()
        self.closed, self.waiting, self.complete = False, waiting, threading.Event()
        self.replies: queue.SimpleQueue[Message | BaseException] = queue.SimpleQueue()

    def put(self, reply: Message) -> None:
        """Takes a reply, with the lock held."""
        self.replies.put(reply)
        if self.replies.qsize() == self.waiting:
            self.complete.set()

    def fail(self, error: BaseException) -> None:
        """Lets whoever waits for replies raise ``error``."""
        self.replies.put(error)
        self.complete.set()

    def get(self, timeout: float | None) -> Message:
        """The next reply; ``queue.Empty`` where none comes in time."""
        reply = self.replies.get(timeout=timeout)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def close(self) -> None:
        """Takes no more replies."""
        with self.lock:
            self.closed = True


class NodeQueue:
    """Nodes that answer one message after the other, whichever threads serve them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[int, deque[Callable[[], None]]] = {}  # node -> what waits for it

    def claim(self, node: int, task: Callable[[], None]) -> bool:
        """Whether the node is free, and now the caller's; else ``task`` waits for its turn."""
        with self._lock:
            if node in self._busy:
                self._busy[node].append(task)
                return False
            self._busy[node] = deque()
            return True

    def release(self, node: int) -> Callable[[], None] | None:
        """Frees a node that the caller claimed.

        Where something has waited for the node, it is returned instead, and the caller does it: the
        node stays claimed.
        """
        with self._lock:
            if self._busy[node]:
                return self._busy[node].popleft()
            del self._busy[node]
            return None


class LocalGrid(NumberedGrid):
    """Nodes 1 to ``clients``, node i + 1 being client i, served by ``workers`` threads.

    A node answers one message after the other, as Flower's do. A worker takes one message, or
    ``at_once`` of a call in their order, which go to ``answer_several``: groups do not depend on
    the number of workers. Without workers, the caller serves the nodes itself while it waits for
    replies: no timeout ends that. With ``numbered`` a strategy need not ask which client a node is:
    a million clients would be asked before the first round. ``together``: the caller only wakes
    when all replies are there, or the time is over. ``end`` is called when the threads have ended.
    """

    def __init__(
        self,
        client_app: ClientApp,
        clients: int,
        workers: int = 1,
        answer_several: AnswerSeveral | None = None,
        at_once: int = 1,
        numbered: bool = False,
        together: bool = False,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(clients)
        self._together, self._end = together, end
        self._app, self._answer_several, self._at_once = client_app, answer_several, at_once
        self._nodes = NodeQueue()
        self.numbered = self._ids if numbered else None
        self._contexts: dict[int, Context] = {}  # of the nodes that keep anything
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._late: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._calls = set[Call]()
        self._error: BaseException | None = None  # that a worker ended with
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        self._switch = sys.getswitchinterval()
        if self._threads:
            sys.setswitchinterval(_SWITCH_SECONDS)
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Ends the workers; a worker that hangs does not keep the process alive."""
        if self._threads:
            sys.setswitchinterval(self._switch)
        for _ in self._threads:
            self._tasks.put(None)
        until = time.monotonic() + _END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._end()

    def _do_one(self) -> None:
        """Serves the next messages, in the thread that waits for them."""
        if task := self._tasks.get():
            task()

    def _work(self) -> None:
        """A worker's loop. An error other than a client's ends all calls, which would wait on."""
        torch.set_num_threads(1)
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except BaseException as error:
                self._error = error
                for call in [*self._calls]:
                    call.fail(error)

    def _serve(self, messages: list[Message], call: Call) -> None:
        """Answers messages whose nodes are free, then those that have waited for these nodes."""
        free, nodes = list[Message](), list[int]()
        for message in messages:
            node = message.metadata.dst_node_id
            if self._nodes.claim(node, partial(self._reply, message, node, call)):
                free.append(message)
                nodes.append(node)
        if len(free) < 2 or call.closed:
            for message, node in zip(free, nodes, strict=True):
                self._reply(message, node, call)
            return
        assert self._answer_several is not None
        contexts = [*map(self._handed_over, free, nodes)]
        left, waiting = set(range(len(free))), []
        try:
            for i, answer in self._answer_several(free, contexts):
                left.remove(i)
                if isinstance(answer, Exception):
                    answer = failure_reply(free[i], trace_of(answer))
                waiting.append(self._deliver(nodes[i], contexts[i], answer, call))
        except Exception as error:
            for i in sorted(left):
                reply = failure_reply(free[i], trace_of(error))
                waiting.append(self._deliver(nodes[i], contexts[i], reply, call))
        for task in waiting:
            if task is not None:
                task()

    def _reply(self, message: Message, node: int, call: Call) -> None:
        """Answers a message whose node is claimed, then those that have waited for that node."""
        if call.closed:
            waiting = self._nodes.release(node)
            self._late.put(too_late(message))
        else:
            context = self._handed_over(message, node)
            try:
                reply = self._app(message, context)
                if not isinstance(reply, Message):
                    kind = type(reply).__name__
                    raise TypeError(f"the client app returned {kind}, not a Message")
            except Exception as error:
                reply = failure_reply(message, trace_of(error))
            waiting = self._deliver(node, context, reply, call)
        if waiting is not None:
            waiting()

    def _handed_over(self, message: Message, number: int) -> Context:
        """The context of the message's node; copies, as of a message to another process.

        Stock strategies share one record between messages, and a client that fails keeps the
        memory that it had.
        """
        message.content = message.content.copy()
        if number in self._contexts:
            return copy.deepcopy(self._contexts[number])
        node: Any = {"partition-id": number - 1, "num-partitions": len(self._ids)}
        return Context(RUN, number, node, RecordDict(), {})

    def _deliver(
        self, node: int, context: Context, reply: Message, call: Call
    ) -> Callable[[], None] | None:
        """Hands a reply over; returns the work that has waited for its node.

        The node becomes free before its reply is handed over, because the receiver may ask the node
        again at once. A node that is not free would be served alone, outside of its stack.
        """
        if (context.state or node in self._contexts) and reply.has_content():
            self._contexts[node] = context
        waiting = self._nodes.release(node)
        with call.lock:
            (self._late if call.closed else call).put(reply)
        return waiting

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Replies as they come, or together; ``pull_messages`` has those later than ``timeout``."""
        messages = [*messages]
        call, group = Call(len(messages)), list[Message]()
        self._calls.add(call)
        if self._error is not None:  # the nodes that it was about answer nobody any more
            raise self._error
        for message in messages:
            self.name(message)
            if message.metadata.message_type != MessageType.TRAIN:
                self._tasks.put(partial(self._serve, [message], call))
                continue
            group.append(message)
            if len(group) == self._at_once:
                self._tasks.put(partial(self._serve, group, call))
                group = []
        if group:
            self._tasks.put(partial(self._serve, group, call))
        until = None if timeout is None else time.monotonic() + timeout
        try:
            if self._together and messages:
                while not (self._threads or call.complete.is_set()):
                    self._do_one()
                call.complete.wait(timeout)
            for _ in messages:
                while not self._threads and call.replies.empty():
                    self._do_one()
                left = None if until is None else max(0.0, until - time.monotonic())
                yield call.get(left)
        except queue.Empty:
            call.close()
            while not call.replies.empty():  # those that came in at the last moment
                yield call.get(None)
        finally:
            call.close()
            self._calls.discard(call)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to these messages that came after their call was over."""
        ids, replies = set(message_ids), [self._late.get() for _ in range(self._late.qsize())]
        for reply in replies:
            if reply.metadata.reply_to_message_id not in ids:
                self._late.put(reply)
        return [reply for reply in replies if reply.metadata.reply_to_message_id in ids]
