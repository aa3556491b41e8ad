"""What each server makes of two rounds of tiny uplinks, by numbers worked out on paper.

The model is one tensor `w` that begins at zero. What clients sent is given as it was decoded.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.optim import SGD

from compressors import Natural, Raw, compress, decompress, parse
from fedsim.federation.aggregation import make_strategy
from strategies import (
    ChannelStrategy,
    DelayedDSGD,
    Downlink,
    Estimated,
    FedAsync,
    FedBuff,
    Fetched,
    InNetwork,
    Majority,
    Nesterov,
    RunningSum,
    Shifted,
    Staleness,
    Stepped,
    Uplink,
    average,
)
from strategies.channel.orders import Order
from strategies.channel.traffic import RoundTraffic, average_buffers
from strategies.server import majority
from strategies.server.delayed import _mean_metrics
from strategies.server.fetched import Tables
from strategies.server.scaffold import Scaffold, with_controls
from tests.support.runs import small


def up(*values: float, samples: float | None = None, **more: Any) -> Uplink:
    metrics = {} if samples is None else {"num-examples": samples}
    return Uplink(b"", {}, {"w": torch.tensor(values)}, metrics, **more)


def opened(strategy: Any, entries: int = 1) -> Any:
    strategy.open({"w": torch.zeros(entries)})
    return strategy


def moves(strategy: Any, number: int, ups: Mapping[int, Uplink]) -> list[float]:
    """The model after a round of these uplinks."""
    strategy.exchange.trip.round = number
    strategy.exchange.advance(strategy.aggregate(ups, number))
    return strategy.exchange.weights["w"].tolist()


# --- the mean -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weighting", "models"), [("uniform", [6.0, 7.0]), ("samples", [7.0, 7.5])]
)
def test_the_mean_uniform_and_by_samples(weighting: str, models: list[float]) -> None:
    """4 of 1 sample and 8 of 3: 6, or (4 + 24) / 4 = 7. Then 3 of 1 and -1 of 1: 1. Then by
    samples 2 of 1 and 0 of 3 are 0.5."""
    strategy = opened(DelayedDSGD(Raw(), clients=2, weighting=weighting))
    assert moves(strategy, 1, {0: up(4.0, samples=1), 1: up(8.0, samples=3)}) == models[:1]
    assert moves(strategy, 2, {0: up(2.0, samples=1), 1: up(0.0, samples=3)}) == models[1:]


def test_of_a_cohort_the_mean_is_over_those_that_came() -> None:
    """One of four clients: its whole update; one that does not say its samples counts as one."""
    strategy = opened(DelayedDSGD(Raw(), clients=4))
    assert moves(strategy, 1, {3: up(4.0)}) == [4]
    assert average({0: up(4.0), 1: up(8.0, samples=3)}, "samples")["w"].tolist() == [7]


def test_buffers_have_the_mean_of_those_who_sent_them() -> None:
    ups = {0: up(0.0, samples=1, statistics={"mean": torch.tensor([2.0])}),
           1: up(0.0, samples=3, statistics={"mean": torch.tensor([6.0])})}  # fmt: skip
    assert average_buffers(ups, "uniform")["mean"].tolist() == [4]
    assert average_buffers(ups, "samples")["mean"].tolist() == [5]


def test_metrics_are_means_of_what_all_told() -> None:
    assert dict(_mean_metrics([{"a": 1.0, "b": 5.0}, {"a": 3.0}])) == {"a": 2.0}


def ordered(counts: Iterable[int]) -> RoundTraffic:
    """A round in which clients were ordered to do so many local iterations."""
    spans: Any = {}
    downs = {
        client: Downlink(b"", "update", spans, order=Order(b"", Raw(), iterations=count))
        for client, count in enumerate(counts)
    }
    return RoundTraffic(1, downlinks=downs)


def test_fednova_by_hand() -> None:
    """Samples 1 and 3, iterations 2 and 6: (0.5 + 4.5) (4 / 2 / 4 + 6 / 6 * 3 / 4) = 5 * 1.25.

    With 4 and 4 iterations, and where nothing is ordered, it is the mean by samples, 22 / 4 = 5.5.
    """
    strategy = opened(DelayedDSGD(Raw(), clients=2, weighting="nova"))
    ups = {0: up(4.0, samples=1), 1: up(6.0, samples=3)}
    trips = (ordered([2, 6]), ordered([4, 4]), RoundTraffic(3))
    for trip, model in zip(trips, (6.25, 11.75, 17.25), strict=True):
        strategy.exchange.trip = trip
        assert moves(strategy, 1, ups) == [model]


# --- momentum and optimizers at the server ------------------------------------------------------


def test_nesterov_by_hand() -> None:
    """Rate 1/2, momentum 1/2. Mean 4: v = 4, the step (4 + 2) / 2 = 3. Mean 2: v = 2 + 2 = 4, the
    step (2 + 2) / 2 = 2. Mean 0: v = 2, the step (0 + 1) / 2 = 0.5."""
    strategy = opened(Nesterov(Raw(), clients=2, server_lr=0.5, momentum=0.5))
    assert moves(strategy, 1, {0: up(3.0), 1: up(5.0)}) == [3]
    assert moves(strategy, 2, {0: up(0.0), 1: up(4.0)}) == [5]
    assert moves(strategy, 3, {0: up(0.0)}) == [5.5]
    assert (Nesterov(Raw(), clients=2).server_lr, Nesterov(Raw(), clients=2).momentum) == (0.7, 0.9)


def test_nesterov_by_samples() -> None:
    """Mean by samples 7, rate 1 and no momentum."""
    strategy = opened(
        Nesterov(Raw(), clients=2, server_lr=1.0, momentum=0.0, weighting="samples")
    )
    assert moves(strategy, 1, {0: up(4.0, samples=1), 1: up(8.0, samples=3)}) == [7]


def test_nesterov_of_unlike_iterations() -> None:
    """FedNova's mean, 6.25 as above, and not the mean by samples, 5.5."""
    strategy = opened(
        Nesterov(Raw(), clients=2, server_lr=1.0, momentum=0.0, weighting="nova")
    )
    strategy.exchange.trip = ordered([2, 6])
    assert moves(strategy, 1, {0: up(4.0, samples=1), 1: up(6.0, samples=3)}) == [6.25]


