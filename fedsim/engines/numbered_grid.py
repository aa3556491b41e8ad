"""A grid whose nodes are 1 to the number of clients, and the replies that a grid makes itself."""

import itertools
import traceback
from collections.abc import Iterable
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from compressors.usercode import UserCodeError
from fedsim.engines import compat

RUN = 1
"""The number of the one run, as Flower counts runs."""

_NOT_DONE, _RAISED = 0, 2  # Flower's codes: unknown, and a client app that raised
_TOO_LATE = "the round was over before the client's turn came"


class NumberedGrid(Grid):
    """Nodes 1 to ``clients``, node i + 1 being client i.

    Messages go out by ``send_and_receive``; nothing is pushed.

    Args:
        clients: how many there are.
    """

    def __init__(self, clients: int) -> None:
        compat.identify(RUN)
        self._ids, self._count = range(1, clients + 1), itertools.count(1)

    def name(self, message: Message) -> None:
        """Gives a message that leaves its id."""
        compat.name(message, f"message-{next(self._count)}")

    def get_node_ids(self) -> Iterable[int]:
        """The nodes, in the order of their partitions."""
        return self._ids

    def set_run(self, run: Any) -> None:
        """Nothing to set: there is one run."""

    @property
    def run(self) -> Any:
        """The one run."""
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
