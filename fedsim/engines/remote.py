"""The clients' app in another process: a client's memory comes with the message, and goes back.

The memory stays with the server's process, so that a process that is lost takes nothing with it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from flwr.app import Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp

from compressors import State
from fedsim.engines import compat
from fedsim.engines.numbered_grid import RUN, failure_reply, trace_of
from strategies.channel.payload import settings_in

PlainRecords = list[tuple[str, type, dict[str, Any]]]
"""The records of a message: name, kind and values of each."""

RemoteRequest = tuple[PlainRecords, dict[str, Any], State]
"""What leaves for another process: a message's records, its node's config, the client's memory."""

RemoteAnswer = tuple[PlainRecords | str | type[KeyboardInterrupt], State | None]
"""What comes back: a reply's records, or why there is none; and the client's memory afterwards.

The memory is None where it stays as it was."""


class States(Protocol):
    """As ``fedsim.federation.client_memory.ClientStates``."""

    def load(self, context: Context, settings: Mapping[str, Any]) -> State: ...

    def commit(self, context: Context, settings: Mapping[str, Any], state: State) -> None: ...

    def forget(self, context: Context, settings: Mapping[str, Any]) -> None: ...


AppOf = Callable[[States], ClientApp]
"""Makes the clients' app over the place of their memory."""


def remote_request(message: Message, context: Context, states: States) -> RemoteRequest:
    """The data that another process needs to answer a message.

    Args:
        message: to be answered.
        context: of its node.
        states: the clients' memory.
    """
    memory = states.load(context, settings_in(message.content))
    return plain_records(message.content), dict(context.node_config), memory


def remote_reply(
    answer: RemoteAnswer, message: Message, context: Context, states: States
) -> Message:
    """The reply that another process has given; the client's memory is committed.

    Args:
        answer: what came back.
        message: that was answered.
        context: of its node.
        states: the clients' memory.

    Raises ``KeyboardInterrupt`` where the client did.
    """
    records, after = answer
    if records is KeyboardInterrupt:
        raise KeyboardInterrupt
    if isinstance(records, str):
        return failure_reply(message, records)
    assert isinstance(records, list)
    if after is not None:
        states.commit(context, settings_in(message.content), after)
    return Message(to_record_dict(records), reply_to=message)


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
    """Clients in this process, whose server is in another.

    Args:
        app_of: makes their app.
    """

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
