"""``sharded`` where workers are away, late or fewer than all (docs/asynchronous.md).

A worker pulls all parts when it is asked, and nothing of what answers its pushes.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.twin.asynchronous import Asynchronous
from tests.support.twin.clock import Stage, Work, first_come
from tests.support.twin.federation import NEWS, Exchange
from tests.support.twin.ledger import blank
from tests.support.twin.messages import Message, Method
from tests.support.twin.rules import ENTRIES
from tests.support.twin.sharded import Part, part_of

RAW = Method.of("raw", None)
AWAY = {"cohort", "ask", "availability", "dropout", "deadline"}
"""With any of these settings not all workers are at work all the time."""


@dataclass
class Said:
    """What a worker pushed to all parts, as far as it travels; and what of it may go back."""

    seen: np.ndarray
    wire: int = 0
    content: int = 0
    sent: Any = field(default_factory=lambda: np.zeros(0))
    open: list[bool] = field(default_factory=list)  # by part: it has not heard of it


class Workers(Asynchronous):
    """Workers that are servers, too, each asked when its turn comes."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        get = self.settings.get
        text = get("downlink") or get("method", "raw")
        self.pulls, self.raw = Method.of(text, get("gradient")), text == "raw"
        self.workers = range(len(self.clients))
        edges = [w * ENTRIES // len(self.clients) for w in range(len(self.clients) + 1)]
        spans = [slice(a, b) for a, b in zip(edges, edges[1:], strict=False)]
        self.parts = [part_of(self.server.model, span, self.workers) for span in spans]
        for part in self.parts:
            part.copies = [None for _ in self.workers]  # what each worker is known to hold
        nothing = [[0] * len(self.parts) for _ in self.workers]
        self.back = [[*counts] for counts in nothing]  # by worker and part: updates taken back
        self.heard = [[*counts] for counts in nothing]  # whether the part took any of its updates
        self.given: dict[Exchange, list[np.ndarray]] = {}
        self.state: dict[Exchange, dict[str, Any]] = {}
        self.over: list[Work] = []  # at one moment

    def ask_client(self, number: int) -> None:
        """A worker pulls all parts."""
        self.messages[number] += 1
        row = blank(number) | {"message": self.messages[number]}
        exchange = Exchange(self.clients[number], self.order(number), 0, row)
        exchange.work = Work(self.clock.now, [Stage("download", 0.0)])  # when it was asked
        held = [part.steps for part in self.parts]
        self.sent[exchange] = self.server.model
        self.state[exchange] = {"missing": len(self.parts) - 1, "held": held, "stale": []}
        self.given[exchange] = []
        self.at_work.append(exchange)
        for place, part in enumerate(self.parts):
            self.pull(exchange, place, part)

    def pull(self, exchange: Exchange, place: int, part: Part) -> None:
        """How a part has changed; all of it where nobody knows what the worker holds."""
        number, row = exchange.client.number, exchange.row
        copy = part.copies[number]
        raw = copy is None or self.raw
        message = (
            RAW.encode(part.model, part.tensors)
            if raw
            else (self.pulls.encode(part.model - copy, part.tensors))
        )
        self.given[exchange].append(part.model if raw else copy + message.seen)
        if place == number:
            return
        free = raw and not part.steps
        news = NEWS if self.heard[number][place] else 0
        row["down_wire_bits"] += 0 if free else message.wire
        row["down_content_bits"] += 0 if free else message.content
        row["down_news_bits"] += news
        self.travel("download", place, number, 0 if free else message.wire, (self.pulled, exchange))

    def travel(self, name: str, sender: int, receiver: int, bits: int, what: Any) -> None:
        """A message between two workers: over the link up of one and the link down of the other."""
        latency = self.clock.network.values["latency"]
        links = (("up", sender), ("down", receiver))
        both = Stage(name, latency[sender] + latency[receiver])
        self.clock.start([Stage(name, bits, links), both], what)

    def pulled(self, exchange: Exchange) -> None:
        """A part has come. With the last the worker trains, unless it leaves before."""
        state, number = self.state[exchange], exchange.client.number
        state["missing"] -= 1
        if state["missing"]:
            return
        state["computes"] = state["sends"] = self.clock.now
        if self.draws.dropout(self.messages[number])[number] < self.before:
            self.leave(exchange)
        else:
            seconds = self.clock.network.values["compute"][number]
            self.clock.start([Stage("compute", seconds)], (self.push, exchange))

    def push(self, exchange: Exchange) -> None:
        """The worker has its gradient, and sends each part its own, unless it leaves."""
        client, state, number = exchange.client, self.state[exchange], exchange.client.number
        state["sends"], state["missing"] = self.clock.now, len(self.parts)
        if client.pending is not None:
            self.back[number] = [
                count + client.method.takes_back * fate
                for count, fate in zip(self.back[number], client.pending.open, strict=True)
            ]
            client.take_back()
        model = np.concatenate(self.given[exchange])
        gradient, exchange.loss = self.rule.work(client, model, 1, self.iteration)
        wants = gradient + client.memory
        messages = [client.method.encode(wants[p.places], p.tensors) for p in self.parts]
        seen = np.concatenate([m.seen for m in messages])
        if client.method.around == "ef":
            client.memory = wants - seen
        away = [m for place, m in enumerate(messages) if place != number]
        said = Said(seen.copy(), sum(m.wire for m in away), sum(m.content for m in away))
        said.sent = np.concatenate([m.sent for m in away])
        said.open = [True] * len(self.parts)
        exchange.message = client.pending = said
        exchange.told = {"returned": max(self.back[number])}
        chance = self.draws.dropout(self.messages[number])[number]
        if chance < self.before + self.after:
            exchange.row["lost"] += self.is_lost(client)
            for part in self.parts:
                part.copies[number] = None
            self.leave(exchange)
            return
        for place, message in enumerate(messages):
            if place != number:
                what = (self.pushed, exchange, place, message)
                self.travel("upload", number, place, message.wire, what)
        self.pushed(exchange, number, messages[number])

    def leave(self, exchange: Exchange) -> None:
        """A worker drops out, which is known at once, or with a deadline when that is over."""
        exchange.leaves = True
        self.state[exchange]["ended"] = self.clock.now
        self.at_work.remove(exchange)
        waits = math.isfinite(self.deadline) and exchange not in self.overdue
        (self.silent if waits else self.come).append(exchange)

    def pushed(self, exchange: Exchange, place: int, message: Message) -> None:
        """A push has come: the part moves at once, unless it is late and late ones do not count."""
        state, part, client = self.state[exchange], self.parts[place], exchange.client
        state["stale"].append(part.steps - state["held"][place])
        if exchange in self.overdue and self.late != "count":
            state["failed"] = True
            part.copies[client.number] = None
            if self.late == "drop":
                self.settled(exchange, place)
                state["lost"] = True
            else:
                state["lost"] = state.get("lost", False) or bool(self.is_lost(client))
        else:
            part.copies[client.number] = self.given[exchange][place]
            self.settled(exchange, place)
            part.velocity = self.training.momentum * part.velocity + message.seen
            rate = self.training.rate(part.steps // len(self.workers))
            part.model = part.model - rate * part.velocity
            part.steps += 1
        state["missing"] -= 1
        if not state["missing"]:
            state["ended"] = self.clock.now
            self.at_work.remove(exchange)
            self.come.append(exchange)

    def settled(self, exchange: Exchange, place: int) -> None:
        """A part is done with an update: nothing of it goes back."""
        said, number = exchange.message, exchange.client.number
        assert isinstance(said, Said)
        said.seen[self.parts[place].places] = 0.0
        said.open[place] = False
        self.heard[number][place], self.back[number][place] = 1, 0

    def next_event(self) -> None:
        """What comes next: messages, batches, deadlines, workers that are there again."""
        while self.over and not self.come:
            does, *what = self.over.pop(0).what
            does(*what)
        if self.come:
            return
        if not self.expire():
            waits = [self.due(e) for e in self.at_work + self.silent if e not in self.overdue]
            if self.places:
                waits.append(self.availability.next(self.clock.now))
            self.over = sorted(self.clock.step(min(waits, default=math.inf)), key=first_come)

    def expire(self) -> bool:
        """Deadlines that are over: whether there was one."""
        order, found = [*self.sent], False
        for exchange in sorted(self.at_work + self.silent, key=order.index):
            if self.due(exchange) <= self.clock.now and exchange not in self.overdue:
                found = True
                if exchange in self.silent:
                    self.silent.remove(exchange)
                    self.come.append(exchange)
                else:
                    self.overdue.append(exchange)
                    self.places += 1
        return found

    def comes(self, exchange: Exchange) -> dict[str, Any]:
        """All parts have heard of an update, or of a worker that has left; its row."""
        state, row, now = self.state[exchange], exchange.row, self.clock.now
        is_late = exchange in self.overdue
        if not is_late:
            self.places += 1
        ends = [exchange.work.begun, state["computes"], state["sends"], state["ended"]]
        if exchange.leaves:
            state["stale"] = [
                p.steps - held for p, held in zip(self.parts, state["held"], strict=True)
            ]
            ends[3] = ends[2]
        down, compute, up = np.diff(ends)
        row |= {"sim_download_seconds": down, "sim_compute_seconds": compute}
        row |= {"sim_upload_seconds": up, "sim_waiting_seconds": now - ends[3]}
        row |= {"staleness": float(np.mean(state["stale"])), "used": False}
        row |= {"overdue": int(is_late), "sim_end_seconds": now}
        if exchange.leaves:
            return row | {"failures": 1}
        said, client = exchange.message, exchange.client
        assert isinstance(said, Said)
        if not any(said.open):
            client.pending = None
        if state.get("failed"):
            lost = row["lost"] + int(state.get("lost", False))
            return row | {"failures": 1, "failed_up_bits": said.wire, "lost": lost}
        row |= {"samples": client.samples, "train_loss": exchange.loss, "used": True}
        row |= {"up_wire_bits": said.wire, "up_content_bits": said.content}
        row["up_sent"] = int(said.sent.sum())
        row["returned"] += exchange.told["returned"]
        return row

    def totals(self, *given: Any) -> dict[str, Any]:
        """The row, of the model of all parts."""
        self.server.model = np.concatenate([part.model for part in self.parts])
        return super().totals(*given)

    def round(self, number: int) -> bool:
        """A row: as many updates as a cohort has."""
        if not super().round(number):
            return False
        row, waiting = self.result.rounds[-1], self.at_work + self.silent + self.come
        row["version"] = min(part.steps for part in self.parts)
        row["in_flight"] = sum("computes" in self.state[exchange] for exchange in waiting)
        return True