def test_an_optimizer_s_step_by_hand() -> None:
    """SGD of rate 1/2 and momentum 1/2, the rate half as large in round 2.

    Gradient 4: b = 4, the model -2. Gradient 2: b = 2 + 2 = 4, the step 4 / 4: -3.
    """
    strategy = opened(Stepped(
        Raw(), clients=2, optimizer=partial(SGD, lr=0.5, momentum=0.5),
        factor=lambda number: 1 / number,
    ))  # fmt: skip
    assert moves(strategy, 1, {0: up(3.0), 1: up(5.0)}) == [-2]
    assert moves(strategy, 2, {0: up(1.0), 1: up(3.0)}) == [-3]


# --- marina -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weighting", "models"), [("uniform", [-3.0, -6.0]), ("samples", [-3.5, -6.5])]
)
def test_marina_adds_mean_changes_to_its_gradient(weighting: str, models: list[float]) -> None:
    """SGD of rate 1/2. The first round is dense: gradients 4 and 8 of 1 and 3 samples, 6 or 7.

    The second is not: changes 2 and -2, whose mean is 0, or (2 - 6) / 4 = -1: 6 in both.
    """
    method = parse("marina(cnat, 0.000001)")
    strategy: Any = opened(
        Estimated(method, clients=2, optimizer=partial(SGD, lr=0.5), weighting=weighting)
    )
    assert strategy.dense(1)
    assert moves(strategy, 1, {0: up(4.0, samples=1), 1: up(8.0, samples=3)}) == models[:1]
    assert not strategy.dense(2)
    assert moves(strategy, 2, {0: up(2.0, samples=1), 1: up(-2.0, samples=3)}) == models[1:]


def test_marina_s_dense_rounds_begin_anew() -> None:
    """p = 1: 4, then 2 in the place of 4 and not beside it."""
    strategy: Any = opened(
        Estimated(parse("marina(cnat, 1)"), clients=1, optimizer=partial(SGD, lr=1.0))
    )
    assert moves(strategy, 1, {0: up(4.0)}) == [-4]
    assert strategy.dense(2) and moves(strategy, 2, {0: up(2.0)}) == [-6]


def test_marina_s_share_of_dense_rounds() -> None:
    """One in four: 0.25 +- 5 * sqrt(3 / 16 / 2000) = 0.048 of 2000 rounds."""
    strategy: Any = opened(
        Estimated(parse("marina(cnat, 0.25)"), clients=1, optimizer=partial(SGD, lr=1.0))
    )
    moves(strategy, 1, {0: up(0.0)})
    share = sum(strategy.dense(number) for number in range(2, 2002)) / 2000
    assert abs(share - 0.25) < 0.048


# --- sums and shifts ----------------------------------------------------------------------------


def test_ef21_moves_by_the_sum_over_all_clients() -> None:
    """Four clients; 4 and 8 of two: 12 / 4 = 3. Then -4 of a third: the sum is 8, the step 2."""
    strategy = opened(RunningSum(parse("ef21(topk(0.5) | float32)"), clients=4))
    assert moves(strategy, 1, {0: up(4.0), 1: up(8.0)}) == [3]
    assert moves(strategy, 2, {2: up(-4.0)}) == [5]
    assert moves(strategy, 3, {0: up(0.0)}) == [7]  # the sum stays


