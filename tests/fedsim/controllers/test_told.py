"""What a controller is told before every round, each number worked out by hand.

A controller of the tests' own writes it down, and chooses as a test says. The method keeps a
residual and sends one entry of three (p = 0.34), two (0.67) or all: 64, 96 or 128 bits.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from fedsim import RunConfig, run
from fedsim.federation.local_steps import Controlled
from fedsim.federation.trainer import Trainer
from fedsim.settings.controllers import (
    CONTROLLERS,
    Action,
    ClientObservation,
    ListedController,
    Observation,
)
from fedsim.settings.controllers.base import CONTROLLER_NEEDS
from strategies import RoundTraffic
from strategies.channel.traffic import Uplink
from tests.support.runs import make_task, not_tried
from tests.support.threes import threes

__all__ = ["make_task", "not_tried"]  # the fixtures

METHOD = "ef(topk({p}) | float32 | bitmap)"
FACTS = ("n", "p", "up_bits", "sent", "train_loss", "update_norm", "residual_norm")


@dataclass(frozen=True)
class Recorded:
    """Writes down what it is told."""

    needs: ClassVar[tuple[str, ...]] = CONTROLLER_NEEDS
    moves: ClassVar[tuple[str, ...]] = ("n", "p")
    told: ClassVar[list[Observation]] = []
    way: ClassVar[list[Callable[[Observation], Any]]] = []

    def choose(self, observation: Observation, memory: Any) -> Any:
        self.told.append(observation)
        return self.way[0](observation), memory


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Recorded]]:
    row = ListedController(Recorded, "", "this test", "recorded")
    monkeypatch.setitem(CONTROLLERS, "recorded", row)
    Recorded.told.clear()
    Recorded.way[:] = [lambda told: told.base]
    yield Recorded


def ran(task: Any, folder: Path, **settings: Any) -> list[Observation]:
    """What the controller was told in a run."""
    common = {"method": METHOD, "gradient": 0.34, "temporal": 1, "controller": "recorded"}
    given = common | {"network": "compute=1s"} | settings
    run(RunConfig.of(task=task.name, **given), folder)
    return Recorded.told


def fails(monkeypatch: pytest.MonkeyPatch, client: int, call: int) -> None:
    """Lets a client fail in one of its trainings."""
    real, calls = Trainer.train, [0]

    def train(self: Trainer, who: int, *given: Any) -> Any:
        calls[0] += who == client
        if who == client and calls[0] == call:
            raise MemoryError("no room")
        return real(self, who, *given)

    monkeypatch.setattr(Trainer, "train", train)


def near(seen: ClientObservation, *facts: float) -> None:
    """``facts``: by the names of ``FACTS``."""
    found = [getattr(seen, name) for name in FACTS]
    assert found == pytest.approx([*facts], rel=1e-6, abs=1e-6)


@pytest.mark.usefixtures(not_tried.__name__)
def test_what_is_told_where_a_client_fails(
    recorded: type[Recorded], make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In round r every client does r iterations; one entry is sent in odd rounds, two in even ones.

    Round 1: half-way to (6, 8, 0), (0, 24, 10) and (16, 0, 30) are (3, 4, 0), (0, 12, 5) and
    (8, 0, 15): norms 5, 13 and 17. 4, 12 and 15 are sent; 3, 5 and 8 stay. Losses before: 50, 338
    and 578. The model goes to (0, 16, 15) / 3; its loss is the half of its square, 481 / 9.

    Round 2: client 1 fails. Three quarters of the ways left, (6, 8/3, -5) and (16, -16/3, 25), are
    (4.5, 2, -3.75) and (12, -4, 18.75). With what stayed client 0 sends 7.5 and -3.75 and keeps 2,
    client 2 sends 20 and 18.75 and keeps 4. Losses are 5/8 of those at the beginning: the second
    iteration begins with a quarter. The model moves by (13.75, 0, 7.5): inner product 37.5.

    Messages: 24 bits of order and, from round 2, 120 of model down; 96 of report up.
    """
    fails(monkeypatch, client=1, call=2)
    recorded.way[:] = [lambda told: Action(told.round, 0.67 if told.round == 2 else 0.34)]
    task = make_task(**threes([[6.0, 8.0, 0.0], [0.0, 24.0, 10.0], [16.0, 0.0, 30.0]]))
    settings = {"iterations": 10, "min_replies": 2, "evaluate_every": 1}
    first, second, third, fourth = ran(task, tmp_path, **settings)

    assert first.clients == dict.fromkeys(
        range(3), ClientObservation(up=math.inf, down=math.inf, latency=0.0, compute=1.0)
    )
    known = ("train_loss", "loss", "metric", "update_norm", "agreement")
    assert all(getattr(first, name) is None for name in known)
    assert (first.up_bits, first.down_bits, first.seconds) == (0, 0, 0)

    near(second.clients[0], 1, 0.34, 64, 1, 50, 5, 3)
    near(second.clients[1], 1, 0.34, 64, 1, 338, 13, 5)
    assert second.train_loss == pytest.approx((50 + 338 + 578) / 3)
    assert second.update_norm == pytest.approx(math.sqrt(481) / 3)
    assert second.loss == pytest.approx(481 / 18)
    assert second.agreement is None

    begin = [36 + 64 / 9 + 25, 256 + 256 / 9 + 625]
    losses = [5 / 8 * square / 2 for square in begin]
    near(third.clients[0], 2, 0.67, 96, 2, losses[0], math.sqrt(4.5**2 + 2**2 + 3.75**2), 2)
    assert third.clients[1] == second.clients[1]  # of its last used update
    near(third.clients[2], 2, 0.67, 96, 2, losses[1], math.sqrt(12**2 + 4**2 + 18.75**2), 4)
    assert third.train_loss == pytest.approx(sum(losses) / 2)  # of those who reported
    assert third.update_norm == pytest.approx(math.hypot(13.75, 7.5))
    cosine = 37.5 / (math.sqrt(481) / 3 * math.hypot(13.75, 7.5))
    assert third.agreement == pytest.approx(cosine)
    assert third.up_bits == (64 + 96) + (96 + 96)
    assert third.down_bits == 24 + (24 + 120)
    assert (fourth.clients[1].n, fourth.clients[1].p, fourth.clients[1].sent) == (3, 0.34, 1)

    every = (first, second, third, fourth)
    assert [told.iteration for told in every] == [0, 1, 3, 6]
    assert [told.seconds for told in every] == [0, 1, 3, 6]
    assert [told.round for told in every] == [1, 2, 3, 4]
    same = {(told.iterations, told.n, told.p, told.entries) for told in every}
    assert same == {(10, 1, 0.34, 3)}


