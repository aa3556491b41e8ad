"""Between a run and its controller: what the controller is told, and what its choices become."""

import copy
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from flwr.app import ConfigRecord
from torch import Tensor

from compressors import Compressor, State
from fedsim.federation import ledger, orders
from fedsim.federation.orders import Work
from fedsim.federation.trainer import lr_factor
from fedsim.ground.errors import RunFailed
from fedsim.settings.config import RunConfig
from fedsim.settings.controllers import Choice, Memory, Seen, Told, parse
from fedsim.settings.controllers.base import AGREEMENT, REPORTS
from strategies import RoundTraffic
from strategies.channel.orders import Order


@dataclass
class Facts:
    """What is known after the rounds so far, as JSON holds it; None: not yet."""

    iteration: int = 0
    up_bits: float = 0.0
    down_bits: float = 0.0
    seconds: float = 0.0
    train_loss: float | None = None
    loss: float | None = None
    metric: float | None = None
    update_norm: float | None = None
    agreement: float | None = None
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)


class Fixed:
    """n and p of every round as the settings have them, with which nothing travels."""

    ordering: "Controlled | None" = None
    steps = 0
    """The local iterations of the round: the most that a client of it does."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.plan = config, config.plan
        self.work: dict[int, Work] = {}  # by client: what was ordered last

    def begin(self, round_number: int, now: float) -> ConfigRecord:
        """Begins a round at a simulated time; returns what every message of it says."""
        self.steps = self.plan.local_iterations(round_number)
        return ConfigRecord({"iterations": self.steps})

    def evaluates(self, round_number: int) -> bool:
        """Whether the server scores its model after the round that was begun last."""
        return self.plan.evaluates(round_number)

    def resumed(self, weights: Mapping[str, Tensor]) -> None:
        """The model from which the run goes on."""

    def close(self, number: int, works: Collection[Work]) -> None:
        """Of a server that does not wait: the row has these works."""
        self.steps = self.plan.local_iterations(number)

    def learn(
        self, row: Mapping[str, Any], traffic: RoundTraffic, weights: Mapping[str, Tensor],
        works: Mapping[int, Work],
    ) -> None:  # fmt: skip
        """Takes in a finished round: its row, its traffic, the model after, and works by uplink."""

    def columns(
        self, rows: list[dict[str, Any]], works: Sequence[Work | None]
    ) -> dict[str, Any]:
        """Adds to the clients' rows what each was to do; returns what the round's row has of it."""
        return {}


class Controlled(Fixed):
    """A run's controller at work; the ``ordering`` of the run's strategy.

    Args:
        config: the run, which names a controller.
        weights: what travels, as it is before the first round.
        trained: the names of the model's parameters. An algorithm may send more, such as control
            variates, of which a change of the model says nothing.
    """

    def __init__(
        self, config: RunConfig, weights: Mapping[str, Tensor], trained: Collection[str]
    ) -> None:
        super().__init__(config)
        assert config.controller is not None
        self.controller, self.name = parse(config.controller), config.controller
        self.ordering = self
        network, clients = self.plan.network, self.plan.clients  # no measured times: moving.check
        self.links = None if network is None else network.links(clients, config.seed, 0.0)
        self.facts, self.memory = Facts(), Memory()
        self._round, self._before = 0, self.memory  # the memory with which that began
        self._weights, self._change = dict(weights), State()
        self._trained = frozenset(trained)
        self._entries = sum(x.numel() for x in weights.values())

    def begin(self, round_number: int, now: float) -> ConfigRecord:
        if round_number != self._round:
            self._round, self._before = round_number, self.memory
        self.facts.seconds = now
        return ConfigRecord()  # every client has an order of its own

    def close(self, number: int, works: Collection[Work]) -> None:
        if self._round != number:  # nobody was asked: the controller sees the row all the same
            self._round, self._before = number, self.memory
            self.give(number, [])
        self.steps = max(work.n for work in works)

    def evaluates(self, round_number: int) -> bool:
        done = self.facts.iteration
        return self.plan.evaluates_between(done, done + self.steps)

    def give(self, message_number: int, clients: Sequence[int]) -> dict[int, Order]:
        """Orders by the round, or row, that was begun; asked again in it, they are the same."""
        round_number = self._round
        told = self._told(round_number, clients)
        chosen, memory = self.controller.choose(told, copy.deepcopy(self._before))
        try:  # as a checkpoint brings it back: a run that goes on is the same
            self.memory = json.loads(json.dumps(memory))
        except (TypeError, ValueError) as error:
            why = f"its memory cannot be kept as JSON: {error}"
            raise self._failed(round_number, why) from error
        if not isinstance(self.memory, dict):
            raise self._failed(round_number, f"its memory is {memory!r}: give a dict")
        self.work = {c: self._work(round_number, c, chosen) for c in clients}
        self.steps = max((work.n for work in self.work.values()), default=0)
        wanted = tuple(name for name in REPORTS if name in self.controller.needs)
        return {
            client: Order(
                orders.to_payload(self.config, work), orders.uplink_at(self.config, work.p),
                wanted, work.n,
            )
            for client, work in self.work.items()
        }  # fmt: skip

    def _told(self, round_number: int, clients: Sequence[int]) -> Told:
        known, task = asdict(self.facts), self.plan.task
        seen = known.pop("clients")
        now = known.pop("seconds")
        known_of = {c: seen.get(str(c), {}) for c in clients}
        if (links := self.links) is not None:
            for c, own in known_of.items():
                own |= {
                    "up": links.up[c].at(now), "down": links.down[c].at(now),
                    "latency": float(links.latency[c]), "compute": float(links.compute[c]),
                }  # fmt: skip
        drops = [at for (at, factor), before in zip(
            task.lr_steps, [1.0, *(f for _, f in task.lr_steps)], strict=False
        ) if factor < before]  # fmt: skip
        return Told(
            round=round_number, iterations=self.plan.iterations, n=self.plan.temporal,
            p=self.plan.method.gradient, rate=lr_factor(task, self.facts.iteration),
            rate_drops=tuple(drops), seconds=None if self.links is None else now,
            entries=self._entries, clients={c: Seen(**x) for c, x in known_of.items()}, **known,
        )  # fmt: skip

    def _work(
        self, number: int, client: int, chosen: Choice | Mapping[int, Choice]
    ) -> Work:
        """One client's work; ``RunFailed`` names a choice that is none."""
        choice = chosen.get(client) if isinstance(chosen, Mapping) else chosen
        if not isinstance(choice, Choice):
            raise self._failed(number, f"it chose {choice!r} for client {client}: give a Choice")
        moves, done = self.controller.moves, self.facts.iteration
        n = choice.n if "n" in moves else self.plan.temporal
        p = float(choice.p) if "p" in moves else self.plan.method.gradient
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise self._failed(number, f"it chose n = {n!r}: give a whole number from 1")
        if not 0 < p <= 1:
            raise self._failed(number, f"it chose p = {p!r}: it lies in (0, 1]")
        return Work(min(n, self.plan.iterations - done), orders.understood(self.config, p), done)

    def _failed(self, number: int, why: str) -> RunFailed:
        return RunFailed(f"round {number}: controller {self.name}: {why}")

    def resumed(self, weights: Mapping[str, Tensor]) -> None:
        self._weights = dict(weights)

    def uplink(self, payload: bytes) -> Compressor:
        work = orders.from_payload(self.config, payload)
        return orders.uplink_at(self.config, work.p)

    def learn(
        self, row: Mapping[str, Any], traffic: RoundTraffic, weights: Mapping[str, Tensor],
        works: Mapping[int, Work],
    ) -> None:  # fmt: skip
        facts, asked = self.facts, row["clients"] + row["failures"] - row["absent"]
        facts.iteration = row["iteration"]
        facts.up_bits += ledger.of_each(row["up_wire_bits"], row["clients"])
        facts.down_bits += ledger.of_each(row["down_wire_bits"], asked)
        if not math.isnan(row["metric"]):
            facts.metric, facts.loss = row["metric"], row["loss"]
        facts.seconds = row.get("sim_end_seconds", 0.0)
        change = {n: x - self._weights[n] for n, x in weights.items() if n in self._trained}
        self._weights, facts.agreement = dict(weights), None
        size = facts.update_norm = orders.norm(change)
        if AGREEMENT in self.controller.needs and size:
            if self._change:  # the cosine with the last change that moved the model
                inner = sum(torch.sum(x.double() * self._change[n]) for n, x in change.items())
                facts.agreement = float(inner) / (orders.norm(self._change) * size)
            self._change = change
        losses = []
        for key, up in sorted(traffic.uplinks.items()):
            work, client = works[key], traffic.client_of(key)
            bits, sent = 8 * len(up.payload), int(up.metrics.get("sent", 0))
            known = {"n": work.n, "p": work.p, "up_bits": bits, "sent": sent}
            facts.clients[str(client)] = known | up.report
            losses += [up.report["train_loss"]] if "train_loss" in up.report else []
        facts.train_loss = sum(losses) / len(losses) if losses else None

    def columns(
        self, rows: list[dict[str, Any]], works: Sequence[Work | None]
    ) -> dict[str, Any]:
        for row, work in zip(rows, works, strict=True):
            row["local_iterations"] = work.n if work else 0
            row["sent_fraction"] = work.p if work else float("nan")
        fractions = [work.p for work in works if work]
        did = [row["local_iterations"] for row in rows if row["samples"]]
        return {
            "sent_fraction": sum(fractions) / len(fractions) if fractions else float("nan"),
            "used_iterations": sum(did) / len(did) if did else 0.0,
        }

    def state(self) -> tuple[State, dict[str, Any]]:
        return self._change, {"facts": asdict(self.facts), "memory": self.memory}

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        self._change, self.memory = tensors, values["memory"]
        self.facts = Facts(**values["facts"])
