"""The server's loop, the same on every engine: ask the strategy, send, aggregate, score, record.

Flower's own ``Strategy.start`` runs the same strategies; this loop adds what it has no
place for: evaluation on a schedule, the ledger, checkpoints, progress, and an error
when a run cannot be trusted.
"""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import lru_cache, partial
from math import nan
from statistics import median
from typing import Any, NamedTuple, Protocol

from flwr.serverapp import Grid
from torch import Tensor

from compressors import State, Tensors, UpdateError
from compressors.base import finite
from compressors.whole.memory import nest, unnest
from fedsim.federation import evaluation, ledger
from fedsim.federation.client_memory import Memories
from fedsim.federation.concurrent import Concurrent
from fedsim.federation.evaluation import evaluate, evaluate_each
from fedsim.federation.failures import suspect
from fedsim.federation.flops import count_flops
from fedsim.federation.local_steps import Controlled, Epochs, client_steps
from fedsim.federation.modelbuffers import server_buffers
from fedsim.federation.orders import Fixed, uplink_at
from fedsim.federation.rounds import Rounds
from fedsim.federation.sampling import Sampling
from fedsim.federation.schedule import Schedule
from fedsim.federation.sharding import ConcurrentShards
from fedsim.federation.spending import Spending
from fedsim.federation.trainer import Trainer, lr_factor, make_optimizer
from fedsim.federation.updates import RoundUpdates
from fedsim.ground.columns import row_of
from fedsim.ground.errors import RunFailed
from fedsim.ground.records import (
    ClientRecord,
    ClientScores,
    FailedReplies,
    PrivacyLoss,
    RoundBits,
    RoundRecord,
    Score,
)
from fedsim.settings.config import RunConfig
from fedsim.settings.methods import compressor_of
from strategies import (
    AccumulatorOverflow,
    Buffers,
    ChannelStrategy,
    DelayedDSGD,
    RoundTraffic,
    TooFewReplies,
    build,
)
from strategies.channel.packing import Stored
from strategies.channel.server_end import KINDS
from strategies.server.edges import EdgeServers

_ENDING = TooFewReplies, TimeoutError, AccumulatorOverflow, UpdateError
"""Errors of a round after which a run cannot go on."""

_KNOWN = 2**16
"""Clients whose local iterations are not worked out again; a shard may be drawn when it is read."""

_FAR = 1000
"""A failed round's message names an update whose norm is so many times the others' median."""

SCHEDULES: dict[str, type[Schedule]] = {
    "rounds": Rounds,
    "server": Concurrent,
    "shards": ConcurrentShards,
}
"""When the server asks and steps, by what drives the strategy (``Algorithm.clock``)."""


