"""The server's loop, the same on every engine: ask the strategy, send, aggregate, score, record.

Flower's own ``Strategy.start`` runs the same strategies; this loop adds what it has no
place for: evaluation on a schedule, the ledger, checkpoints, progress, and an error
when a run cannot be trusted.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import nan
from typing import Any, NamedTuple, Protocol

import numpy as np
from flwr.serverapp import Grid
from torch import Tensor

from compressors import State, Tensors, UpdateError
from compressors.base import finite
from compressors.whole.memory import nest, unnest
from fedsim.federation import digests, evaluation, ledger
from fedsim.federation.aggregation import make_strategy
from fedsim.federation.client_memory import Memories
from fedsim.federation.evaluation import evaluate, evaluate_each, local_loss
from fedsim.federation.failures import FAR, largest_update
from fedsim.federation.flops import count_flops
from fedsim.federation.inflight import InFlight
from fedsim.federation.local_steps import Controlled, Epochs, Fixed, client_steps
from fedsim.federation.memories import suspect
from fedsim.federation.modelbuffers import server_buffers
from fedsim.federation.orders import Work
from fedsim.federation.sampling import NUMBER_BITS, Sampling
from fedsim.federation.simulation import Simulation, TimedGrid
from fedsim.federation.spending import Spending
from fedsim.federation.trainer import Trainer
from fedsim.ground.columns import row_of
from fedsim.ground.errors import RunFailed
from fedsim.ground.records import (
    AsynchronousRound,
    ClientRecord,
    ClientScores,
    PrivacyLoss,
    RoundRecord,
    Score,
    SimulatedRound,
)
from fedsim.settings.config import RunConfig
from strategies import (
    AccumulatorOverflow,
    RoundTraffic,
    ServerEnd,
    TooFewReplies,
)
from strategies.channel.packing import Stored
from strategies.channel.server_end import KINDS

_KNOWN = 2**16
"""Clients whose local iterations are not worked out again; a shard may be drawn when it is read."""
FORWARD = 1 / 3
"""The time of a forward pass, as a share of a local iteration's."""


class Recorder(Protocol):
    """Receives rounds when they are done.

    Attributes:
        spent: bits (wire) of a client that takes part in every round so far, of which
            ``--stop-at-bits`` is a limit.
        joules: what all clients together have spent so far, of which ``--stop-at-joules`` is a
            limit.
        sim_seconds: the simulated time at which the run goes on.
        used_iterations: local iterations behind used updates so far: the sum of the rounds' means.
        states: the clients' memory; None where it is at their nodes.
        scored: whether the model of the last round was scored; True before the first round.
    """

    spent: float
    joules: float
    sim_seconds: float
    used_iterations: float
    states: Memories | None

    @property
    def scored(self) -> bool: ...

    @property
    def rounds_done(self) -> int:
        """Rounds that were done before (a run that goes on)."""
        ...

    @property
    def iterations_done(self) -> int:
        """Local iterations that were done in these rounds."""
        ...

    def resume(self, server: "Server") -> None:
        """Gives the server back its memory, if there is a checkpoint."""
        ...

    def round(
        self,
        row: dict[str, Any],
        clients: Iterable[dict[str, Any]],
        traffic: RoundTraffic,
        server: "Server",
    ) -> None:
        """Keeps one round."""
        ...

    def score(self, columns: dict[str, float]) -> None:
        """Adds to the last round what its model, which was not scored then, comes to."""
        ...


class Scored(NamedTuple):
    """The models that are scored after a round: weights, buffers, and clients' own parts (by
    client; none where all have the server's model); its number and the run's iterations so far."""

    weights: Tensors
    buffers: Tensors
    parts: Mapping[int, State]
    number: int
    done: int


