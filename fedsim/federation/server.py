"""The server's loop, the same on every engine: ask the strategy, send, aggregate, score, record.

Flower's own ``Strategy.start`` runs the same strategies; this loop adds what it has no
place for: evaluation on a schedule, the ledger, checkpoints, progress, and an error
when a run cannot be trusted.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from flwr.serverapp import Grid
from torch import Tensor

from compressors import State, Tensors, UpdateError
from compressors.base import finite
from fedsim.federation import digests, ledger
from fedsim.federation.aggregation import make_strategy
from fedsim.federation.controlled import Controlled, Fixed
from fedsim.federation.evaluation import evaluate
from fedsim.federation.failures import FAR, longest
from fedsim.federation.memories import suspect
from fedsim.federation.modelbuffers import server_buffers
from fedsim.federation.orders import Work
from fedsim.federation.simulated import Simulation
from fedsim.federation.timed_grid import TimedGrid
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import RunFailed
from fedsim.settings.config import RunConfig
from fedsim.settings.fields import CLIENT_SCORES
from strategies import (
    AccumulatorOverflow,
    RoundTraffic,
    ServerEnd,
    TooFewReplies,
)


class Recorder(Protocol):
    """Where a round goes when it is done.

    Attributes:
        spent: bits (wire) of a client that takes part in every round so far, of which
            ``--stop-at-bits`` is a limit.
        sim_seconds: the simulated time at which the run goes on.
        scored: whether the model of the last round was scored; True before the first round.
    """

    spent: float
    sim_seconds: float

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
        self, row: dict[str, Any], clients: Iterable[dict[str, Any]], traffic: RoundTraffic,
        server: "Server",
    ) -> None:  # fmt: skip
        """Keeps one round."""
        ...

    def score(self, columns: dict[str, float]) -> None:
        """Adds to the last round what its model, which was not scored then, comes to."""
        ...


class Server:
    """One run's server. ``main`` is the body of the ServerApp.

    Attributes:
        initial: what all know before the first round.

    Raises ``RunFailed`` from ``main`` where too few clients reply, a switch's sum overflows or a
    weight is not finite.
    """

    def __init__(self, config: RunConfig, trainer: Trainer, recorder: Recorder) -> None:
        self.config, self.plan = config, config.plan
        self.trainer, self.recorder = trainer, recorder
        model = {n: p.detach().cpu().clone() for n, p in trainer.parameters.items()}
        self.initial = config.plan.client.shares(model)
        controlled = config.controller is not None
        self.work = Controlled(config, self.initial, model) if controlled else Fixed(config)
        buffers = server_buffers(config, trainer.buffers, self._may_score)
        unused = trainer.unused if self.plan.algorithm.gradients else frozenset[str]()
        self.strategy = make_strategy(config, buffers, unused)
        self.strategy.ordering = self.work.ordering
        self.simulation = Simulation(config, self.strategy, recorder.sim_seconds)
        self._dense = 64.0 * sum(x.numel() for x in self.initial.values())  # bits, both ways
        self._timed: TimedGrid | None = None
        self._last: tuple[Tensors, Tensors] | None = None  # weights and buffers of the last round
        self._far = ""  # who sent an update in the round before that is far from the others'

    def state(self) -> tuple[State, dict[str, Any]]:
        """What a checkpoint keeps of it: tensors, and values that JSON can hold."""
        tensors, values = self.strategy.state()
        return tensors, values | ({"under way": self._timed.state()} if self._timed else {})

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        self.strategy.restore(tensors, values)
        if self._timed:
            self._timed.restore(values["under way"])

    def main(self, grid: Grid) -> None:
        """Runs what is left of the rounds."""
        self.open(grid)
        while not self.done:
            self.step()

    def open(self, grid: Grid) -> None:
        """Goes on from where the recorder is, over ``grid``."""
        self.grid = grid
        if self.simulation.matters:
            self.grid = self._timed = TimedGrid(grid, self.simulation)
        self.strategy.open(self.initial)
        self.recorder.resume(self)
        self._hold()
        self.work.resumed(self.channel.weights)

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self.plan.ends(self.recorder.iterations_done, self.recorder.spent)

    def _may_score(self, number: int) -> bool:
        """Whether the model is scored after a round: as planned, or since its bits may end the run.

        What the round will send is not known yet. It is taken to be half as much again as rounds
        before it sent on average, and the first to be dense both ways.
        """
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
            settings = self.work.begin(number, self.simulation.clock.now)
            messages = strategy.ask(number, settings, self.grid)
            timeout = self.config.machine.timeout
            replies = self.grid.send_and_receive(messages, timeout=timeout)
            strategy.advance(replies)
            if channel.version == before and channel.traffic.uplinks:
                raise RunFailed(f"round {number}: the strategy made no model of the replies")
            self.simulation.add_coding_time()
        return self.book(number, start)

    @property
    def channel(self) -> ServerEnd:
        """The server's end of the channel, which has the model."""
        assert self.strategy.channel is not None
        return self.strategy.channel

    @property
    def model(self) -> dict[str, Tensor]:
        """Trained weights, those that are not trained, and buffers, by name, on the CPU."""
        moved = {n: x for n, x in self.channel.weights.items() if n in self.trainer.parameters}
        whole = self.trainer.frozen | moved | dict(self._buffers)
        return {name: x.contiguous().cpu() for name, x in whole.items()}

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
            whose = longest(self.channel.traffic)
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
                why = next(filter(None, map(suspect, methods)), rates)
                raise RunFailed(
                    f"round {number}: weight {name!r} is not finite any more: "
                    f"{why}{longest(traffic)}"
                )
        self._far = longest(traffic, FAR)
        done, steps, clients = self.recorder.iterations_done, self.work.steps, len(traffic.uplinks)
        row: dict[str, Any] = {
            "round": number,
            "iteration": done + steps,
            "local_iterations": steps,
            "clients": clients,
            **ledger.failures(traffic),
        }
        bits = ledger.round_bits(traffic)
        # The last round is scored. Of a run that stops at so many bits the last round within them
        # is scored, too: when it ends, where the next round is taken to send as much; else now that
        # this round has sent more. Of both ways the first round sends less, as the initial model is
        # free: the next may be dense.
        sent = ledger.bits_of_each(row | bits, self.plan.budget_of)
        both = self.plan.budget_of == "total"
        ahead = max(sent, 1.5 * self._dense) if both and number == 1 else sent
        if self._last is not None and self.plan.exceeds(self.recorder.spent + sent):
            self.recorder.score(self._score(*self._last))
        local = () if self.config.evaluation.clients is None else CLIENT_SCORES
        row |= dict.fromkeys(("metric", "loss", *local), float("nan"))
        if self.plan.evaluates_between(done, done + steps) or self.plan.reaches(
            self.recorder.spent + sent + ahead
        ):
            row |= self._score(channel.weights, self._buffers)
        now = time.perf_counter()
        row |= {"train_loss": ledger.mean_metric(traffic, "train-loss"), **bits}
        row |= ledger.round_seconds(traffic)
        row |= {"evaluate_seconds": now - scored, "seconds": now - start}
        row, rows = self.rows(row)
        works = self.works(traffic)
        row |= self.work.columns(rows, [works.get(key) for key in self.keys(rows)])
        row |= {
            digests.PAYLOADS: digests.of_rows(rows),
            digests.MODEL: digests.of_model(self.model),
        }
        self.work.learn(row, traffic, channel.weights, works)
        self.recorder.round(row, rows, traffic, self)
        self._hold()
        return row

    @property
    def _buffers(self) -> Tensors:
        """The server's buffers; none where the model has none that travel."""
        return self.strategy.buffers.values if self.strategy.buffers else {}

    def _score(self, weights: Tensors, buffers: Tensors) -> dict[str, float]:
        """The columns of a round in which a model is scored."""
        if self.strategy.buffers is not None:
            self.trainer.buffers.load(dict(buffers))
        score = evaluate(self.trainer, weights)
        return {"metric": score.metric, "loss": score.loss, **score.more}

    def _hold(self) -> None:
        """Holds the model of a round that may turn out to be the last within the run's bits."""
        waits = self.plan.stop_at_bits is not None and not self.recorder.scored
        self._last = (self.channel.weights, self._buffers) if waits else None

    def works(self, traffic: RoundTraffic) -> Mapping[int, Work]:
        """What was ordered, by the keys of a round's traffic."""
        return self.work.work

    def keys(self, rows: list[dict[str, Any]]) -> list[int]:
        """The keys of the clients' rows in the round's traffic."""
        return [row["client"] for row in rows]

    def rows(self, row: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The row of the round with what the clock says, and one of each client in it."""
        rows = ledger.client_rows(self.channel.traffic)
        timed = [client | self.simulation.client_row(client["client"]) for client in rows]
        return row | self.simulation.row(), timed
