"""Asynchronous servers: the algorithm steps with each update that arrives.

A driver asks a client, hands each reply over as it arrives, and asks again. ``ask`` and ``advance``
do so for Flower's own loop, a reply at a time within each of its rounds.
"""

from collections.abc import Iterable

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from strategies.channel.mailbox import Late, count
from strategies.channel.replies import check_enough
from strategies.channel.server_end import ServerEnd
from strategies.channel.traffic import Arrival, RoundTraffic
from strategies.server.base import RuledStrategy


class Asynchronous(RuledStrategy):
    """A server that takes each update in as it comes.

        w' = w + C(delta)

    Here delta is the algorithm's ``step`` of one decoded update, where that moves the model, and
    C(delta) what clients decode of it. With a raw downlink C(delta) = delta.

    Args:
        uplink: how clients encode their updates.
        downlink: how the server encodes its steps; raw by default. Else a client is sent the steps
            since it was asked, or the whole model where that is shorter.
        clients: the number of clients.
        rule: the algorithm, such as ``FedBuff``.
        common: what else ``ChannelStrategy`` takes; ``cohort`` is how many are at work at once.

    Example:
        >>> from compressors import Raw
        >>> from strategies import FedBuff
        >>> Asynchronous(Raw(), clients=20, rule=FedBuff(5)).buffered
        0
    """

    @property
    def buffered(self) -> int:
        """Updates that have come and have not moved the model yet."""
        return int(self.memory.get("buffered", 0))

    @property
    def steps(self) -> int:
        """How often the model has moved."""
        return 0 if self.channel is None else self.channel.version

    def open(self, weights: dict[str, Tensor], server_round: int = 1) -> ServerEnd:
        """The channel; opened once."""
        if self.channel is None:
            self.channel = self._end(weights)
        return self.channel

    def _end(self, weights: dict[str, Tensor]) -> ServerEnd:
        settings = self.seed, self.sides(), True, self.max_norm
        return ServerEnd(self.uplink, self.downlink, weights, *settings)

    def _start_again(self, weights: dict[str, Tensor]) -> None:
        raise RuntimeError("this strategy was started before: make another for another start")

    def message(self, client: int, config: ConfigRecord) -> RecordDict:
        """The content of the next message to a client that has answered all before it."""
        return self.end.ask(client, config)

    def traffic_of(self, client: int) -> RoundTraffic:
        """The message to a client that has not answered it."""
        return self.end.in_flight[client].traffic

    def loses(self, client: int) -> None:
        """Books that the update of a client which has trained never comes."""
        self.traffic_of(client).dropped += [client] * self.end.loses(client)

    def late_of(self, overdue: bool) -> Late | None:
        """The policy for a late update; None: it is applied, in time or counted when it comes."""
        return self.late if overdue and self.late is not count else None

    def arrive(self, client: int, reply: Message, overdue: bool = False) -> Arrival:
        """Takes in the reply of a client, and moves the model where it is time.

        ``overdue``: whether it came after its deadline; ``late`` decides how it is used then.
        """
        arrival = self.end.arrive(client, reply, self.late_of(overdue))
        if arrival.uplink is None:
            return arrival
        if self.buffers is not None:
            self.buffers.gather(client, arrival.uplink)
        stale, weights = arrival.staleness, arrival.request.weights
        moved = self.step({client: arrival.uplink}, age={client: stale}, sent={client: weights})
        if moved and self.buffers is not None:
            self.buffers.mix(self.rule.mixing(stale))
        arrival.uplink.release()  # its row may have thousands of others
        return arrival

    def ask(self, server_round: int, config: ConfigRecord, grid: Grid) -> list[Message]:
        """One message per client of the round's cohort that can be asked."""
        nodes, out = self.drawn(server_round, grid)
        self._round = RoundTraffic(server_round, failures=dict(out))
        return self._mail.send(
            {c: Message(self.message(c, config), n, "train") for c, n in nodes.items()}
        )

    def advance(self, replies: Iterable[Message]) -> MetricRecord | None:
        """Takes the replies in, in the order of their clients."""
        answers = {self._mail.client_of(reply): reply for reply in replies}
        for client in sorted(c for c in answers if c is not None):
            traffic = self.arrive(client, answers[client]).traffic
            self._round.uplinks |= traffic.uplinks
            self._round.failures |= traffic.failures
        check_enough(self._round, self.required)
        return None

    def summary(self) -> None:
        """Logs nothing in addition to the settings."""