def test_bits_are_means_over_a_cohort_smaller_than_the_federation(
    recorded: type[Recorded], make_task: Any, tmp_path: Path
) -> None:
    """Two of four clients, which send 64, 96, 128 and 128 bits and report 96: a client of every
    round has sent the mean of each round's cohort. Of each its own n, p and bits are told; a round
    has the iterations of the one that does most.
    """
    n, fractions, bits = (4, 3, 2, 1), (0.34, 0.67, 1.0, 1.0), (64, 96, 128, 128)
    recorded.way[:] = [lambda told: {c: Action(n[c], fractions[c]) for c in told.clients}]
    task = make_task(**threes([16.0, 32.0, 64.0, 128.0]))
    told = ran(task, tmp_path, cohort=2, iterations=40)
    up, down, iterations, before = 0.0, 0, 0, set[int]()
    for number, one in enumerate(told[:6], 1):
        assert (one.up_bits, one.down_bits, one.iteration) == (up, down, iterations)
        known = {c: (seen.n, seen.p, seen.up_bits) for c, seen in one.clients.items()}
        new = (None, None, None)
        assert known == {
            c: (n[c], fractions[c], bits[c]) if c in before else new for c in one.clients
        }
        up += 96 + sum(bits[c] for c in one.clients) / 2
        down += 24 + (120 if number > 1 else 0)
        iterations += max(n[c] for c in one.clients)
        before |= {*one.clients}
    assert len({tuple(one.clients) for one in told}) > 1


@pytest.mark.parametrize(
    ("steps", "rates", "drops"),
    [
        (((2, 0.5), (4, 0.75), (6, 0.25)), [1, 0.5, 0.75, 0.25], (2, 6)),
        (((0, 0.5), (2, 1.0), (4, 1.0), (6, 0.1)), [0.5, 1, 1, 0.1], (0, 6)),
        (((3, 0.5), (5, 2.0)), [1, 1, 0.5, 2], (3,)),
        ((), [1, 1, 1, 1], ()),
    ],
)
def test_rates_and_their_drops(
    steps: tuple[tuple[int, float], ...],
    rates: list[float],
    drops: tuple[int, ...],
    recorded: type[Recorded],
    make_task: Any,
    tmp_path: Path,
) -> None:
    """Rounds begin at iterations 0, 2, 4 and 6. A rate that grows, or stays, is no drop."""
    task = make_task(**threes([16.0], lr_steps=steps))
    told = ran(task, tmp_path, temporal=2, iterations=8)
    assert [one.rate for one in told] == rates
    assert {one.rate_drops for one in told} == {drops}


ROW = {
    "clients": 1,
    "failures": 0,
    "absent": 0,
    "up_wire_bits": 0,
    "down_wire_bits": 0,
    "metric": math.nan,
    "loss": math.nan,
}


def updates_of(pilot: Controlled) -> dict[int, Any]:
    """What a round's clients were ordered, as a schedule has it."""
    return {c: SimpleNamespace(client=c, work=work) for c, work in pilot.work.items()}


