"""Clients' memory on Ray: it comes with each message, and goes back with the reply.

Flower would keep it with its simulated nodes, where a checkpoint cannot have it.
"""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path

from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from compressors import State
from strategies.channel.cohort_grid import CohortGrid
from strategies.channel.payload import CLIENT, config_in, to_arrays, to_state

STATE = "fedsim.state"
"""Under which key a client keeps its memory in a context, and a message carries it."""


class Carried:
    """The memory of every client that has answered, in the server's process."""

    here = True

    def __init__(self) -> None:
        self.records: dict[int, ArrayRecord] = {}

    def begin(
        self, folder: Path | None, named: bool = True, before: Mapping[int, State] | None = None
    ) -> None:
        """Begins a run: ``fedsim.federation.client_memory`` explains it."""
        self.records = {client: to_arrays(state) for client, state in (before or {}).items()}

    def copy(self) -> dict[int, State]:
        """Every client's memory now, by client."""
        return {client: to_state(record) for client, record in self.records.items()}


class CarryingApp(ClientApp):
    """The clients' app in a worker, which keeps nothing from message to message."""

    def __init__(self, app: ClientApp) -> None:
        super().__init__()
        self._app = app

    def __call__(self, message: Message, context: Context) -> Message:
        """As the app, whose memory comes in the message and stands in the reply."""
        record = message.content.pop(STATE, None)
        context.state = RecordDict({} if record is None else {STATE: record})
        reply = self._app(message, context)
        if reply.has_content() and STATE in context.state:
            reply.content[STATE] = context.state.pop(STATE)
        return reply


class CarryingGrid(CohortGrid):
    """The grid beneath; messages leave with the memory of their clients, and replies bring it.

    A client that fails, or whose reply never comes, keeps what it had.
    """

    def __init__(self, grid: Grid, memories: Carried) -> None:
        super().__init__(grid, [])
        self._memories = memories
        self._clients: dict[str, int] = {}  # id of a message that has no reply yet -> client

    def get_node_ids(self) -> Iterable[int]:
        """As the grid beneath: all of them."""
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the grid beneath."""
        sent = [self._with_memory(message) for message in messages]
        ids = list(self._grid.push_messages(sent))
        self._note(sent)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the grid beneath."""
        return [self._without(reply) for reply in self._grid.pull_messages(message_ids)]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """As the grid beneath."""
        sent = [self._with_memory(message) for message in messages]
        for reply in self._grid.send_and_receive(sent, timeout=timeout):
            self._note(sent)
            yield self._without(reply)
        self._note(sent)

    def _with_memory(self, message: Message) -> Message:
        """The message as it leaves; that of the strategy stays as it is."""
        record = self._memories.records.get(_client_of(message))
        if record is None:
            return message
        leaving = copy.copy(message)
        leaving.content = RecordDict({**message.content, STATE: record})
        return leaving

    def _note(self, sent: list[Message]) -> None:
        """Which messages are whose: a grid gives them their ids when it sends them."""
        for message in sent:
            self._clients[message.metadata.message_id] = _client_of(message)
        sent.clear()

    def _without(self, reply: Message) -> Message:
        client = self._clients.pop(reply.metadata.reply_to_message_id, -1)
        record = reply.content.pop(STATE, None) if reply.has_content() else None
        if isinstance(record, ArrayRecord):
            self._memories.records[client] = record
        return reply


def _client_of(message: Message) -> int:
    """The client whose turn a message is; -1: no client's."""
    own = config_in(message.content)
    return -1 if own is None else int(str(own[CLIENT]))