class Recorder(Protocol):
    """Receives rounds when they are done."""

    spent: float  # bits (wire) of a client that takes part in every round so far
    joules: float  # what all clients together have spent so far
    sim_seconds: float  # the simulated time at which the run goes on
    used_iterations: float  # behind used updates so far, the sum of the rounds' means
    states: Memories | None  # the clients' memory; None where it is at their nodes
    ended: bool  # whether the last round was the last by the run's rounds, bits or joules
    scored: bool  # whether the model of the last round was scored; True before the first round
    rounds_done: int  # those before a run went on included
    iterations_done: int  # local iterations in these rounds

    def resume(self, server: "Server") -> None:
        """Gives the server back its memory, if there is a checkpoint."""

    def round(
        self,
        row: dict[str, Any],
        clients: Iterable[dict[str, Any]],
        traffic: RoundTraffic,
        server: "Server",
    ) -> None:
        """Keeps one round."""

    def score(self, columns: dict[str, float]) -> None:
        """Adds to the last round what its model, which was not scored then, comes to."""


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
        exhausted: whether too few clients have energy left for another round.

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
        entries = sum(x.numel() for x in self.initial.values())
        self.sampling = Sampling.of(config, trainer.federation.shards, entries)
        reports = self.sampling.sides if self.sampling is not None else ()
        self.strategy.run_sides = (*self.work.sides, *reports)
        self.schedule: Schedule = SCHEDULES[self.plan.algorithm.clock](
            config,
            trainer,
            self.strategy,
            self.work,
            self.sampling,
            self.spending,
            self.network,
            recorder.sim_seconds,
        )
        self._dense = 64.0 * entries  # bits, both ways
        self._private = self.plan.algorithm.epsilon(1) is not None  # whether privacy is promised
        self.own_models = evaluation.differ(trainer, self.initial)
        self.exhausted = False
        self._last: Scored | None = None  # the model of the last round, where it may be scored yet
        self._far = ""  # who sent an update in the round before that is far from the others'

    def state(self) -> tuple[State, dict[str, Any]]:
        """What a checkpoint keeps of it: tensors, and values that JSON can hold."""
        tensors, values = self.strategy.state()
        if self.sampling is not None:
            values["sampler"] = self.sampling.memory
        if self.spending is not None:
            values["energy"] = self.spending.state()
        stored = Stored(KINDS)
        values["under way"] = stored.pack(self.schedule.state())
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
        self.schedule.restore(state)

    def main(self, grid: Grid) -> None:
        """Runs what is left of the rounds."""
        self.open(grid)
        while not self.done:
            self.step()

    def open(self, grid: Grid) -> None:
        """Goes on from where the recorder is, over ``grid``."""
        self.strategy.open(self.initial)
        try:
            self.schedule.open(grid)
        except _ENDING as error:
            raise self._failed(error, self.recorder.rounds_done + 1) from error
        self.recorder.resume(self)
        self.exhausted = self.spending is not None and self.schedule.exhausted
        if self.plan.stop_at_bits is not None:
            self._hold()
        self.work.resumed(self.strategy.end.weights)

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self.recorder.ended or self.exhausted

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
        """One round, or as many updates as make one; returns its row."""
        number, start = self.recorder.rounds_done + 1, time.perf_counter()
        try:
            row = self.schedule.collect(number, self.recorder.iterations_done)
        except _ENDING as error:
            raise self._failed(error, number) from error
        return self.book(row, number, start)

    @property
    def model(self) -> dict[str, Tensor]:
        """Trained weights, those that are not trained, and buffers, by name, on the CPU."""
        weights, buffers = self.strategy.end.weights, self.strategy.buffers
        moved = {n: x for n, x in weights.items() if n in self.trainer.parameters}
        tensors = self.trainer.frozen | moved | (dict(buffers.values) if buffers else {})
        return {name: x.contiguous().cpu() for name, x in tensors.items()}

    def _failed(self, error: Exception, number: int) -> RunFailed:
        """An error of ``_ENDING`` in a round as the one that is raised.

        It names the client of the largest update, where that may be why.
        """
        if isinstance(error, TooFewReplies):
            return RunFailed(f"{error}{self._far}")
        if isinstance(error, UpdateError):  # of the server's own: clients' are failed replies
            whose = largest_update(self.strategy.end.traffic)
            return RunFailed(f"round {number}, global update: {error}{whose}")
        return RunFailed(str(error))

    def book(self, round_updates: RoundUpdates, number: int, start: float) -> dict[str, Any]:
        """Scores the model where it is time, and writes the round's row; returns the row.

        ``start``: when the round began (``time.perf_counter``).
        """
        end, traffic, began = self.strategy.end, round_updates.traffic, time.perf_counter()
        for name, x in end.weights.items():
            if not finite(x):
                methods = self.plan.method.compressor, self.plan.downlink
                rates = "a learning rate (--lr, --server-lr) is too high"
                cause = next(filter(None, map(suspect, methods)), rates)
                raise RunFailed(
                    f"round {number}: weight {name!r} is not finite any more: "
                    f"{cause}{largest_update(traffic)}"
                )
        self._far = largest_update(traffic, _FAR)
        done, steps = self.recorder.iterations_done, self.work.steps
        sampler_bits = None if self.sampling is None else self.sampling.request_bits(traffic)
        updates = round_updates.updates
        books = ledger.client_books(traffic, {key: x.client for key, x in updates.items()})
        failed = ledger.count_failures(traffic)
        bits = ledger.bits_of_round(traffic, books, sampler_bits)
        joules = round_updates.joules if self.spending is not None else None
        self.exhausted = self.spending is not None and self.schedule.exhausted
        by_energy = self.plan.reaches(0.0, self.recorder.joules + (joules or 0.0))
        due = self.work.evaluates(number) or by_energy or self.exhausted
        if self.plan.stop_at_bits is not None:
            late = round_updates.timing.late or 0
            due = self._may_be_last(number, bits, failed, len(traffic.uplinks), late) or due
        if due:
            score = self._score(self._to_score(done + steps))
        else:
            local = self.config.evaluation.clients is not None
            score = Score(nan, nan, ClientScores(nan, nan, nan) if local else None)
        now = time.perf_counter()
        records = [
            ClientRecord(
                books[key],
                update.timing,
                energy_joules=None if joules is None else update.joules,
            )
            for key, update in updates.items()
        ]
        orders = self.work.book(records, [update.work for update in updates.values()])
        rows = [*map(row_of, records)]
        if self.plan.by_client and orders is not None:  # clients do unlike numbers of them
            used = self.recorder.used_iterations + orders.used_iterations
            iteration = math.floor(used + 0.5)
        else:
            iteration = done + steps
        epsilon = self.plan.algorithm.epsilon(number) if self._private else None
        losses = [
            record.train_loss for record in books.values() if not math.isnan(record.train_loss)
        ]
        row = row_of(RoundRecord(
            round=number, iteration=iteration, local_iterations=steps, clients=len(traffic.uplinks),
            failed=failed, score=score, train_loss=sum(losses) / len(losses) if losses else nan,
            bits=bits, coding=ledger.round_seconds(traffic), evaluate_seconds=now - began,
            seconds=now - start, timing=round_updates.timing,
            orders=orders, privacy=None if epsilon is None else PrivacyLoss(epsilon),
            energy_joules=joules, digest_payloads=ledger.digest_of_rows(rows),
            digest_model=ledger.digest_of_model(self.model),
        ))  # fmt: skip
        if isinstance(self.work, Controlled):
            self.work.learn(row, traffic, end.weights, updates)
        if self.sampling is not None:
            self.sampling.learn(number, traffic, updates)
        self.recorder.round(row, rows, traffic, self)
        if self.plan.stop_at_bits is not None:
            self._hold()
        return row

    def _may_be_last(
        self, number: int, bits: RoundBits, failed: FailedReplies, clients: int, late: int
    ) -> bool:
        """Whether a round may be the last within its bits; scores the one before, where it was.

        The last round is scored. If a run stops at so many bits, the last round within them is
        scored, too: when it ends, if the next round is expected to send as much; else now, after
        this round has sent more. Both ways, the first round sends less, as the initial model is
        free: the next may be dense.
        """
        plan, spent = self.plan, self.recorder.spent
        counted = {
            "clients": clients,
            "failures": failed.failures,
            "absent": failed.absent,
            "late": late,
            "up_wire_bits": bits.up_wire_bits,
            "down_wire_bits": bits.down_wire_bits,
        }
        sent = ledger.bits_of_each(counted, plan.budget_of)
        ahead = sent
        if number == 1 and plan.budget_of == "total":
            ahead = max(sent, 1.5 * self._dense)
        if self._last is not None and plan.exceeds(spent + sent):
            self.recorder.score(row_of(self._score(self._last)))
        return plan.reaches(spent + sent + ahead)

    def _to_score(self, done: int) -> Scored:
        """The models to score now, after ``done`` local iterations of the run."""
        memories, parts = self.recorder.states, dict[int, State]()
        if self.own_models and memories is not None:
            parts = evaluation.personal_states(self.trainer, memories)
        end, buffers = self.strategy.end, self.strategy.buffers
        values = buffers.values if buffers else {}
        return Scored(end.weights, values, parts, end.traffic.round, done)

    def _score(self, scored: Scored) -> Score:
        """The scores of a model; if clients' models differ, the averages of theirs."""
        if self.own_models:
            return evaluate_each(self.trainer, evaluation.models(self.trainer, *scored))
        if self.strategy.buffers is not None:
            self.trainer.buffers.load(dict(scored.buffers))
        return evaluate(self.trainer, scored.weights)

    def _hold(self) -> None:
        """Holds the model of a round that may turn out to be the last within the run's bits."""
        waits = not self.recorder.scored
        self._last = self._to_score(self.recorder.iterations_done) if waits else None


