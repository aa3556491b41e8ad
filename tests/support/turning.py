"""Clients of an asynchronous server that send prepared updates, and remember what clients do."""

import json
from collections.abc import Mapping
from typing import Any

from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict
from torch import Tensor

from compressors import State
from strategies import Arrival, Asynchronous
from strategies.channel.client_end import one_by_one
from strategies.channel.payload import METRICS, SENT


class Turning:
    """A server and its clients, one message at a time.

    Attributes:
        seen: client -> the model that it was sent last.
        memory: client -> what it remembers.
    """

    def __init__(self, server: Asynchronous, end: Any, template: Mapping[str, Tensor]) -> None:
        self.server, self.end = server, end
        server.open(dict(template))
        self.memory: dict[int, State] = {}
        self.seen: dict[int, State] = {}
        self._deliveries: dict[int, Any] = {}

    def ask(self, client: int) -> None:
        """The next message to a client arrives there."""
        content = self.server.message(client, ConfigRecord())
        delivery = self.end.decode(content, self.memory.get(client))
        self._deliveries[client], self.seen[client] = delivery, delivery.weights

    def answer(self, client: int, update: Mapping[str, Tensor]) -> RecordDict:
        """What a client sends; from now on it remembers that."""
        delivery, content = self._deliveries.pop(client), RecordDict()
        packet, self.memory[client] = one_by_one(self.end.encode(client, update, delivery))
        counts = [packet.sent[name].count for name in self.end.template]
        content[METRICS] = MetricRecord({"sent": sum(counts), SENT: counts})
        self.end.reply(content, packet, delivery, {})
        return content

    def arrive(self, client: int, content: RecordDict | None, overdue: bool = False) -> Arrival:
        """The reply comes to the server, in time or not; None: an error in its place."""
        asked = Message(RecordDict(), 1, "train")
        if content is None:
            return self.server.arrive(client, Message(Error(2, "out of order"), reply_to=asked))
        return self.server.arrive(client, Message(content, reply_to=asked), overdue)

    def killed(self, again: Asynchronous) -> None:
        """The server is another one, which goes on from what this one stored."""
        tensors, values = self.server.state()
        again.restore(tensors, json.loads(json.dumps(values)))
        self.server = again

    def turn(self, client: int, update: Mapping[str, Tensor]) -> Arrival:
        """An update comes, and the client is asked again."""
        arrival = self.arrive(client, self.answer(client, update))
        self.ask(client)
        return arrival