class Server:
    """One run's server. ``main`` is the body of the ServerApp.

    Attributes:
        initial: what all know before the first round.
        own_models: whether clients' models are others than the server's.

    Raises ``RunFailed`` from ``main`` where too few clients reply, a switch's sum overflows or a
    weight is not finite.
    """

    def __init__(self, config: RunConfig, trainer: Trainer, recorder: Recorder) -> None:
        self.config, self.plan = config, config.plan
        self.trainer, self.recorder = trainer, recorder
        model = {n: p.detach().cpu().clone() for n, p in trainer.parameters.items()}
        self.initial = config.plan.client.payload_template(model)
        self.network = count_flops(self.plan.network, trainer)
        self.spending = Spending.of(self.network, self.plan.clients, config.seed)
        controlled = config.controller is not None
        shards = trainer.federation.shards
        steps = client_steps(self.plan, shards, self.network, config.seed)
        steps_of = lru_cache(_KNOWN)(steps) if steps is not None else None
        self.work = (
            Controlled(config, self.initial, model, steps_of, self.network)
            if controlled
            else Epochs(config, steps_of)
            if steps_of
            else Fixed(config)
        )
        buffers = server_buffers(config, trainer.buffers, self._may_score)
        unused = trainer.unused if self.plan.algorithm.gradients else frozenset[str]()
        self.strategy = make_strategy(config, buffers, unused)
        self.strategy.ordering = self.work.ordering
        self.strategy.local_steps = self.work.local_steps
        entries = sum(x.numel() for x in self.initial.values())
        self.sampling = Sampling.of(config, trainer.federation.shards, entries)
        if self.sampling is not None:
            self.strategy.draws, self.strategy.reports = self._draw, self.sampling.reports
            self.sampling.score = self._local_losses
        self.simulation = Simulation(
            config, self.strategy, recorder.sim_seconds, self.network, self.spending
        )
        self._dense = 64.0 * entries  # bits, both ways
        self.own_models = evaluation.differ(trainer, self.initial)
        self._last: Scored | None = None  # the model of the last round
        self._far = ""  # who sent an update in the round before that is far from the others'

    def state(self) -> tuple[State, dict[str, Any]]:
        """What a checkpoint keeps of it: tensors, and values that JSON can hold."""
        tensors, values = self.strategy.state()
        if self.sampling is not None:
            values["sampler"] = self.sampling.memory
        if self.spending is not None:
            values["energy"] = self.spending.state()
        stored = Stored(KINDS)
        values["under way"] = stored.pack(self.under_way())
        values["required"] = self.strategy.required
        return tensors | nest("under-way", stored.tensors), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        self.strategy.restore(tensors, values)
        earlier = self.plan.cohort if self.plan.rules.plain else 0  # 0.1.0 kept no number
        self.strategy.required = values.get("required", self.config.clients.min_replies or earlier)
        if self.sampling is not None:
            self.sampling.memory = values["sampler"]
        if self.spending is not None:
            self.spending.restore(values["energy"])
        state = values.get("under way", {"works": [], "late": []})
        if "works" not in state:  # 0.1.0 kept no tensors
            state = Stored(KINDS, unnest("under-way", tensors)).unpack(state)
        self.go_on(state)

    def under_way(self) -> dict[str, Any]:
        """The clock, and what is in flight."""
        return self.simulation.state()

    def go_on(self, state: dict[str, Any]) -> None:
        """The way back from ``under_way``."""
        self.simulation.restore(state)

    def main(self, grid: Grid) -> None:
        """Runs what is left of the rounds."""
        self.open(grid)
        while not self.done:
            self.step()

    def open(self, grid: Grid) -> None:
        """Goes on from where the recorder is, over ``grid``."""
        self.grid = TimedGrid(grid, self.simulation) if self.simulation.matters else grid
        self.strategy.open(self.initial)
        self.recorder.resume(self)
        self._hold()
        self.work.resumed(self.channel.weights)

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        recorder = self.recorder
        ended = self.plan.ends(recorder.rounds_done, recorder.iterations_done, recorder.spent)
        return ended or self.plan.reaches_joules(recorder.joules) or self.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether fewer clients have energy left than a round needs."""
        return self.spending is not None and self.spending.left < self.plan.min_replies

    def _may_score(self, number: int) -> bool:
        """Whether the model is scored after a round: as planned, or since its bits may end the run.

        The round's bits are not known yet. They are assumed to be 1.5 times the average of the
        rounds before; the first round is assumed to be dense both ways. Any round may be the last
        where energy ends the run.
        """
        limited = self.network is not None and self.network.limited
        if limited or self.plan.stop_at_joules is not None:
            return True
        rounds, spent = self.recorder.rounds_done, self.recorder.spent
        each = spent / rounds if rounds else self._dense
        # Twice, as ``book`` looks one message beyond the round's own.
        return self.work.evaluates(number) or self.plan.reaches(spent + 2 * 1.5 * each)

    def step(self) -> dict[str, Any]:
        """One round; returns its row."""
        number, start = self.recorder.rounds_done + 1, time.perf_counter()
        channel, strategy = self.channel, self.strategy
        before = channel.version
        with self.failing(number):
            self.simulation.begin(number, self.plan.local_iterations(number))
            if self.sampling is not None and number == 1:
                simulation = self.simulation
                for message in self.sampling.register(simulation.clock, simulation.timed):
                    simulation.spend(message)
            now, done = self.simulation.clock.now, self.recorder.iterations_done
            settings = self.work.begin(number, now, done)
            messages = strategy.ask(number, settings, self.grid)
            self.simulation.exchange("before")
            timeout = self.config.machine.timeout
            replies = self.grid.send_and_receive(messages, timeout=timeout)
            strategy.advance(replies)
            self.simulation.exchange("after")
            if channel.version == before and channel.traffic.uplinks:
                raise RunFailed(f"round {number}: the strategy made no model of the replies")
            self.simulation.add_edge_time()
            self.simulation.add_coding_time()
        return self.book(number, start)

    def _draw(self, number: int, among: Sequence[int] | np.ndarray, count: int) -> Sequence[int]:
        """The cohort of a round, by the run's sampler."""
        assert self.sampling is not None
        return self.sampling.draw(number, number, among, count, self.simulation.clock.now)

    def _local_losses(
        self, number: int, clients: Sequence[int]
    ) -> tuple[dict[int, float], dict[int, int]]:
        """Asks clients for their loss at the model that they would train from.

        The losses are computed here: the clients would decode the same weights. A batch takes the
        third part of a local iteration, because a backward pass takes about two forward ones
        (Kaplan et al. 2020, Scaling laws for neural language models, section 2.1).
        """
        channel, simulation, batches = self.channel, self.simulation, self.plan.draws.loss_batches
        losses, bits, exchanges = dict[int, float](), dict[int, int](), []
        iterations = dict[int, float]()
        for client in clients:
            began = time.perf_counter()
            losses[client] = float(
                np.float32(local_loss(self.trainer, channel.weights, client, number, batches))
            )
            bits[client] = ledger.charged_bits(channel.lacks(client))
            count = batches or self.trainer.batches_of(client).an_epoch
            measured, iterations[client] = simulation.network.measured, count * FORWARD
            work = time.perf_counter() - began if measured else iterations[client]
            exchanges.append(
                InFlight(
                    client,
                    number,
                    bits[client],
                    work * float(simulation.clock.links.compute[client]),
                    NUMBER_BITS,
                )
            )
        if simulation.timed:
            simulation.ask_first(exchanges, iterations)
        return losses, bits

    @property
    def channel(self) -> ServerEnd:
        """The server's end of the channel, which has the model."""
        assert self.strategy.channel is not None
        return self.strategy.channel

    @property
    def model(self) -> dict[str, Tensor]:
        """TrainResult weights, those that are not trained, and buffers, by name, on the CPU."""
        moved = {n: x for n, x in self.channel.weights.items() if n in self.trainer.parameters}
        tensors = self.trainer.frozen | moved | dict(self._buffers)
        return {name: x.contiguous().cpu() for name, x in tensors.items()}

    @contextmanager
    def failing(self, number: int) -> Iterator[None]:
        """Makes errors that end a run ``RunFailed``.

        The error names the client of the largest update, where that may be why.
        """
        try:
            yield
        except TooFewReplies as error:
            raise RunFailed(f"{error}{self._far}") from error
        except (TimeoutError, AccumulatorOverflow) as error:
            raise RunFailed(str(error)) from error
        except UpdateError as error:  # of the server's own: clients' are failed replies
            whose = largest_update(self.channel.traffic)
            raise RunFailed(f"round {number}, global update: {error}{whose}") from error

    def book(self, number: int, start: float) -> dict[str, Any]:
        """Scores the model where it is time, and writes the round's row; returns the row.

        Args:
            number: of the round, which is done.
            start: when it began (``time.perf_counter``).
        """
        channel, traffic, scored = self.channel, self.channel.traffic, time.perf_counter()
        for name, x in channel.weights.items():
            if not finite(x):
                methods = self.plan.method.compressor, self.plan.downlink
                rates = "a learning rate (--lr, --server-lr) is too high"
                cause = next(filter(None, map(suspect, methods)), rates)
                raise RunFailed(
                    f"round {number}: weight {name!r} is not finite any more: "
                    f"{cause}{largest_update(traffic)}"
                )
        self._far = largest_update(traffic, FAR)
        done, steps, clients = self.recorder.iterations_done, self.work.steps, len(traffic.uplinks)
        sampler_bits = None if self.sampling is None else self.sampling.request_bits(traffic)
        failed, bits = ledger.count_failures(traffic), ledger.bits_of_round(traffic, sampler_bits)
        # The last round is scored. If a run stops at so many bits, the last round within them is
        # scored, too: when it ends, if the next round is expected to send as much; else now, after
        # this round has sent more. Both ways, the first round sends less, as the initial model is
        # free: the next may be dense.
        counted = {"clients": clients, **row_of(failed), **row_of(bits)}
        sent = ledger.bits_of_each(counted, self.plan.budget_of)
        both = self.plan.budget_of == "total"
        ahead = max(sent, 1.5 * self._dense) if both and number == 1 else sent
        if self._last is not None and self.plan.exceeds(self.recorder.spent + sent):
            self.recorder.score(row_of(self._score(self._last)))
        joules = self.joules()
        by_energy = self.plan.reaches_joules(self.recorder.joules + (joules or 0.0))
        by_bits = self.plan.reaches(self.recorder.spent + sent + ahead)
        if self.work.evaluates(number) or by_bits or by_energy or self.exhausted:
            score = self._score(self._to_score(done + steps))
        else:
            local = self.config.evaluation.clients is not None
            score = Score(nan, nan, ClientScores(nan, nan, nan) if local else None)
        now = time.perf_counter()
        works = self.works(traffic)
        records = self.client_records(works)
        rows = [*map(row_of, records)]
        orders = self.work.round_orders(records)
        if self.plan.by_client and orders is not None:  # clients do unlike numbers of them
            used = self.recorder.used_iterations + orders.used_iterations
            iteration = math.floor(used + 0.5)
        else:
            iteration = done + steps
        epsilon = self.plan.algorithm.epsilon(number)
        row = row_of(RoundRecord(
            round=number, iteration=iteration, local_iterations=steps, clients=clients,
            failed=failed, score=score, train_loss=ledger.mean_metric(traffic, "train-loss"),
            bits=bits, coding=ledger.round_seconds(traffic), evaluate_seconds=now - scored,
            seconds=now - start, timing=self.timing(),
            orders=orders, privacy=None if epsilon is None else PrivacyLoss(epsilon),
            energy_joules=joules,
            digest_payloads=digests.of_rows(rows), digest_model=digests.of_model(self.model),
        ))  # fmt: skip
        self.work.learn(row, traffic, channel.weights, works)
        if self.sampling is not None:
            self.sampling.learn(number, traffic, self.durations())
        self.recorder.round(row, rows, traffic, self)
        self._hold()
        return row

    @property
    def _buffers(self) -> Tensors:
        """The server's buffers; none where the model has none that travel."""
        return self.strategy.buffers.values if self.strategy.buffers else {}

    def _to_score(self, done: int) -> Scored:
        """The models to score now, after ``done`` local iterations of the run."""
        memories, parts = self.recorder.states, dict[int, State]()
        if self.own_models and memories is not None:
            parts = evaluation.personal_states(self.trainer, memories)
        number = self.channel.traffic.round
        return Scored(self.channel.weights, self._buffers, parts, number, done)

    def _score(self, scored: Scored) -> Score:
        """The scores of a model; if clients' models differ, the averages of theirs."""
        if self.own_models:
            return evaluate_each(self.trainer, evaluation.models(self.trainer, *scored))
        if self.strategy.buffers is not None:
            self.trainer.buffers.load(dict(scored.buffers))
        return evaluate(self.trainer, scored.weights)

    def _hold(self) -> None:
        """Holds the model of a round that may turn out to be the last within the run's bits."""
        waits = self.plan.stop_at_bits is not None and not self.recorder.scored
        self._last = self._to_score(self.recorder.iterations_done) if waits else None

    def works(self, traffic: RoundTraffic) -> Mapping[int, Work]:
        """What was ordered, by the keys of a round's traffic."""
        return self.work.works(traffic)

    def durations(self) -> Mapping[int, float]:
        """By the keys of the round's traffic, seconds of the clock from request to reply."""
        works = self.simulation.works.items()
        return {client: x.ended_at - x.sent_at for client, x in works if x.over}

    def timing(self) -> SimulatedRound | AsynchronousRound:
        """The round's columns of the simulated clock."""
        return self.simulation.row()

    def joules(self) -> float | None:
        """What all clients together have spent in the round; None where nothing takes energy."""
        return None if self.spending is None else sum(self.simulation.joules.values())

    def client_records(self, works: Mapping[int, Work]) -> list[ClientRecord]:
        """A record of each client in the round; ``works``: as ``works`` returns them."""
        spent = None if self.spending is None else self.simulation.joules
        return [
            ClientRecord(
                books,
                self.simulation.client_row(books.client),
                self.work.client_orders(works.get(books.client)),
                None if spent is None else spent.get(books.client, 0.0),
            )
            for books in ledger.client_books(self.channel.traffic)
        ]