def test_diana_s_shift_moves_by_all_clients_and_its_step_by_those_that_came() -> None:
    """Four clients, alpha 1/2. 4 and 8 of two: the step is their mean 6, the shift 12 / 4 / 2.

    Then 2 of one: the step is 1.5 + 2, the shift 1.5 + 2 / 4 / 2. Then 0: the step is 1.75.
    """
    strategy = opened(Shifted(parse("diana(float32, 0.5)"), clients=4))
    assert moves(strategy, 1, {0: up(4.0), 1: up(8.0)}) == [6]
    assert moves(strategy, 2, {3: up(2.0)}) == [9.5]
    assert moves(strategy, 3, {0: up(0.0), 1: up(0.0)}) == [11.25]


def test_scaffold_s_lines_16_and_17() -> None:
    """Two of eight clients: the model moves by their mean, the control variate by a quarter of it,
    which is their sum over eight."""
    assert list(with_controls({"w": torch.ones(1)})) == ["w", "control/w"]
    ups = {
        k: Uplink(b"", {}, {"w": torch.tensor([w]), "control/w": torch.tensor([c])}, {
            "num-examples": n})
        for k, (w, c, n) in enumerate(((4.0, 8.0, 1), (8.0, 24.0, 3)))
    }  # fmt: skip
    found = Scaffold(8)(ups, 1)
    assert found["w"].tolist() == [6] and found["control/w"].tolist() == [4]
    assert Scaffold(2)(ups, 2)["control/w"].tolist() == [16]


# --- votes and integers -------------------------------------------------------------------------


def test_ties_of_a_vote_by_their_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two against two on entries 1 and 2, whose coins are 0 (plus) and 1 (minus); three to one
    on the others."""
    seen = []

    def coins(seed: int, places: torch.Tensor) -> torch.Tensor:
        seen.append(places.tolist())
        return torch.tensor([0, 2**31])

    monkeypatch.setattr(majority.noise, "words_torch", coins)
    ups = {
        0: up(0.5, 0.5, 0.5, -0.5), 1: up(0.5, 0.5, -0.5, -0.5),
        2: up(0.5, -0.5, 0.5, -0.5), 3: up(-0.5, -0.5, -0.5, 0.5),
    }  # fmt: skip
    strategy = opened(DelayedDSGD(Raw(), clients=4, aggregate=Majority()), 4)
    assert moves(strategy, 1, ups) == [0.5, 0.5, -0.5, -0.5] and seen == [[1, 2]]


def test_votes_count_once_each_round_anew() -> None:
    """Two to one for plus, then one to two: back at zero. Samples do not count."""
    strategy = opened(DelayedDSGD(Raw(), clients=3, aggregate=Majority()))
    for number, signs, model in ((1, (1, 1, -1), 0.25), (2, (1, -1, -1), 0.0)):
        ups = {k: up(0.25 * s, samples=100 - 49 * k) for k, s in enumerate(signs)}
        assert moves(strategy, number, ups) == [model]


def test_integers_at_the_switch_by_hand() -> None:
    """Units of 2^-14: 0.5, 0.25 and 0.25 are 8192, 4096, 4096; their sum 2^14 over three is 1 / 3.

    -1, 0.5 and 0.5 cancel, and 2^-14 three times over is 2^-14.
    """
    assert Natural(5, 0).lowest == -14
    strategy = opened(DelayedDSGD(Raw(), clients=3, aggregate=InNetwork(Natural(5, 0))), 3)
    third = torch.tensor(1 / 3).item()
    ups = {0: up(0.5, -1.0, 2.0**-14), 1: up(0.25, 0.5, 2.0**-14), 2: up(0.25, 0.5, 2.0**-14)}
    assert moves(strategy, 1, ups) == [third, 0, 2.0**-14]
    assert moves(strategy, 2, {0: up(0.0, 1.0, 0.0), 2: up(0.0, 0.5, 0.0)})[1] == 0.75


# --- fetchsgd -----------------------------------------------------------------------------------


def sketches(method: Any, *rows: tuple[float, float]) -> dict[int, Uplink]:
    """Uplinks that hold the sketches of these updates."""
    found = {}
    for client, row in enumerate(rows):
        packet, _ = compress(method, {"w": torch.tensor(row)})
        update = decompress(Tables(method.codec), packet.payload, {"w": torch.zeros(2)})
        found[client] = Uplink(packet.payload, packet.spans, update, {})
    return found


def test_fetchsgd_by_hand() -> None:
    """Rate 1/2, momentum 1/2, one of two entries a round; neither shares a cell with the other, so
    that tables are what they hold.

    1. (4, 1) and (2, 3): S = (3, 2), u = S, e = (1.5, 1). 1.5 is taken, e = (0, 1).
    2. (1, 1): u = (2.5, 2), e = (1.25, 2). 2 is taken, e = (1.25, 0).
    3. (0, 0): u = (1.25, 1), e = (1.875, 0.5). 1.875 is taken.
    """
    method = parse("fetchsgd(0.5, 4, 1000)")
    table = method.codec.sketch(torch.tensor([1.0, 2.0]))
    assert all(sorted(row.abs().tolist())[-2:] == [1, 2] for row in table)
    strategy = opened(Fetched(method, clients=2, server_lr=0.5, momentum=0.5), 2)
    assert moves(strategy, 1, sketches(method, (4.0, 1.0), (2.0, 3.0))) == [1.5, 0]
    assert moves(strategy, 2, sketches(method, (1.0, 1.0))) == [1.5, 2]
    assert moves(strategy, 3, sketches(method, (0.0, 0.0))) == [3.375, 2]
    plain = Fetched(method, clients=2)
    assert (plain.server_lr, plain.momentum) == (1, 0.9)


# --- what runs are built with -------------------------------------------------------------------


def test_runs_build_the_rules_that_they_name() -> None:
    """SCAFFOLD counts all eight clients, not the two of a cohort; votes have the run's seed."""
    scaffold = make_strategy(small(strategy="scaffold", momentum=0.0, clients=8, cohort=2))
    assert scaffold.aggregate == Scaffold(8) and scaffold.cohort == 2
    vote = make_strategy(small(strategy="majority", method="sign(0.5)", seed=3))
    assert vote.aggregate == Majority(3)
    switch = make_strategy(small(strategy="innetwork", method="cnat(5, 0)"))
    assert switch.aggregate == InNetwork(Natural(5, 0), 32)


