"""The simulated clock: requests on their way to clients, local work, and replies on their way back.

An exchange goes from record to record of an agenda: it is downloaded, received, trained, answered,
uploaded, and it arrives. Nothing is forecast and nothing sleeps. A checkpoint holds the records,
the messages on shared links and the exchanges.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from fedsim.network.agenda import Agenda
from fedsim.network.flows import Flows, Link
from fedsim.network.rates import ROUNDED, Rate
from fedsim.network.spec import Links

Direction = Literal["down", "up"]
Stage = Literal["received", "trained", "arrived"]

PARTS = ("download", "compute", "upload", "waiting")
"""What a client spends a round on; the four sum to the round."""


@dataclass(eq=False)
class Exchange:
    """One request to a client, its work, and the reply; times are seconds on the clock."""

    client: int  # its number
    number: int  # of the message: the round, or among those to the client
    down_bits: float = 0.0  # of the request
    compute_seconds: float = 0.0  # of the local work
    up_bits: float = 0.0  # of the reply
    # Its last stage: a client that drops out trains no more, or sends no more.
    until: Stage = "arrived"
    answer_bits: float = 0.0  # what the server sends once more before the reply leaves
    # When the client has done the local work that needs no request: it begins with the
    # request's no earlier.
    ready_at: float = 0.0
    sent_at: float = 0.0  # when the server sent the request
    # When the client had it; inf: that lies ahead, as for the next two.
    received_at: float = math.inf
    trained_at: float = math.inf  # when the client had trained
    ended_at: float = math.inf  # when it had reached its last stage

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.ended_at < math.inf

    def parts(self, start: float, end: float) -> np.ndarray:
        """Seconds from start to end: download, compute, upload, waiting; they sum to it.

        Example:
            >>> exchange = Exchange(0, 1, sent_at=0, received_at=1, trained_at=4, ended_at=9)
            >>> exchange.parts(0, 6).tolist(), exchange.parts(6, 10).tolist()
            ([1, 3, 2, 0], [0, 0, 3, 1])
        """
        times = (self.sent_at, self.received_at, self.trained_at, self.ended_at)
        sent, received, trained, ended = (min(max(time, start), end) for time in times)
        busy = (received - sent, trained - received, ended - trained)
        return np.array([*busy, end - start - sum(busy)])


E = TypeVar("E", bound=Exchange)


class Clock(Generic[E]):
    """Simulated time of one run, in seconds, and what is under way.

    Attributes:
        trained: called with an exchange whose client has trained; what the reply is becomes known
            here at the latest.
        agenda: the records.
        flows: messages on links that several share.
        handlers: what each record does, by name; whoever enters others adds them.
        exchanges: in flight, by client, until somebody takes them out.
        hops: by client, seconds that a request takes before it is at the client's own link.

    Example:
        Client 1 is late, and its last 5 bits pass while client 0 sends again:

        >>> from fedsim.network.spec import parse
        >>> clock = Clock(parse("up=inf, server_up=2bit, compute=0s").links(2, 0, 0.0))
        >>> first = [Exchange(0, 1, up_bits=4), Exchange(1, 1, up_bits=9)]
        >>> clock.send(first)
        >>> clock.wait(first, 1)
        >>> clock.now
        4.0
        >>> again = Exchange(0, 2, up_bits=2)
        >>> clock.send([again])
        >>> clock.wait([*first, again], 3)
        >>> again.ended_at, first[1].ended_at
        (6.0, 7.5)
    """

    def __init__(self, links: Links, now: float = 0.0) -> None:
        self.links = links
        self.trained: Callable[[E], None] = lambda exchange: None
        self.agenda = Agenda(now)
        self.flows = Flows(self.agenda, self.rate)
        self.exchanges: dict[int, E] = {}
        self.hops: dict[int, float] = {}
        self.handlers: dict[str, Callable[..., E | None]] = {
            **self.flows.handlers,
            "relayed": self._relayed,
            "downloaded": partial(self._delayed, "received"),
            "received": self._received,
            "trained": self._trained,
            "answered": self._answered,
            "uploaded": partial(self._delayed, "arrived"),
            "arrived": self._arrived,
        }

    @property
    def now(self) -> float:
        """The simulated time, in seconds."""
        return self.agenda.now

    def rate(self, link: Link) -> Rate:
        """A link's rate over time: of a client, ``(way, client)``, or of the server, a way."""
        links = self.links
        if isinstance(link, str):
            return Rate.constant(links.server_up if link == "up" else links.server_down)
        direction, client = link
        return (links.up if direction == "up" else links.down)[client]

    def send(self, exchanges: Collection[E]) -> None:
        """Sends requests now. Messages still on their way to the same client are discarded."""
        for exchange in exchanges:
            before = self.exchanges.get(exchange.client)
            if before is not None:
                self.flows.cancel(("downloaded", before.client, before.number))
            exchange.sent_at = self.now
            self.exchanges[exchange.client] = exchange
            if hop := self.hops.get(exchange.client):
                self.agenda.after(hop, "relayed", exchange.client, exchange.number)
            else:
                self._relayed(exchange.client, exchange.number)

    def announce(self, exchanges: Collection[E]) -> None:
        """Messages that clients send now without a request; goes on until all have come.

        They are not in flight then. Nothing else may be on its way to or from these clients.
        """
        for exchange in exchanges:
            exchange.sent_at = self.now
            self.exchanges[exchange.client] = exchange
            self.transfer("up", exchange, exchange.up_bits, "uploaded")
        self._take_out(exchanges)

    def complete(self, exchanges: Collection[E]) -> None:
        """Sends requests now, and goes on until all have ended: they are not in flight then."""
        self.send(exchanges)
        self._take_out(exchanges)

    def _take_out(self, exchanges: Collection[E]) -> None:
        self.wait(exchanges, len(exchanges))
        for exchange in exchanges:
            del self.exchanges[exchange.client]

    def compute(self, exchange: E) -> E | None:
        """A client begins to compute now, with a request that has come otherwise, as ``step``."""
        self.exchanges[exchange.client] = exchange
        return self._received(exchange.client, exchange.number)

    def step(self) -> E | None:
        """Carries out the next record; returns the exchange that has ended with it."""
        name, *arguments = self.agenda.next()
        return self.handlers[name](*arguments)

    def to(self, time: float) -> None:
        """Goes on to a time, that which happens at it included."""
        while self.agenda.next_time <= time * ROUNDED:
            self.step()
        self.agenda.now = max(self.now, time)

    def wait(self, exchanges: Collection[E], count: float, until: float = math.inf) -> None:
        """Goes on until so many of these have ended, or to a time.

        What happens in the same moment has happened, too.
        """
        ahead = {exchange for exchange in exchanges if not exchange.over}
        count -= len(exchanges) - len(ahead)
        while count > 0 and self.agenda.next_time <= until * ROUNDED and self.agenda:
            count -= self.step() in ahead
        self.to(self.now if count <= 0 or until == math.inf else until)

    def state(self) -> dict[str, Any]:
        """Records and messages on shared links, as JSON holds them; exchanges are the owner's."""
        return {"agenda": self.agenda.state(), "flows": self.flows.state()}

    def restore(self, values: dict[str, Any], exchanges: Collection[E]) -> None:
        """Goes on from what ``state`` returned, with the exchanges of then."""
        self.agenda.restore(values["agenda"])
        self.flows.restore(values["flows"])
        self.exchanges = {exchange.client: exchange for exchange in exchanges}

    def transfer(self, direction: Direction, exchange: E, bits: float, then: str) -> None:
        """A message takes the client's link, and the server's where that has a limit."""
        link, record = (direction, exchange.client), (then, exchange.client, exchange.number)
        if math.isinf(self.links.server_up if direction == "up" else self.links.server_down):
            self.agenda.at(self.rate(link).end(self.now, bits), *record)
        else:
            self.flows.send(bits, (link, direction), record)

    def _of(self, client: int, number: int) -> E | None:
        """The exchange of a record; None where it was given up."""
        exchange = self.exchanges.get(client)
        return exchange if exchange is not None and exchange.number == number else None

    def _delayed(self, then: str, client: int, number: int) -> None:
        self.agenda.after(float(self.links.latency[client]), then, client, number)

    def _relayed(self, client: int, number: int) -> None:
        if (exchange := self._of(client, number)) is not None:
            self.transfer("down", exchange, exchange.down_bits, "downloaded")

    def _received(self, client: int, number: int) -> E | None:
        if (exchange := self._of(client, number)) is None:
            return None
        exchange.received_at = self.now
        if exchange.until == "received":
            return self._end(exchange)
        begun_at = max(self.now, exchange.ready_at)
        self.agenda.at(begun_at + exchange.compute_seconds, "trained", client, number)
        return None

    def _trained(self, client: int, number: int) -> E | None:
        if (exchange := self._of(client, number)) is None:
            return None
        exchange.trained_at = self.now
        self.trained(exchange)
        if exchange.until == "trained":
            return self._end(exchange)
        if exchange.answer_bits:
            self.transfer("down", exchange, exchange.answer_bits, "answered")
        else:
            self._answered(client, number)
        return None

    def _answered(self, client: int, number: int) -> None:
        exchange = self.exchanges[client]
        self.transfer("up", exchange, exchange.up_bits, "uploaded")

    def _arrived(self, client: int, number: int) -> E | None:
        exchange = self._of(client, number)
        return None if exchange is None else self._end(exchange)

    def _end(self, exchange: E) -> E:
        exchange.trained_at = min(exchange.trained_at, self.now)
        exchange.ended_at = self.now
        return exchange
