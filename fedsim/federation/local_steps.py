"""The local steps of clients that do unlike numbers of them: epochs, seconds, or a controller's.

For a controller: its observations, and the orders that follow from its actions.
"""

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from flwr.app import ConfigRecord

from compressors import Compressor, State, Tensors
from fedsim.federation import ledger, orders
from fedsim.federation.draws import epoch_length
from fedsim.federation.orders import START, Fixed, Work
from fedsim.federation.trainer import lr_factor
from fedsim.federation.updates import Update
from fedsim.ground.errors import RunFailed
from fedsim.ground.records import ClientOrders, ClientRecord, RoundOrders
from fedsim.network.rates import ROUNDED
from fedsim.network.spec import NetworkSpec
from fedsim.settings.config import RunConfig
from fedsim.settings.controllers import (
    Action,
    ClientObservation,
    Memory,
    Observation,
    parse_controller,
)
from fedsim.settings.controllers.base import AGREEMENT, REPORTS
from fedsim.settings.plans import Plan
from strategies import RoundTraffic
from strategies.channel.orders import LocalSteps, Order, Orders


def client_steps(
    plan: Plan, shards: Sequence[Sized], network: NetworkSpec | None, seed: int
) -> Callable[[int], int] | None:
    """The local iterations of a round by client, of epochs or seconds; None: all do the round's n.

    Of E epochs they are E times the whole batches of a client's samples; of seconds, as many as fit
    into them, one at least. ``network``: the run's, with the FLOPs of an iteration where it goes by
    them.
    """
    epochs, size, seconds = plan.temporal, plan.batch_size, plan.local_seconds
    if plan.local_epochs is not None:
        return lambda client: epochs * epoch_length(len(shards[client]), size)
    if seconds is None:
        return None
    assert network is not None  # checks: _local_work
    compute = network.links(plan.clients, seed, math.nan).compute
    return lambda client: max(1, math.floor(seconds / compute[client] * ROUNDED))


@dataclass
class Facts:
    """The numbers known after the rounds so far, as JSON holds them; None: not yet known."""

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


class Epochs(Fixed):
    """E epochs of each client's own samples, or so many seconds: n is another for each client.

    Messages have n in a setting that they have in every run, so nothing is charged for it.
    ``steps`` returns the local iterations of a client in a round, by its number.
    """

    def __init__(self, config: RunConfig, steps: Callable[[int], int]) -> None:
        super().__init__(config)
        self.epochs, self.sides = steps, (LocalSteps(self.ask),)

    def begin(self, round_number: int, now: float, done: int = 0) -> ConfigRecord:
        self.steps = 0
        return ConfigRecord({START: done} if self.plan.task.lr_steps else {})

    def ask(self, client: int) -> int:
        """The n of a client that is asked in the round that was begun last."""
        n = self.epochs(client)
        self.steps = max(self.steps, n)
        return n

    def work_of(self, client: int) -> Work:
        return Work(self.epochs(client), self.plan.method.gradient, 0)

    def close(self, number: int, works: Collection[Work]) -> None:
        self.steps = max(work.n for work in works)

    def book(self, clients: Sequence[ClientRecord], works: Sequence[Work | None]) -> RoundOrders:
        for client, work in zip(clients, works, strict=True):
            client.orders = ClientOrders(work.n if work else 0)
        return RoundOrders(used_iterations=_used_iterations(clients))


