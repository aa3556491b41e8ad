"""Servers that do not wait: fedbuff and fedasync (docs/asynchronous.md)."""

import math
from typing import Any

import numpy as np

from tests.support.twin.clock import first_come
from tests.support.twin.federation import NEWS, Exchange, Federation
from tests.support.twin.ledger import blank
from tests.support.twin.network import call
from tests.support.twin.orders import Order


class Asynchronous(Federation):
    """Every update is taken in when it comes, and a client is asked again at once."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        get = self.settings.get
        self.server.catch_up = True
        self.mixes = get("strategy") == "fedasync"
        self.server_lr = get("server_lr") or (0.6 if self.mixes else 1.0)
        self.size = 1 if self.mixes else get("buffer_size") or min(10, self.cohort)
        self.staleness, self.arguments = call(get("staleness") or "polynomial(0.5)")
        self.sent: dict[Exchange, np.ndarray] = {}  # the model that a client was sent
        self.come: list[Exchange] = []  # at one moment, and not yet taken in
        self.messages = [0] * len(self.clients)  # to each client
        self.buffer: list[np.ndarray] = []
        self.turn = 0

    def weight(self, stale: int) -> float:
        """Of an update, by the steps that the model has made since its client was sent it."""
        numbers = [float(a) for a in self.arguments]
        if self.staleness == "polynomial":
            return float((1 + stale) ** -numbers[0])
        if self.staleness == "hinge":
            a, b = numbers
            return 1.0 if stale <= b else 1 / (a * (stale - b) + 1)
        return 1.0

    def ask_client(self, number: int) -> None:
        """Sends a client the model; it trains at once."""
        client, temporal = self.clients[number], self.settings["temporal"]
        self.messages[number] += 1
        row = blank(number) | {"message": self.messages[number]}
        wire, row["down_content_bits"] = self.server.bits(client)
        row |= {"down_wire_bits": wire, "down_news_bits": NEWS if client.taken else 0}
        first = self.iteration
        if "rates" in self.known:
            first = min((self.messages[number] - 1) * temporal, self.settings["iterations"])
        n = min(temporal, self.settings["iterations"] - self.iteration)
        exchange = Exchange(client, Order(n, None), self.server.version, row)
        self.sent[exchange] = self.server.model
        sends, exchange.loss = self.rule.work(client, self.server.model, n, first)
        exchange.message = client.send(sends, None)
        exchange.work = self.clock.send(number, wire, n, exchange.message.wire)
        self.at_work.append(exchange)

    def ask_next(self) -> None:
        """Asks one of those that are not at work."""
        self.turn += 1
        busy = [e.client.number for e in self.at_work + self.come]
        idle = [c.number for c in self.clients if c.number not in busy]
        self.ask_client(self.draws.next_client(self.turn, idle))

    def comes(self, exchange: Exchange) -> dict[str, Any]:
        """An update is taken in; its row."""
        assert exchange.message is not None
        stale = self.server.version - exchange.version
        update = exchange.message.seen
        if self.mixes:  # towards the model that its client has come to
            update = self.sent[exchange] + update - self.server.model
        self.buffer.append(self.weight(stale) * update)
        if len(self.buffer) == self.size:
            self.server.move(self.server_lr * sum(self.buffer) / self.size)
            self.buffer = []
        self.takes(exchange)
        return exchange.row | self.whole(exchange) | {"staleness": stale}

    def round(self, number: int) -> bool:
        """A row: as many updates as clients are at work at once."""
        begin, rows = self.clock.now, []
        if number == 1:
            for client in self.draws.cohort(1, self.cohort, range(len(self.clients))):
                self.ask_client(client)
        else:
            self.ask_next()
        while len(rows) < self.cohort:
            if not self.come:
                come = self.go_on(math.inf)
                self.come = sorted(come, key=lambda e: first_come(e.work))
                if len(come) > 1 and self.clock.network.varies():
                    self.result.by_rounding = True
            if self.come:
                rows.append(self.comes(self.come.pop(0)))
                if len(rows) < self.cohort:
                    self.ask_next()
        row = self.totals(number, begin, rows, min(self.settings["temporal"], self.left))
        stale = [r["staleness"] for r in rows]
        row |= {"staleness": np.mean(stale), "staleness_max": max(stale)}
        row |= {"version": self.server.version, "buffered": len(self.buffer)}
        row["in_flight"] = len(self.at_work) + len(self.come)
        return True

    def whole(self, exchange: Exchange) -> dict[str, float]:
        """How long the parts of an update took, and when it came."""
        work = exchange.work
        parts = work.parts(work.begun, work.ends[-1])
        found = {f"sim_{part}_seconds": seconds for part, seconds in parts.items()}
        return found | {"sim_end_seconds": work.ends[-1]}
