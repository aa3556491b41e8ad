"""Grids whose nodes are numbered, and the one that calls the ClientApp in this process.

The same unchanged apps as on Ray, at tens of microseconds per message. Whoever asks for replies
serves the clients, one after the other, or groups of them that train together.
"""

import copy
import itertools
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from compressors.usercode import UserCodeError
from fedsim.engines import compat
from strategies.channel.nodes import PARTITION_ID

RUN = 1  # the number of the one run, as Flower counts runs
_NOT_DONE, _RAISED = 0, 2  # Flower's codes: unknown, and a client app that raised
_TOO_LATE = "the round was over before the client's turn came"

AnswerSeveral = Callable[
    [Sequence[Message], Sequence[Context]], Iterator[tuple[int, Message | Exception]]
]
"""Messages and their nodes' contexts -> the place of each, and its reply or its error."""


class NumberedGrid(Grid):
    """Nodes 1 to ``clients``, node i + 1 being client i.

    Messages go out by ``send_and_receive``, each with the next id; nothing is pushed.
    """

    def __init__(self, clients: int) -> None:
        compat.identify(RUN)
        self._ids, self._count = range(1, clients + 1), itertools.count(1)

    def get_node_ids(self) -> Iterable[int]:
        """The nodes, in the order of their partitions."""
        return self._ids

    def set_run(self, run: Any) -> None:
        """Nothing to set: there is one run."""

    @property
    def run(self) -> Any:
        return compat.run_of(RUN)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """A message; ``group_id`` and ``ttl`` mean nothing here."""
        return Message(content, dst_node_id=dst_node_id, message_type=message_type)

    def new_context(self, message: Message) -> Context:
        """The context of the node that a message goes to, which keeps nothing yet."""
        number = message.metadata.dst_node_id
        node: Any = {PARTITION_ID: number - 1, "num-partitions": len(self._ids)}
        return Context(RUN, number, node, RecordDict(), {})

    def close(self) -> None:
        """Ends what serves the nodes."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Refused: there is nothing between the server and its clients that would keep them."""
        raise RuntimeError("this grid answers at once: use send_and_receive")


def failure_reply(message: Message, reason: str) -> Message:
    """The reply of a client whose app raised."""
    return Message(Error(code=_RAISED, reason=reason), reply_to=message)


def call_app(app: ClientApp, message: Message, context: Context) -> Message:
    """The app's reply to a message, or its error."""
    try:
        reply = app(message, context)
        if not isinstance(reply, Message):
            raise TypeError(f"the client app returned {type(reply).__name__}, not a Message")
        return reply
    except Exception as error:
        return failure_reply(message, trace_of(error))


def too_late(message: Message) -> Message:
    """The reply to a message that no worker has begun when its round is over."""
    return Message(Error(_NOT_DONE, _TOO_LATE), reply_to=message)


def reason_of(error: BaseException) -> str:
    """An error and its type, without the traceback."""
    if isinstance(error, UserCodeError):
        return str(error)
    return "".join(traceback.format_exception_only(error)).strip()


def trace_of(error: BaseException) -> str:
    """As a failed reply tells it: the traceback, and ``reason_of`` as its end."""
    frames = traceback.format_exception(error)[: -len(traceback.format_exception_only(error))]
    return "".join(frames) + reason_of(error)


class LocalGrid(NumberedGrid):
    """Nodes 1 to ``clients``, node i + 1 being client i, served while the caller waits for replies.

    Args:
        answer_several: answers ``at_once`` messages of a call, in their order.
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
        """Replies as they come, of all clients: nothing else is done while one trains.

        ``timeout`` does not apply: what a client learns does not depend on the machine's speed.
        Where the caller leaves before, ``pull_messages`` returns an error for each of the others.
        """
        groups, replies = deque[Sequence[Message]](), deque[Message]()
        train = list[Message]()
        for message in messages:
            compat.name(message, f"message-{next(self._count)}")
            if message.metadata.message_type == MessageType.TRAIN:
                train.append(message)
            else:
                groups.append([message])
        starts = range(0, len(train), self._at_once)
        groups.extend(train[start : start + self._at_once] for start in starts)
        try:
            while replies or groups:
                if not replies:
                    replies.extend(self._serve(groups.popleft()))
                yield replies.popleft()
        finally:
            replies.extend(too_late(message) for group in groups for message in group)
            self._late |= {reply.metadata.reply_to_message_id: reply for reply in replies}

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to these messages that their call did not return."""
        return [self._late.pop(name) for name in message_ids if name in self._late]

    def _serve(self, messages: Sequence[Message]) -> list[Message]:
        """Replies to messages of several nodes; a node keeps its context where it has not failed.

        Messages and contexts are copies, as of a message to another process: stock strategies
        share one record between messages.
        """
        contexts = list[Context]()
        for message in messages:
            message.content, number = message.content.copy(), message.metadata.dst_node_id
            held = self._contexts.get(number)
            contexts.append(copy.deepcopy(held) if held is not None else self.new_context(message))
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
            number = messages[i].metadata.dst_node_id
            if (contexts[i].state or number in self._contexts) and reply.has_content():
                self._contexts[number] = contexts[i]
        return [*answers.values()]
