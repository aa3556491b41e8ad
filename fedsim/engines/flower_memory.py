"""Clients' memory in Flower's simulation: it comes with each message, and goes with the reply.

Flower would keep it with its simulated nodes, where a checkpoint cannot have it.
"""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from compressors import State
from fedsim.engines import compat
from fedsim.ground.errors import RunFailed
from strategies.channel.nodes import PARTITION_ID, CohortGrid
from strategies.channel.payload import to_arrays, to_state

STATE = "fedsim.state"
"""Under which key a client keeps its memory in a context, and a message carries it."""

_NODE = "fedsim.node"
"""The key of a message under which its client's number is, as in a client's own node config."""

_LOOK_SECONDS = 0.01
_LOST = ("RayActorError", "ActorDiedError", "ActorUnavailableError", "ObjectLostError")


class Carried:
    """``Memories`` of every client that has answered, in the server's process."""

    is_local = True

    def __init__(self) -> None:
        self.records: dict[int, ArrayRecord] = {}

    def begin(
        self, folder: Path | None, named: bool = True, before: Mapping[int, State] | None = None
    ) -> None:
        self.records = {client: to_arrays(state) for client, state in (before or {}).items()}

    def clients(self) -> list[int]:
        return sorted(self.records)

    def of(self, client: int) -> State:
        return to_state(self.records[client])

    def copy(self) -> dict[int, State]:
        return {client: to_state(record) for client, record in self.records.items()}


class CarryingApp(ClientApp):
    """The clients' app in a worker, which keeps nothing from message to message."""

    def __init__(self, app: ClientApp) -> None:
        super().__init__()
        self._app = app

    def __call__(self, message: Message, context: Context) -> Message:
        """As the app of a client's own node: who it is and its memory come in the message."""
        who = message.content.config_records[_NODE]
        context.node_config = {name: int(str(number)) for name, number in who.items()}
        del message.content[_NODE]
        record = message.content.pop(STATE, None)
        context.state = RecordDict({} if record is None else {STATE: record})
        reply = self._app(message, context)
        if reply.has_content() and STATE in context.state:
            reply.content[STATE] = context.state.pop(STATE)
        return reply


class CarryingGrid(CohortGrid):
    """A node per client, which share the nodes of the grid beneath.

    Messages leave with who the client is and its memory, which comes back with the reply. A client
    that fails, or whose reply never comes, keeps what it had.

    Where Ray has lost the worker of a client, replies are ``RunFailed``: Flower goes on sending
    messages to a worker that is gone.
    """

    def __init__(self, grid: Grid, clients: int, memories: Carried) -> None:
        super().__init__(grid, [])
        self.numbered = range(1, clients + 1)
        self._memories = memories
        self._in_flight: dict[str, Message] = {}  # by the id of a message that has no reply yet
        self._nodes: list[int] = []  # of the grid beneath, which has them when its workers start

    def get_node_ids(self) -> Iterable[int]:
        return self.numbered

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = [(message, self._leaving(message)) for message in messages]
        ids = list(self._grid.push_messages([leaving for _, leaving in sent]))
        self._note(sent)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._come(reply) for reply in self._grid.pull_messages(message_ids)]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        sent = [(message, self._leaving(message)) for message in messages]
        leaving = [leaving for _, leaving in sent]
        for reply in self._grid.send_and_receive(leaving, timeout=timeout):
            self._note(sent)
            yield self._come(reply)
        self._note(sent)

    def _leaving(self, message: Message) -> Message:
        """The message as it leaves; that of the strategy stays as it is."""
        while not self._nodes:
            self._nodes = sorted(self._grid.get_node_ids())
            time.sleep(0.0 if self._nodes else _LOOK_SECONDS)
        meta = message.metadata
        client = meta.dst_node_id - 1
        who = ConfigRecord({PARTITION_ID: client, "num-partitions": len(self.numbered)})
        content = RecordDict({**message.content, _NODE: who})
        if client in self._memories.records:
            content[STATE] = self._memories.records[client]
        node = self._nodes[client % len(self._nodes)]
        return Message(content, node, meta.message_type, ttl=meta.ttl, group_id=meta.group_id)

    def _note(self, sent: list[tuple[Message, Message]]) -> None:
        """Which messages are whose: a grid gives them their ids when it sends them."""
        for message, leaving in sent:
            compat.name(message, leaving.metadata.message_id)
            self._in_flight[leaving.metadata.message_id] = message
        sent.clear()

    def _come(self, reply: Message) -> Message:
        """The reply to the strategy's own message, without the client's memory, which stays."""
        message = self._in_flight.pop(reply.metadata.reply_to_message_id)
        if reply.has_error():
            cause = reply.error.reason or ""
            if any(name in cause for name in _LOST):
                raise RunFailed(
                    "Flower's simulation lost a Ray worker, which it does not replace "
                    f"({cause.partition(':<')[0]}): the same command goes on from the last "
                    "checkpoint, and --engine ray does a lost worker's message again"
                )
            return Message(reply.error, reply_to=message)
        record = reply.content.pop(STATE, None)
        if isinstance(record, ArrayRecord):
            self._memories.records[message.metadata.dst_node_id - 1] = record
        return Message(reply.content, reply_to=message)
