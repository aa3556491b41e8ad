"""Servers that do not wait: buffered (FedBuff) and staleness-weighted (FedAsync) updates.

Whoever drives them asks a client, hands each reply over as it comes, and asks again. ``ask`` and
``advance`` do so for Flower's own loop, a reply at a time within each of its rounds.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from compressors import Compressor
from strategies.channel.shortage import check_enough
from strategies.channel.traffic import RoundTraffic
from strategies.channel.turns import Arrival, Turns
from strategies.server.base import ChannelStrategy
from strategies.server.staleness import Staleness


class Asynchronous(ChannelStrategy):
    """A server that takes each update in as it comes.

    Args:
        uplink: how clients encode their updates.
        downlink: how the server encodes its steps; raw by default. Else a client is sent the steps
            since it was asked, or the whole model where that is shorter.
        clients: the number of clients.
        staleness: the weight of an update by how old the model is that it was made from.
        server_lr: what every step is multiplied by.
        common: what else ``ChannelStrategy`` takes; ``cohort`` is how many are at work at once.

    Attributes:
        held: updates that have come and have not moved the model yet.
    """

    exchange: Turns | None

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        clients: int,
        staleness: Staleness | None = None,
        server_lr: float = 1.0,
        **common: Any,
    ) -> None:
        super().__init__(uplink, downlink, clients=clients, **common)
        if self.buffers is not None:
            raise ValueError("an asynchronous server has no rounds in which buffers could travel")
        self.staleness, self.server_lr = staleness or Staleness(), server_lr
        self.held = 0

    @property
    def steps(self) -> int:
        """How often the model has moved."""
        return 0 if self.exchange is None else self.exchange.version

    @abstractmethod
    def step(self, arrival: Arrival) -> Mapping[str, Tensor] | None:
        """What moves the model now that a usable update has come; None: nothing yet."""

    def open(self, weights: dict[str, Tensor], server_round: int = 1) -> Turns:
        """The channel; opened once."""
        if self.exchange is None:
            self.exchange = Turns(self.uplink, self.downlink, weights, self.seed, self.max_norm)
        return self.exchange

    def _start_again(self, weights: dict[str, Tensor]) -> None:
        name = type(self).__name__
        raise RuntimeError(f"this {name} was started before: make another {name} for another start")

    def message(self, client: int, config: ConfigRecord) -> RecordDict:
        """The content of the next message to a client that has answered all before it."""
        assert self.exchange is not None
        return self.exchange.ask(client, config)

    def arrive(self, client: int, reply: Message) -> Arrival:
        """Takes in the reply of a client, and moves the model where it is time."""
        assert self.exchange is not None
        arrival = self.exchange.arrive(client, reply)
        delta = self.step(arrival) if arrival.uplink is not None else None
        if delta is not None:
            self.exchange.advance(delta)
        return arrival

    def ask(self, server_round: int, config: ConfigRecord, grid: Grid) -> list[Message]:
        """One message per client of the round's cohort that can be asked."""
        there, out = self.drawn(server_round, grid)
        self._round = RoundTraffic(server_round, failures=dict(out))
        return self.sent(
            {c: Message(self.message(c, config), n, "train") for c, n in there.items()}, grid
        )

    def advance(self, replies: Iterable[Message]) -> MetricRecord | None:
        """Takes the replies in, in the order of their clients."""
        came = {self._mail.client_of(reply): reply for reply in replies}
        for client in sorted(c for c in came if c is not None):
            trip = self.arrive(client, came[client]).trip
            self._round.uplinks |= trip.uplinks
            self._round.failures |= trip.failures
        check_enough(self._round, self.required)
        return None

    def configure_evaluate(self, *given: Any) -> Iterable[Message]:
        """Nothing: the server evaluates, so that evaluation costs no bits."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Nothing to aggregate."""
        return None

    def summary(self) -> None:
        """Nothing to say beside the settings."""


class FedBuff(Asynchronous):
    """The model moves when the buffer is full: by the mean of its updates, weighted by staleness.

    The mean is over the number of updates, not over the sum of their weights.

    Args:
        size: updates per step.
        given: what ``Asynchronous`` takes.

    Source: Nguyen et al. 2022 (FedBuff), Algorithm 1.

    Example:
        >>> from compressors import Raw
        >>> FedBuff(Raw(), clients=20, size=5).held
        0
    """

    def __init__(self, *given: Any, size: int = 10, **common: Any) -> None:
        super().__init__(*given, **common)
        self.size = size
        self._sum: dict[str, Tensor] = {}

    def step(self, arrival: Arrival) -> Mapping[str, Tensor] | None:
        """See ``Asynchronous.step``."""
        assert arrival.uplink is not None
        weight = self.server_lr * self.staleness(arrival.staleness) / self.size
        self._sum = added(self._sum, arrival.uplink.update, weight)
        self.held += 1
        if self.held < self.size:
            return None
        total, self._sum, self.held = self._sum, {}, 0
        return total


class FedAsync(Asynchronous):
    """Every update moves the model, towards the model that its client has come to.

    The server's model becomes ``(1 - a) * model + a * theirs``, where ``theirs`` is the model that
    the client was sent plus its update, and ``a`` is ``server_lr`` times the weight by staleness.

    It takes what ``Asynchronous`` takes; ``server_lr`` lies in (0, 1].

    Source: Xie et al. 2019 (FedAsync), Algorithm 1, Option I.

    Example:
        >>> from compressors import Raw
        >>> FedAsync(Raw(), clients=4, server_lr=0.6).server_lr
        0.6
    """

    def step(self, arrival: Arrival) -> Mapping[str, Tensor] | None:
        """See ``Asynchronous.step``."""
        assert arrival.uplink is not None and self.exchange is not None
        share = self.server_lr * self.staleness(arrival.staleness)
        now, then = self.exchange.weights, arrival.asked.weights
        apart = {n: x + (then[n] - now[n]) for n, x in arrival.uplink.update.items()}
        return added({}, apart, share)


def added(total: Mapping[str, Tensor], x: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """``total + share * x``; nothing so far is zeros."""
    start = total or {name: torch.zeros_like(value) for name, value in x.items()}
    return {name: torch.add(start[name], value, alpha=share) for name, value in x.items()}
