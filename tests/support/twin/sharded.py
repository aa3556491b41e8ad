"""``sharded``: each worker holds a part of the model (docs/asynchronous.md)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.twin import task
from tests.support.twin.clock import Stage, Work, first_come
from tests.support.twin.federation import NEWS, Federation
from tests.support.twin.ledger import blank
from tests.support.twin.messages import Message, Method
from tests.support.twin.rules import ENTRIES


@dataclass
class Part:
    """A part of the model, at its worker."""

    places: slice
    tensors: list[int]  # entries of each tensor of which it holds some
    model: np.ndarray
    copies: list[np.ndarray]  # what each worker holds of it
    held: list[int]  # after how many steps each worker pulled it
    velocity: Any = 0.0
    steps: int = 0


def part_of(whole: np.ndarray, places: slice, workers: range) -> Part:
    """The part of these places, which all workers know."""
    model, weight = whole[places].copy(), task.TENSORS[0]
    of_bias = max(0, places.stop - max(places.start, weight))
    tensors = [k for k in (len(model) - of_bias, of_bias) if k]
    return Part(places, tensors, model, [model for _ in workers], [0] * len(workers))


@dataclass
class Turn:
    """A message of a worker: it pulls all parts, does one iteration, and pushes to all parts."""

    worker: int
    row: dict[str, Any]
    missing: int  # pulls, and then pushes, that have not come
    begun: float = 0.0
    computes: float | None = None  # from when on
    sends: float = 0.0
    stale: list[int] = field(default_factory=list)


class Sharded(Federation):
    """Workers that are servers, too."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        get = self.settings.get
        self.pull_method = Method.of(get("downlink") or get("method", "raw"), get("gradient"))
        self.workers = range(len(self.clients))
        edges = [w * ENTRIES // len(self.clients) for w in range(len(self.clients) + 1)]
        spans = [slice(a, b) for a, b in zip(edges, edges[1:], strict=False)]
        self.parts = [part_of(self.server.model, span, self.workers) for span in spans]
        self.turns = [self.turn(worker, 1) for worker in self.workers]
        self.next = [self.turn(worker, 2) for worker in self.workers]
        self.rows: list[dict[str, Any]] = []  # of the round
        self.events: list[Work] = []  # at one moment

    def turn(self, worker: int, message: int) -> Turn:
        """A message of a worker."""
        return Turn(worker, blank(worker) | {"message": message}, len(self.workers) - 1)

    def travel(self, name: str, sender: int, receiver: int, bits: int, what: Any) -> None:
        """A message between two workers: over the link up of one and the link down of the other."""
        latency = self.clock.network.values["latency"]
        links = (("up", sender), ("down", receiver))
        both = Stage(name, latency[sender] + latency[receiver])
        self.clock.start([Stage(name, bits, links), both], what)

    def pull(self, number: int, turn: Turn) -> None:
        """A part answers: how it has changed since that worker pulled last."""
        part, worker = self.parts[number], turn.worker
        message = self.pull_method.encode(part.model - part.copies[worker], part.tensors)
        part.copies[worker] = part.copies[worker] + message.seen
        part.held[worker] = part.steps
        if number == worker:
            return
        first = turn.row["message"] == 1  # the initial model is free
        turn.row["down_wire_bits"] += 0 if first else message.wire
        turn.row["down_content_bits"] += 0 if first else message.content
        turn.row["down_news_bits"] += 0 if first else NEWS
        self.travel("download", number, worker, 0 if first else message.wire, (self.pulled, turn))

    def pulled(self, turn: Turn) -> None:
        """A part has come. With the last the worker goes on."""
        turn.missing -= 1
        if turn.missing <= 0:
            turn.computes, turn.missing = self.clock.now, len(self.workers) - 1
            seconds = self.clock.network.values["compute"][turn.worker]
            self.clock.start([Stage("compute", seconds)], (self.push, turn))

    def push(self, turn: Turn) -> None:
        """The worker has its gradient, and sends each part its own."""
        turn.sends, worker = self.clock.now, turn.worker
        client, row = self.clients[worker], turn.row
        model = np.concatenate([part.copies[worker] for part in self.parts])
        gradient, row["train_loss"] = self.rule.work(client, model, 1, self.iteration)
        row["samples"], said = client.samples, gradient + client.memory
        messages = [client.method.encode(said[p.places], p.tensors) for p in self.parts]
        if client.method.around == "ef":
            client.memory = said - np.concatenate([m.seen for m in messages])
        self.next[worker] = self.turn(worker, row["message"] + 1)
        for number, message in enumerate(messages):
            if number != worker:
                row["up_wire_bits"] += message.wire
                row["up_content_bits"] += message.content
                row["up_sent"] += int(message.sent.sum())
                what = (self.pushed, turn, number, message)
                self.travel("upload", worker, number, message.wire, what)
        self.step_of(turn, worker, messages[worker])
        if len(self.workers) == 1:
            self.comes(turn)

    def step_of(self, turn: Turn, number: int, message: Message) -> None:
        """A part makes a step with a push at once, and answers."""
        part = self.parts[number]
        turn.stale.append(part.steps - part.held[turn.worker])
        part.velocity = self.training.momentum * part.velocity + message.seen
        rate = self.training.rate(part.steps // len(self.workers))
        part.model = part.model - rate * part.velocity
        part.steps += 1
        self.pull(number, self.next[turn.worker])

    def pushed(self, turn: Turn, number: int, message: Message) -> None:
        """A push has come."""
        self.step_of(turn, number, message)
        turn.missing -= 1
        if turn.missing == 0:
            self.comes(turn)

    def comes(self, turn: Turn) -> None:
        """The last push of a message has come; the worker goes on with its next."""
        now, row = self.clock.now, turn.row
        assert turn.computes is not None
        row |= {"sim_download_seconds": turn.computes - turn.begun, "sim_waiting_seconds": 0.0}
        row |= {"sim_compute_seconds": turn.sends - turn.computes}
        row |= {"sim_upload_seconds": now - turn.sends, "sim_end_seconds": now}
        self.rows.append(row | {"staleness": float(np.mean(turn.stale))})
        self.turns[turn.worker] = self.next[turn.worker]
        self.turns[turn.worker].begun = now
        if len(self.workers) == 1:
            self.pulled(self.turns[turn.worker])

    def round(self, number: int) -> bool:
        """A row: as many updates as there are workers."""
        begin, self.rows = self.clock.now, []
        self.told_samples = self.sampler.tell() if number == 1 else 0
        if number == 1:
            for worker in self.workers:
                self.turns[worker].begun = self.clock.now
                for part in self.workers:
                    self.pull(part, self.turns[worker])
                if len(self.workers) == 1:
                    self.pulled(self.turns[worker])
        while len(self.rows) < len(self.workers):
            if not self.events:
                self.events = sorted(self.clock.step(), key=first_come)
            if self.events:
                does, *what = self.events.pop(0).what
                does(*what)
        self.server.model = np.concatenate([part.model for part in self.parts])
        row = self.totals(number, begin, self.rows, 1)
        stale = [r["staleness"] for r in self.rows]
        row |= {"staleness": np.mean(stale), "staleness_max": max(stale), "buffered": 0}
        row["version"] = min(part.steps for part in self.parts)
        began = [turn.computes for turn in self.turns if turn.computes is not None]
        row["in_flight"] = sum(time < self.clock.now for time in began)
        return True