def test_a_buffer_holds_ten_updates_or_as_many_as_are_at_work() -> None:
    timed = {"strategy": "fedbuff", "network": "4g, compute=20ms", "method": "raw"}
    sizes = [({"clients": 20}, 10), ({"clients": 20, "cohort": 7}, 7), ({"buffer_size": 3}, 3)]
    for given, size in sizes:
        built: Any = make_strategy(small(**timed, **given))
        assert (built.size, built.server_lr, built.staleness.text) == (size, 1, "polynomial(0.5)")


# --- servers that do not wait -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "weights"),
    [("constant", [1, 1, 1, 1]), ("polynomial(1)", [1, 1 / 2, 1 / 3, 1 / 4]),
     ("polynomial(0)", [1, 1, 1, 1]), ("hinge(2, 1)", [1, 1, 1 / 3, 1 / 5])],
)  # fmt: skip
def test_weights_by_staleness(rule: str, weights: list[float]) -> None:
    """Of updates that are 0 to 3 steps old; hinge(2, 1) begins behind one step: 1 / (2 * 1 + 1)."""
    assert [Staleness(rule)(steps) for steps in range(4)] == pytest.approx(weights)


def arrival(strategy: ChannelStrategy, value: float, stale: int, from_: float = 0.0) -> Any:
    """An update of a client that was sent the model ``from_``, so many steps ago."""
    asked = SimpleNamespace(weights={"w": torch.tensor([from_])})
    return SimpleNamespace(uplink=up(value), staleness=stale, asked=asked)


def test_fedbuff_by_hand() -> None:
    """Two updates a step, rate 1/2, weights 1 / (1 + s): 4 / 4 and 8 / 8 sum to 2.

    The mean is over the number of updates. The next two begin anew: 2 / 4 and 2 / 4.
    """
    strategy: Any = opened(FedBuff(
        Raw(), clients=4, size=2, server_lr=0.5, staleness=Staleness("polynomial(1)")
    ))  # fmt: skip
    assert strategy.step(arrival(strategy, 4.0, 0)) is None and strategy.held == 1
    assert strategy.step(arrival(strategy, 8.0, 1))["w"].tolist() == [2]
    assert strategy.held == 0
    assert strategy.step(arrival(strategy, 2.0, 0)) is None
    assert strategy.step(arrival(strategy, 2.0, 0))["w"].tolist() == [1]


def test_fedasync_by_hand() -> None:
    """The server is at 10, its client began at 6 and came to 14: a = 1/2 * 1/2, the step is 1."""
    strategy: Any = FedAsync(
        Raw(), clients=4, server_lr=0.5, staleness=Staleness("polynomial(1)")
    )
    strategy.open({"w": torch.tensor([10.0])})
    assert strategy.step(arrival(strategy, 8.0, 1, from_=6.0))["w"].tolist() == [1]
    assert strategy.step(arrival(strategy, 4.0, 0, from_=10.0))["w"].tolist() == [2]