@pytest.fixture
def flight(recorded: type[Recorded], make_task: Any) -> Callable[..., list[Observation]]:
    """What is told after rounds that moved the model so, one after the other."""
    task = make_task(**threes([16.0, 32.0]))

    def told(*moves: tuple[float, ...], rows: Any = (), reports: Any = ()) -> list[Observation]:
        settings = {"method": METHOD, "gradient": 0.34, "temporal": 1, "iterations": 9}
        network = "compute=1s"
        config = RunConfig.of(task=task.name, controller="recorded", network=network, **settings)
        weights = {"w": torch.zeros(3)}
        pilot = Controlled(config, weights, weights)
        for number, move in enumerate(moves, 1):
            pilot.begin(number, pilot.facts.seconds)
            pilot.make_orders(number, [0, 1])
            weights = {"w": weights["w"] + torch.tensor(move)}
            said = reports[number - 1] if reports else {}
            traffic = RoundTraffic(number, uplinks={c: up(x) for c, x in said.items()})
            row = ROW | {"iteration": number} | (rows[number - 1] if rows else {})
            pilot.learn(row, traffic, weights, updates_of(pilot))
        pilot.begin(len(moves) + 1, pilot.facts.seconds)
        pilot.make_orders(len(moves) + 1, [0, 1])
        return recorded.told

    return told


def up(report: dict[str, float]) -> Uplink:
    nothing: dict[str, Tensor] = {}
    return Uplink(b"abc", {}, nothing, {"sent": 2.0}, report=report)


def test_an_update_of_nothing_has_no_cosine(flight: Callable[..., list[Observation]]) -> None:
    """`noise` would add the cosine of older updates to its sum once more; the next update's is with
    the last that moved the model."""
    told = flight((3.0, 4.0, 0.0), (4.0, 3.0, 0.0), (0.0, 0.0, 0.0), (4.0, 3.0, 0.0))
    assert told[3].update_norm == 0 and told[3].agreement is None
    assert told[4].agreement == pytest.approx(1.0)


def test_what_travels_beside_the_model_is_no_update_of_it(make_task: Any) -> None:
    """w goes 0, 3, 4, and a control variate beside it 0, -9, 9."""
    task = make_task(**threes([16.0, 32.0]))
    config = RunConfig.of(
        task=task.name, controller="noise", method=METHOD, gradient=0.34, temporal=1, iterations=9
    )
    sent = [
        {"w": torch.tensor([w]), "control/w": torch.tensor([c])}
        for w, c in ((0.0, 0.0), (3.0, -9.0), (4.0, 9.0))
    ]
    pilot, told = Controlled(config, sent[0], ["w"]), []
    for number, weights in enumerate(sent[1:], 1):
        pilot.begin(number, 0.0)
        pilot.make_orders(number, [0])
        pilot.learn(ROW | {"iteration": number}, RoundTraffic(number), weights, {})
        told.append((pilot.facts.update_norm, pilot.facts.agreement))
    assert told == [(3, None), (1, 1)]


def test_losses_and_scores_are_those_of_the_last_time(
    flight: Callable[..., list[Observation]],
) -> None:
    """The mean is over those who reported; a score stays until the next evaluation."""
    rows = [{"metric": 0.5, "loss": 2.0}, {}, {"metric": 0.75, "loss": 1.0}]
    reports = [{0: {"train_loss": 1.0}, 1: {"train_loss": 4.0}}, {1: {"train_loss": 3.0}}, {0: {}}]
    told = flight(*[(1.0, 0.0, 0.0)] * 3, rows=rows, reports=reports)
    assert [one.train_loss for one in told] == [None, 2.5, 3, None]
    assert [(one.metric, one.loss) for one in told] == [(None, None), (0.5, 2), (0.5, 2), (0.75, 1)]
    assert [one.clients[0].train_loss for one in told] == [None, 1, 1, None]
    assert [one.clients[1].train_loss for one in told] == [None, 4, 3, 3]
    seen = told[1].clients[0]
    assert (seen.n, seen.p, seen.up_bits, seen.sent) == (1, 0.34, 24, 2)


def test_bits_down_are_of_those_that_were_sent_something(
    flight: Callable[..., list[Observation]],
) -> None:
    """400 bits up of two that are used; 600 bits down to three that were asked, one was absent."""
    row = {
        "clients": 2,
        "failures": 2,
        "absent": 1,
        "up_wire_bits": 400,
        "down_wire_bits": 600,
        "sim_end_seconds": 7.5,
    }
    told = flight((1.0, 0.0, 0.0), (1.0, 0.0, 0.0), rows=[row, row | {"sim_end_seconds": 9.0}])
    assert [one.up_bits for one in told] == [0, 200, 400]
    assert [one.down_bits for one in told] == [0, 200, 400]
    assert [one.seconds for one in told] == [0, 7.5, 9]
    assert [one.iteration for one in told] == [0, 1, 2]


def test_a_round_of_epochs_that_asks_nobody_has_no_orders(make_task: Any) -> None:
    task = make_task(**threes([16.0, 32.0]))
    config = RunConfig.of(
        task=task.name,
        controller="plateau(2)",
        method=METHOD,
        gradient=0.34,
        temporal=4,
        iterations=40,
    )
    pilot = Controlled(config, {"w": torch.zeros(3)}, ["w"], lambda client: 4)
    pilot.begin(1, 0.0)
    assert pilot.make_orders(1, []) == {} and pilot.steps == 0
