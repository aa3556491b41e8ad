"""Servers that do not wait: fedbuff and fedasync (docs/asynchronous.md)."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.twin.clock import first_come
from tests.support.twin.federation import NEWS, Exchange, Federation
from tests.support.twin.ledger import blank
from tests.support.twin.network import call
from tests.support.twin.orders import Order, Told, cosine
from tests.support.twin.rules import ENTRIES


class Asynchronous(Federation):
    """Every update is taken in when it comes, and another client is asked at once."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        get = self.settings.get
        self.server.catch_up = True
        self.mixes = get("strategy") == "fedasync"
        self.server_lr = get("server_lr") or (0.6 if self.mixes else 1.0)
        self.at_once = get("ask") or self.cohort
        self.size = 1 if self.mixes else get("buffer_size") or min(10, self.at_once)
        self.staleness, self.arguments = call(get("staleness") or "polynomial(0.5)")
        self.sent: dict[Exchange, np.ndarray] = {}  # the model that a client was sent
        self.come: list[Exchange] = []  # at one moment, and not yet taken in
        self.messages = [0] * len(self.clients)  # to each client
        self.buffer: list[tuple[float, np.ndarray]] = []  # weights, updates
        self.turn = 0
        self.moved: Any = None  # the last row that moved the model, and how
        self.before_row = self.server.model[:ENTRIES]
        self.places = 0  # for clients that are to be asked
        self.overdue: list[Exchange] = []  # in whose place another was asked
        self.silent: list[Exchange] = []  # left, which the server hears at their deadlines

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
        """Sends a client the model; it trains at once, unless it leaves before."""
        client, temporal = self.clients[number], self.settings.get("temporal", 0)
        self.messages[number] += 1
        row = blank(number) | {"message": self.messages[number]}
        wire, row["down_content_bits"] = self.server.bits(client)
        order = self.order(number)
        wire += order.bits
        row |= {"down_wire_bits": wire, "down_news_bits": NEWS if client.taken else 0}
        row["down_order_bits"] = order.bits
        first = self.iteration
        if "rates" in self.known:
            first = min((self.messages[number] - 1) * temporal, self.settings["iterations"])
        n = order.n
        exchange = Exchange(client, order, self.server.version, row)
        self.sent[exchange] = self.server.model
        chance = self.draws.dropout(self.messages[number])[number]
        iterations, up = None, None
        if chance >= self.before:
            self.news(exchange)
            sends, exchange.loss = self.rule.work(client, self.server.model, n, first)
            exchange.message = client.send(sends, order.p)
            iterations, up = n, exchange.message.wire + order.report
        if chance < self.before + self.after:
            exchange.leaves, up = True, None
            row["lost"] += self.is_lost(client) if iterations else 0
        exchange.work = self.clock.send(number, wire, iterations, up)
        row["energy_joules"] = self.clock.network.request(number, wire, iterations, up)
        self.at_work.append(exchange)

    def order(self, number: int) -> Order:
        """What a client is told to do: as all others that are asked in the same row."""
        if self.controller is None:
            return Order(self.steps_of(number), None, report=self.sampler.report)
        told = replace(self.told, seconds=self.clock.now)
        order = self.controller.choose_all([number], told)[number]
        return replace(order, report=max(order.report, self.sampler.report))

    def look(self, number: int) -> None:
        """What a controller knows from the rows before."""
        if self.controller is None:
            return
        loss, agreement = None, None
        moved = self.server.model[:ENTRIES] - self.before_row
        self.before_row = self.server.model[:ENTRIES]
        if self.result.rounds and self.result.rounds[-1]["clients"] > 0:
            loss = self.result.rounds[-1]["train_loss"]
        if np.any(moved):
            agreement = cosine(self.moved, moved) if self.moved is not None else None
            self.moved = moved
        self.told = Told(number, self.iteration, 0.0, loss, agreement, dict(self.last))
        self.controller.look(self.told)

    def fill(self) -> None:
        """Asks as many as there are places for, of those that are there and not at work."""
        while self.places and (number := self.drawn()) is not None:
            self.turn, self.places = self.turn + 1, self.places - 1
            self.ask_client(number)

    def drawn(self) -> int | None:
        """Whom, if anybody can be asked."""
        busy = [e.client.number for e in self.at_work + self.come + self.silent]
        idle = [c.number for c in self.clients if c.number not in busy + self.empty]
        if self.settings.get("availability") is None:
            if not self.sampler.uniform:
                return next(iter(self.sampler.choose(self.turn + 1, 1, idle)), None)
            return self.draws.next_client(self.turn + 1, idle) if idle else None
        in_turn = [c for c in self.draws.in_turn(self.turn + 1) if c in idle]
        for attempt in range(1 if self.availability.by_clock or busy else 1_000):
            if self.availability.by_clock:
                there = self.availability.at(self.clock.now)
            else:
                number = len(self.result.rounds) + 1
                share, chances = self.availability.share, self.draws.there(number, attempt)
                there = [c for c in idle if share is not None and chances[c] < share]
            if free := [c for c in in_turn if c in there]:
                if not self.sampler.uniform:
                    return self.sampler.choose(self.turn + 1, 1, sorted(free))[0]
                return free[0]
        return None

    def next_event(self) -> None:
        """What comes next: replies, deadlines, clients that are there again."""
        waits = [self.due(e) for e in self.at_work + self.silent if e not in self.overdue]
        if self.places:
            waits.append(self.availability.next(self.clock.now))
        over = self.clock.step(min(waits, default=math.inf))
        come = [e for e in self.at_work if e.work in over]
        self.at_work = [e for e in self.at_work if e not in come]
        waited_for = [e for e in come if e.leaves and math.isfinite(self.deadline)]
        self.silent += [e for e in waited_for if e not in self.overdue]
        self.come = [e for e in come if e not in self.silent]
        self.come.sort(key=lambda e: first_come(e.work))
        if len(self.come) > 1 and self.clock.network.varies():
            self.result.by_rounding = True
        order = [*self.sent]  # that in which they were asked
        for exchange in sorted(self.at_work + self.silent, key=order.index):
            if self.due(exchange) <= self.clock.now and exchange not in self.overdue:
                if exchange in self.silent:
                    self.come.append(exchange)
                else:
                    self.overdue.append(exchange)
                    self.places += 1
        self.silent = [e for e in self.silent if e not in self.come]

    @property
    def exhausted(self) -> bool:
        """Whether nobody is at work, or has energy left."""
        at_work = self.at_work or self.come or self.silent
        return not at_work and len(self.empty) == len(self.clients)

    def due(self, exchange: Exchange) -> float:
        """Until when the server waits for a reply."""
        return float(exchange.work.begun + self.deadline)

    def comes(self, exchange: Exchange) -> dict[str, Any]:
        """A reply is taken in, or not; its row."""
        stale = self.server.version - exchange.version
        row = exchange.row | self.whole(exchange) | {"staleness": stale, "used": False}
        is_late = exchange in self.overdue
        row["overdue"] = int(is_late)
        self.spend(exchange.client.number, row["energy_joules"])
        if not is_late:
            self.places += 1
        if exchange.leaves:
            return row | {"failures": 1}
        assert exchange.message is not None
        if is_late and self.late != "count":
            self.refuse(exchange)
            lost = 1 if exchange.dropped else self.is_lost(exchange.client)
            bits = exchange.message.wire + exchange.order.report
            return row | {"failures": 1, "failed_up_bits": bits, "lost": lost}
        if self.too_long(exchange):
            bits = exchange.message.wire + exchange.order.report
            lost = row["lost"] + self.is_lost(exchange.client)
            return row | {"failures": 1, "failed_up_bits": bits, "lost": lost}
        update = exchange.message.seen
        if self.mixes:  # towards the model that its client has come to
            update = self.sent[exchange] + update - self.server.model
        share = exchange.client.samples if self.settings.get("weighting") == "samples" else 1
        self.buffer.append((share, self.weight(stale) * update))
        if len(self.buffer) == self.size:
            mean = sum(w * x for w, x in self.buffer) / sum(w for w, _ in self.buffer)
            self.server.move(self.server_lr * mean)
            self.buffer = []
        self.takes(exchange)
        return row | exchange.row | {"used": True}

    def round(self, number: int) -> bool:
        """A row: as many updates as a cohort has."""
        begin, rows, orders = self.clock.now, [], []
        self.told_samples = self.sampler.tell() if number == 1 else 0
        self.unlisted_joules = sum(self.tells_samples().values()) if self.told_samples else 0.0
        self.look(number)
        if number == 1 and self.settings.get("availability") is None:
            everybody = range(len(self.clients))
            first = self.draws.cohort(1, self.at_once, everybody)
            if not self.sampler.uniform:
                first = self.sampler.choose(0, self.at_once, everybody)
            for client in first:
                self.ask_client(client)
        elif number == 1:
            self.places = self.at_once
        while len(rows) < self.cohort and not (rows and self.exhausted):
            self.fill()
            if not self.come:
                self.next_event()
            if self.come:
                orders.append(self.come[0].order)
                rows.append(self.comes(self.come.pop(0)))
        self.sampler.losses |= {r["client"]: r["train_loss"] for r in rows if r["used"]}
        used = [r for r in rows if r["used"]]
        if len(used) < self.least and not self.may_be_empty and not self.exhausted:
            return False
        n = max(o.n for o in orders) if self.unlike else min(self.settings["temporal"], self.left)
        if self.unlike:
            for r, o in zip(rows, orders, strict=True):
                r["local_iterations"] = o.n
        if self.controller is not None:
            n = max(o.n for o in orders)
            n = n if self.unlike else min(n, self.left)
            typed = 1.0 if self.clients[0].method.p is None else self.clients[0].method.p
            for r, o in zip(rows, orders, strict=True):
                r |= {"local_iterations": o.n, "sent_fraction": typed if o.p is None else o.p}
        row = self.totals(number, begin, rows, n)
        stale = [r["staleness"] for r in used]
        row |= {"staleness": np.mean(stale) if stale else math.nan}
        row |= {"staleness_max": max(stale, default=0)}
        row |= {"version": self.server.version, "buffered": len(self.buffer)}
        row["overdue"] = sum(r["overdue"] for r in rows)
        row["in_flight"] = len(self.at_work) + len(self.come) + len(self.silent)
        return True

    def whole(self, exchange: Exchange) -> dict[str, float]:
        """How long the parts of an update took, and when it came."""
        work, end = exchange.work, exchange.work.ends[-1]
        end = self.due(exchange) if exchange.leaves and math.isfinite(self.deadline) else end
        end = max(end, work.ends[-1])
        parts = work.parts(work.begun, end)
        found = {f"sim_{part}_seconds": seconds for part, seconds in parts.items()}
        return found | {"sim_end_seconds": end}
