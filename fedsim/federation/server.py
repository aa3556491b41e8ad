"""The server's loop, the same on every engine: ask the strategy, send, aggregate, score, record.

Flower's own ``Strategy.start`` runs the same strategies; this loop adds what it has no
place for: evaluation on a schedule, the ledger, checkpoints, progress, and an error
when a run cannot be trusted.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from flwr.serverapp import Grid

from compressors import State, Tensors, UpdateError
from compressors.base import finite
from fedsim.federation import ledger
from fedsim.federation.aggregation import make_strategy
from fedsim.federation.evaluation import evaluate
from fedsim.federation.failures import FAR, longest
from fedsim.federation.memories import suspect
from fedsim.federation.modelbuffers import server_buffers
from fedsim.federation.pilot import Pilot, Steady
from fedsim.federation.simulated import Simulation
from fedsim.federation.timed_grid import TimedGrid
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import RunFailed
from fedsim.settings.config import RunConfig
from fedsim.settings.resolved import Plan
from strategies import (
    AccumulatorOverflow,
    RoundTraffic,
    ServerEnd,
    TooFewReplies,
)


class Recorder(Protocol):
    """Where a round goes when it is done.

    Attributes:
        up_bits: upstream bits (wire) of a client that takes part in every round, so far.
        sim_seconds: the simulated time at which the run goes on.
    """

    up_bits: float
    sim_seconds: float

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
        self, row: dict[str, Any], clients: Iterable[dict[str, Any]], trip: RoundTraffic,
        server: "Server",
    ) -> None:  # fmt: skip
        """Keeps one round."""
        ...


class Server:
    """One run's server. ``main`` is the body of the ServerApp.

    Raises ``RunFailed`` from ``main`` where too few clients reply, a switch's sum overflows or a
    weight is not finite.
    """

    def __init__(self, config: RunConfig, trainer: Trainer, recorder: Recorder) -> None:
        self.config, self.plan = config, config.plan
        self.trainer, self.recorder = trainer, recorder
        model = {n: p.detach().cpu().clone() for n, p in trainer.parameters.items()}
        self._initial = config.plan.client.shares(model)
        self.work = Pilot(config, self._initial) if config.controller else Steady(config)
        buffers = server_buffers(config, trainer.buffers, self.work.evaluates)
        self.strategy = make_strategy(config, buffers)
        self.strategy.ordering = self.work.ordering
        self.simulation = Simulation(config, self.strategy, recorder.sim_seconds)
        self._timed: TimedGrid | None = None
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
        self.recorder.resume(self)
        if self.strategy.exchange is None:
            self.strategy.open(self._initial)
        self.work.resumed(self._exchange.weights)

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self.plan.ends(self.recorder.iterations_done, self.recorder.up_bits)

    def step(self) -> dict[str, Any]:
        """One round; returns its row."""
        number, start = self.recorder.rounds_done + 1, time.perf_counter()
        with failing(number), self._naming():
            self._round(number)
        return self._record(number, start)

    def _round(self, number: int) -> None:
        """Asks a cohort, waits for the replies, moves the model."""
        exchange, strategy = self._exchange, self.strategy
        before = exchange.version
        self.simulation.begin(number, self.plan.local_iterations(number))
        settings = self.work.begin(number, self.simulation.clock.now)  # enough clients are there
        messages = strategy.ask(number, settings, self.grid)
        strategy.advance(self.grid.send_and_receive(messages, timeout=self.config.machine.timeout))
        if exchange.version == before and exchange.trip.uplinks:
            raise RunFailed(f"round {number}: the strategy made no model of the replies")
        self.simulation.coded()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Names the client of the largest update, where that may be why a round cannot be done."""
        try:
            yield
        except TooFewReplies as error:
            raise TooFewReplies(f"{error}{self._far}") from error
        except UpdateError as error:
            raise UpdateError(f"{error}{longest(self._exchange.trip)}") from error

    @property
    def _exchange(self) -> ServerEnd:
        assert self.strategy.exchange is not None
        return self.strategy.exchange

    def _record(self, number: int, start: float) -> dict[str, Any]:
        exchange = self._exchange
        _check_finite(number, exchange, self.plan)
        self._far = longest(exchange.trip, FAR)
        scored = time.perf_counter()
        done = self.recorder.iterations_done
        steps = self.work.steps
        row: dict[str, Any] = {
            "round": number,
            "iteration": done + steps,
            "local_iterations": steps,
            "clients": len(exchange.trip.uplinks),
            **ledger.failures(exchange.trip),
        }
        bits = ledger.round_bits(exchange.trip)
        due = self.plan.evaluates_between(done, done + steps)
        sent = ledger.of_each(bits["up_wire_bits"], row["clients"])
        row |= self._score(due, exchange.weights, sent)
        row["train_loss"] = _mean(exchange.trip, "train-loss")
        row |= bits
        now = time.perf_counter()
        row |= _seconds(exchange.trip) | {"evaluate_seconds": now - scored, "seconds": now - start}
        row, clients = self._told(row, exchange.trip)
        row |= self.work.columns(clients)
        self.work.learn(row, exchange.trip, exchange.weights)
        self.recorder.round(row, clients, exchange.trip, self)
        return row

    def _told(
        self, row: dict[str, Any], trip: RoundTraffic
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """What is written of a round, and of each client in it."""
        clients = ledger.client_rows(trip)
        own = [client | self.simulation.client_row(client["client"]) for client in clients]
        return row | self.simulation.row(), own

    def _score(self, due: bool, weights: Tensors, sent: float) -> dict[str, float]:
        """Metric and loss, NaN where none is ``due``; ``sent``: a client's bits of this round.

        The last round is scored. A run that stops at so many bits is scored in the round before the
        last too, the last within its budget: the next message is taken to be as large as this one.
        """
        stops = self.plan.reaches(self.recorder.up_bits + 2 * sent)
        if not (stops or due):
            return {"metric": float("nan"), "loss": float("nan")}
        if self.strategy.buffers is not None:
            self.trainer.buffers.load(self.strategy.buffers.values)
        score = evaluate(self.trainer, weights)
        return {"metric": score.metric, "loss": score.loss}


@contextmanager
def failing(number: int) -> Iterator[None]:
    """Makes errors that end a run ``RunFailed``."""
    try:
        yield
    except (TooFewReplies, TimeoutError, AccumulatorOverflow) as error:
        raise RunFailed(str(error)) from error
    except UpdateError as error:  # of the server's own: clients' are failed replies
        raise RunFailed(f"round {number}, global update: {error}") from error


def _check_finite(number: int, exchange: ServerEnd, plan: Plan) -> None:
    for name, x in exchange.weights.items():
        if not finite(x):
            rates = "a learning rate (--lr, --server-lr) is too high"
            why = suspect(plan.method.compressor) or suspect(plan.downlink) or rates
            whose = longest(exchange.trip)
            raise RunFailed(
                f"round {number}: weight {name!r} is not finite any more: {why}{whose}"
            )


def _mean(trip: RoundTraffic, key: str) -> float:
    """Of the clients that say it; NaN where none does."""
    values = [up.metrics[key] for _, up in sorted(trip.uplinks.items()) if key in up.metrics]
    return sum(values) / len(values) if values else float("nan")


def _seconds(trip: RoundTraffic) -> dict[str, float]:
    def total(key: str) -> float:
        return sum(up.metrics.get(key, 0.0) for up in trip.uplinks.values())

    return {
        "train_seconds": total("train-seconds"),
        "encode_seconds": total("encode-seconds"),
        "decode_seconds": trip.decode_seconds,
        "downlink_seconds": trip.downlink_seconds + total("decode-seconds"),
        "receive_seconds": total("decode-seconds"),
    }