def largest_update(traffic: RoundTraffic, far: float = 0.0) -> str:
    """Which client's update was the largest of a round, to be added to an error.

    Empty where none came, and where it is not above ``far`` times the median of the others' norms.
    """
    if far and len(traffic.uplinks) < 2:  # an update that has none to compare it with
        return ""
    norms = sorted(((up.size, traffic.client_of(key)) for key, up in traffic.uplinks.items()))
    if not norms:
        return ""
    (largest, client), others = norms[-1], [norm for norm, _ in norms[:-1]]
    if far and not largest > far * median(others):
        return ""
    compared = f" (the others' at most {others[-1]:.3g})" if others else ""
    return (
        f"; the largest update of round {traffic.round} is client {client}'s, of norm {largest:.3g}"
        f"{compared}; --max-norm refuses updates above a norm"
    )


def make_strategy(
    config: RunConfig, buffers: Buffers | None = None, unused: frozenset[str] = frozenset()
) -> ChannelStrategy:
    """The strategy of a run: its algorithm, with the task's optimizer where it has one.

    ``buffers``: the model's, if it has any; ``unused``: names of parameters that the loss may not
    reach (``Trainer.unused``).
    """
    plan = config.plan
    task: dict[str, Any] = {
        "optimizer": partial(make_optimizer, config),
        "factor": lambda round_number: lr_factor(plan.task, round_number - 1),
        "unused": unused,
    }
    names = {f.name for f in fields(plan.algorithm)}
    rule = replace(plan.algorithm, **{name: x for name, x in task.items() if name in names})
    uplink = plan.method.compressor
    if config.controller is not None:
        uplink = uplink_at(config, plan.method.gradient)
    strategy = build(
        rule,
        uplink,
        plan.downlink,
        clients=plan.clients,
        cohort=plan.cohort if plan.algorithm.clock == "rounds" else plan.ask,
        required=plan.required,
        seed=config.seed,
        timeout=config.machine.timeout,
        buffers=buffers,
        late=config.clients.late,
        catch_up=config.clients.catch_up,
        max_norm=config.clients.max_norm,
    )
    strategy.selection = plan.ask
    tree = None if plan.network is None else plan.network.tree
    if tree is not None:
        assert isinstance(strategy, DelayedDSGD)  # checks: check_tree
        method = compressor_of(tree.method) if tree.method else plan.method.compressor
        weighting, seed = plan.algorithm.weighs, config.seed
        strategy.edges = EdgeServers(tree.groups, plan.clients, method, weighting, seed)
    if config.clients.min_replies is None and plan.rules.plain:
        strategy.awaited = plan.clients
    return strategy
