"""The in-process engine: a Flower Grid that calls the ClientApp directly.

The same unchanged apps as on Ray, at tens of microseconds per message. Whoever asks for replies
serves the clients, one after the other, or groups of them that train together.
"""

import copy
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flwr.app import Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp

from fedsim.engines.numbered_grid import (
    RUN,
    NumberedGrid,
    call_app,
    failure_reply,
    too_late,
    trace_of,
)

AnswerSeveral = Callable[
    [Sequence[Message], Sequence[Context]], Iterator[tuple[int, Message | Exception]]
]
"""Messages and their nodes' contexts -> the place of each, and its reply or its error."""


class LocalGrid(NumberedGrid):
    """Nodes 1 to ``clients``, node i + 1 being client i, served while the caller waits for replies.

    Args:
        client_app: the clients.
        clients: how many there are.
        answer_several: answers ``at_once`` messages of a call, in their order.
        at_once: how many clients train together.
        numbered: whether a strategy need not ask which client a node is: a million clients would
            be asked before the first round.
        end: is called by ``close``.
    """

    def __init__(
        self,
        client_app: ClientApp,
        clients: int,
        answer_several: AnswerSeveral | None = None,
        at_once: int = 1,
        numbered: bool = False,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(clients)
        self._app, self._answer_several, self._at_once = client_app, answer_several, at_once
        self.numbered, self._end = self._ids if numbered else None, end
        self._contexts: dict[int, Context] = {}  # of the nodes that keep anything
        self._late: dict[str, Message] = {}  # replies, by the id of what they answer

    def close(self) -> None:
        """See ``end``."""
        self._end()

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Replies as they come. After ``timeout`` seconds no other client begins.

        A client that has begun is waited for. ``pull_messages`` has what the others answer: that
        the round was over before.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        groups, replies = deque(self._groups([*messages])), deque[Message]()
        try:
            while replies or (groups and time.monotonic() < until):
                if not replies:
                    replies.extend(self._serve(groups.popleft()))
                yield replies.popleft()
        finally:
            replies.extend(too_late(message) for group in groups for message in group)
            self._late |= {reply.metadata.reply_to_message_id: reply for reply in replies}

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to these messages that their call did not return."""
        return [self._late.pop(name) for name in message_ids if name in self._late]

    def _groups(self, messages: Sequence[Message]) -> list[Sequence[Message]]:
        """Names the messages; returns those that are answered together."""
        for message in messages:
            self.name(message)
        train = [m for m in messages if m.metadata.message_type == MessageType.TRAIN]
        others = [[m] for m in messages if m.metadata.message_type != MessageType.TRAIN]
        starts = range(0, len(train), self._at_once)
        return [*others, *(train[start : start + self._at_once] for start in starts)]

    def _serve(self, messages: Sequence[Message]) -> list[Message]:
        """Replies to messages of several nodes; a node keeps its context where it has not failed.

        Messages and contexts are copies, as of a message to another process: stock strategies
        share one record between messages.
        """
        contexts = [*map(self._handed_over, messages)]
        answers = dict[int, Message]()
        if self._answer_several is None or len(messages) == 1:
            for i, message in enumerate(messages):
                answers[i] = call_app(self._app, message, contexts[i])
        else:
            try:
                for i, answer in self._answer_several(messages, contexts):
                    if isinstance(answer, Exception):
                        answer = failure_reply(messages[i], trace_of(answer))
                    answers[i] = answer
            except Exception as error:
                for i in {*range(len(messages))} - answers.keys():
                    answers[i] = failure_reply(messages[i], trace_of(error))
        for i, reply in answers.items():
            node = messages[i].metadata.dst_node_id
            if (contexts[i].state or node in self._contexts) and reply.has_content():
                self._contexts[node] = contexts[i]
        return [*answers.values()]

    def _handed_over(self, message: Message) -> Context:
        """The context of the message's node."""
        message.content, number = message.content.copy(), message.metadata.dst_node_id
        if number in self._contexts:
            return copy.deepcopy(self._contexts[number])
        node: Any = {"partition-id": number - 1, "num-partitions": len(self._ids)}
        return Context(RUN, number, node, RecordDict(), {})