class Controlled(Fixed):
    """A run's controller at work; the ``ordering`` of the run's strategy.

    Args:
        config: the run, which names a controller.
        weights: what travels, as it is before the first round.
        trained: the names of the model's parameters. An algorithm may send more, such as control
            variates, of which a change of the model says nothing.
        steps: the local iterations of a client in a round, by its number; None: of n, as typed.
        network: the run's, with the FLOPs of an iteration where it goes by them; no measured times
            (``checks``); None: as typed.
    """

    def __init__(
        self,
        config: RunConfig,
        weights: Tensors,
        trained: Collection[str],
        steps: Callable[[int], int] | None = None,
        network: NetworkSpec | None = None,
    ) -> None:
        super().__init__(config)
        assert config.controller is not None
        self.controller, self.name = parse_controller(config.controller), config.controller
        self.ordering, self.sides, self.epochs = self, (Orders(self),), steps
        network, clients = network or self.plan.network, self.plan.clients
        self.links = None if network is None else network.links(clients, config.seed, 0.0)
        self.facts, self.memory = Facts(), Memory()
        self._round, self._before = 0, self.memory  # the memory with which that began
        self._weights, self._change = dict(weights), State()
        self._trained = frozenset(trained)
        self._entries = sum(x.numel() for x in weights.values())

    def begin(self, round_number: int, now: float, done: int = 0) -> ConfigRecord:
        if round_number != self._round:
            self._round, self._before = round_number, self.memory
        self.facts.seconds = now
        return ConfigRecord()  # every client has an order of its own

    def close(self, number: int, works: Collection[Work]) -> None:
        if self._round != number:  # nobody was asked: the controller sees the row all the same
            self._round, self._before = number, self.memory
            self.make_orders(number, [])
        self.steps = max(work.n for work in works)
        if self.epochs is None:  # messages of rows before did not know what would be left
            self.steps = min(self.steps, self.plan.iterations - self.facts.iteration)

    def evaluates(self, round_number: int) -> bool:
        if self.epochs is not None:
            return super().evaluates(round_number)
        plan, before = self.plan, self.facts.iteration
        after, interval = before + self.steps, plan.evaluate_every * plan.temporal
        return after >= plan.iterations or before // interval != after // interval

    def make_orders(self, message_number: int, clients: Sequence[int]) -> dict[int, Order]:
        """Orders by the round, or row, that was begun; asked again in it, they are the same."""
        round_number = self._round
        observation = self._observation(round_number, clients)
        chosen, memory = self.controller.choose(observation, copy.deepcopy(self._before))
        self.memory = orders.as_json(memory, f"round {round_number}: controller {self.name}")
        self.work = {c: self._work(round_number, c, chosen) for c in clients}
        self.steps = max((work.n for work in self.work.values()), default=0)
        reports = tuple(name for name in REPORTS if name in self.controller.needs)
        return {
            client: Order(
                orders.to_payload(self.config, work),
                orders.uplink_at(self.config, work.p),
                reports,
                work.n,
            )
            for client, work in self.work.items()
        }

    def _observation(self, round_number: int, clients: Sequence[int]) -> Observation:
        facts, task = asdict(self.facts), self.plan.task
        client_facts = facts.pop("clients")
        now = facts.pop("seconds")
        known_of = {c: client_facts.get(str(c), {}) for c in clients}
        if (links := self.links) is not None:
            for c, client_values in known_of.items():
                client_values |= {
                    "up": links.up[c].at(now),
                    "down": links.down[c].at(now),
                    "latency": float(links.latency[c]),
                    "compute": float(links.compute[c]),
                }
        drops = [
            at
            for (at, factor), before in zip(
                task.lr_steps, [1.0, *(f for _, f in task.lr_steps)], strict=False
            )
            if factor < before
        ]
        return Observation(
            round=round_number,
            iterations=self._iterations(clients),
            n=self.plan.temporal,
            p=self.plan.method.gradient,
            rate=lr_factor(task, self.facts.iteration),
            rate_drops=tuple(drops),
            seconds=None if self.links is None else now,
            entries=self._entries,
            **facts,
            clients={c: ClientObservation(**x) for c, x in known_of.items()},
        )

    def _iterations(self, clients: Sequence[int]) -> int:
        """The local iterations of the whole run; of epochs, where rounds to come are like this."""
        if self.epochs is None:
            return self.plan.iterations
        left = self.plan.rounds - self._round + 1
        mean = sum(map(self.epochs, clients)) / len(clients) if clients else 0.0
        return self.facts.iteration + round(left * mean)

    def _work(self, number: int, client: int, chosen: Action | Mapping[int, Action]) -> Work:
        """One client's work; ``RunFailed`` names a choice that is none."""
        choice = chosen.get(client) if isinstance(chosen, Mapping) else chosen
        if not isinstance(choice, Action):
            raise self._failed(number, f"it chose {choice!r} for client {client}: give an Action")
        moves, done = self.controller.moves, self.facts.iteration
        n = choice.n if "n" in moves else self.plan.temporal
        p = float(choice.p) if "p" in moves else self.plan.method.gradient
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise self._failed(number, f"it chose n = {n!r}: give a whole number from 1")
        if not 0 < p <= 1:
            raise self._failed(number, f"it chose p = {p!r}: it lies in (0, 1]")
        n = min(n, self.plan.iterations - done) if self.epochs is None else self.epochs(client)
        return Work(n, orders.resolve_p(self.config, p), done)

    def _failed(self, number: int, reason: str) -> RunFailed:
        return RunFailed(f"round {number}: controller {self.name}: {reason}")

    def resumed(self, weights: Tensors) -> None:
        self._weights = dict(weights)

    def uplink(self, payload: bytes) -> Compressor:
        work = orders.from_payload(self.config, payload)
        return orders.uplink_at(self.config, work.p)

    def learn(
        self,
        row: Mapping[str, Any],
        traffic: RoundTraffic,
        weights: Tensors,
        updates: Mapping[int, Update],
    ) -> None:
        """Takes in a finished round: its row, its traffic, the model after, and its updates."""
        facts, receivers = self.facts, row["clients"] + row["failures"] - row["absent"]
        facts.iteration = row["iteration"]
        facts.up_bits += ledger.of_each(row["up_wire_bits"], row["clients"])
        facts.down_bits += ledger.of_each(row["down_wire_bits"], receivers)
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
            work, client = updates[key].work, updates[key].client
            assert work is not None  # all of them had an order
            bits, sent = 8 * len(up.payload), int(up.metrics.get("sent", 0))
            values = {"n": work.n, "p": work.p, "up_bits": bits, "sent": sent}
            facts.clients[str(client)] = values | up.report
            losses += [up.report["train_loss"]] if "train_loss" in up.report else []
        facts.train_loss = sum(losses) / len(losses) if losses else None

    def book(self, clients: Sequence[ClientRecord], works: Sequence[Work | None]) -> RoundOrders:
        for client, work in zip(clients, works, strict=True):
            client.orders = ClientOrders(work.n, work.p) if work else ClientOrders(0, math.nan)
        fractions = [work.p for work in works if work and not math.isnan(work.p)]
        return RoundOrders(
            sent_fraction=sum(fractions) / len(fractions) if fractions else math.nan,
            used_iterations=_used_iterations(clients),
        )

    def state(self) -> tuple[State, dict[str, Any]]:
        return self._change, {"facts": asdict(self.facts), "memory": self.memory}

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        self._change, self.memory = tensors, values["memory"]
        self.facts = Facts(**values["facts"])


def _used_iterations(clients: Sequence[ClientRecord]) -> float:
    """The mean of the local iterations of the clients whose update was used; 0 without one."""
    did = [x.orders.local_iterations for x in clients if x.orders and x.books.samples]
    return sum(did) / len(did) if did else 0.0
