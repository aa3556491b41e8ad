"""What each server makes of two rounds of tiny uplinks, by numbers worked out on paper.

The model is one tensor `w` that begins at zero. What clients sent is given as it was decoded.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.optim import SGD

from compressors import Natural, Raw, State, compress, decompress, parse
from fedsim.federation.server import make_strategy
from strategies import (
    DIANA,
    DSGD,
    EF21,
    MARINA,
    Algorithm,
    DelayedDSGD,
    FedBuff,
    FetchSGD,
    Gradients,
    InNetwork,
    Majority,
    Nesterov,
    RoundInfo,
    Scaffold,
    Staleness,
    Uplink,
    average,
    build,
)
from strategies.contrib.fetchsgd import Tables
from strategies.contrib.marina import dense
from tests.support.runs import small


def up(*values: float, samples: float | None = None, **more: Any) -> Uplink:
    metrics = {} if samples is None else {"num-examples": samples}
    return Uplink(b"", {}, {"w": torch.tensor(values)}, metrics, **more)


def ruled(rule: Algorithm, method: str = "raw", clients: int = 2, entries: int = 1) -> Any:
    return opened(build(rule, parse(method), clients=clients), entries)


def opened(strategy: Any, entries: int = 1) -> Any:
    strategy.open({"w": torch.zeros(entries)})
    return strategy


def moves(strategy: Any, number: int, ups: Mapping[int, Uplink]) -> list[float]:
    """The model after a round of these uplinks."""
    strategy.channel.traffic.round = number
    clients, asked = strategy.clients, strategy.channel.iterations
    now = RoundInfo(number, strategy.seed, clients, strategy.uplink, clients, asked)
    weights = strategy.channel.weights
    delta, strategy.memory = strategy.rule.step(ups, strategy.memory, weights, now)
    strategy.channel.advance(delta)
    return strategy.channel.weights["w"].tolist()


# --- the mean -----------------------------------------------------------------------------------


def test_of_a_cohort_the_mean_is_over_those_that_came() -> None:
    """One of four clients: its whole update; one that does not say its samples counts as one."""
    strategy = opened(DelayedDSGD(Raw(), clients=4))
    assert moves(strategy, 1, {3: up(4.0)}) == [4]
    assert average({0: up(4.0), 1: up(8.0, samples=3)}, "samples")["w"].tolist() == [7]


def test_metrics_are_means_of_what_all_told(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = ruled(DSGD())
    ups = {0: up(4.0), 1: up(6.0)}
    ups[0].metrics.update(a=1.0, b=5.0)
    ups[1].metrics.update(a=3.0)
    monkeypatch.setattr(strategy, "collect", lambda replies: {})
    monkeypatch.setattr(strategy.channel, "finish", lambda required: ups)
    assert dict(strategy.advance([])) == {"a": 2.0}


# --- momentum and optimizers at the server ------------------------------------------------------


def test_nesterov_by_samples() -> None:
    """Mean by samples 7, rate 1 and no momentum."""
    strategy = ruled(Nesterov("samples", server_lr=1.0, momentum=0.0))
    assert moves(strategy, 1, {0: up(4.0, samples=1), 1: up(8.0, samples=3)}) == [7]


def test_nesterov_of_unlike_iterations() -> None:
    """FedNova's mean, 6.25 as above, and not the mean by samples, 5.5."""
    strategy = ruled(Nesterov("nova", server_lr=1.0, momentum=0.0))
    strategy.channel.iterations = {0: 2, 1: 6}
    assert moves(strategy, 1, {0: up(4.0, samples=1), 1: up(6.0, samples=3)}) == [6.25]


@pytest.mark.parametrize(("unused", "model"), [(frozenset[str](), -1.0), (frozenset("w"), -2.0)])
def test_what_the_loss_does_not_reach_does_not_decay(unused: frozenset[str], model: float) -> None:
    """SGD of rate 1 and decay 1/2: gradient 2, the model -2. Gradient 0: half of it is left."""
    rule = Gradients(optimizer=partial(SGD, lr=1.0, weight_decay=0.5), unused=unused)
    strategy = ruled(rule)
    assert moves(strategy, 1, {0: up(2.0)}) == [-2]
    assert moves(strategy, 2, {0: up(0.0)}) == [model]


# --- marina -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weighting", "models"), [("uniform", [-3.0, -6.0]), ("samples", [-3.5, -6.5])]
)
def test_marina_adds_mean_changes_to_its_gradient(weighting: str, models: list[float]) -> None:
    """SGD of rate 1/2. The first round is dense: gradients 4 and 8 of 1 and 3 samples, 6 or 7.

    The second is not: changes 2 and -2, whose mean is 0, or (2 - 6) / 4 = -1: 6 in both.
    """
    method = "marina(cnat, 0.000001)"
    strategy = ruled(MARINA(weighting, partial(SGD, lr=0.5)), method)
    assert dense(strategy.uplink, 0, 1)
    assert moves(strategy, 1, {0: up(4.0, samples=1), 1: up(8.0, samples=3)}) == models[:1]
    assert not dense(strategy.uplink, 0, 2)
    assert moves(strategy, 2, {0: up(2.0, samples=1), 1: up(-2.0, samples=3)}) == models[1:]


def test_marina_s_dense_rounds_begin_anew() -> None:
    """p = 1: 4, then 2 in the place of 4 and not beside it."""
    strategy = ruled(MARINA(optimizer=partial(SGD, lr=1.0)), "marina(cnat, 1)", clients=1)
    assert moves(strategy, 1, {0: up(4.0)}) == [-4]
    assert dense(strategy.uplink, 0, 2) and moves(strategy, 2, {0: up(2.0)}) == [-6]


def test_marina_s_share_of_dense_rounds() -> None:
    """One in four: 0.25 +- 5 * sqrt(3 / 16 / 2000) = 0.048 of 2000 rounds."""
    method = parse("marina(cnat, 0.25)")
    share = sum(dense(method, 0, number) for number in range(2, 2002)) / 2000
    assert abs(share - 0.25) < 0.048


# --- sums and shifts ----------------------------------------------------------------------------


def test_ef21_moves_by_the_sum_over_all_clients() -> None:
    """Four clients; 4 and 8 of two: 12 / 4 = 3. Then -4 of a third: the sum is 8, the step 2."""
    strategy = ruled(EF21(), "ef21(topk(0.5) | float32)", clients=4)
    assert moves(strategy, 1, {0: up(4.0), 1: up(8.0)}) == [3]
    assert moves(strategy, 2, {2: up(-4.0)}) == [5]
    assert moves(strategy, 3, {0: up(0.0)}) == [7]  # the sum stays


def test_diana_s_shift_moves_by_all_clients_and_its_step_by_those_that_came() -> None:
    """Four clients, alpha 1/2. 4 and 8 of two: the step is their mean 6, the shift 12 / 4 / 2.

    Then 2 of one: the step is 1.5 + 2, the shift 1.5 + 2 / 4 / 2. Then 0: the step is 1.75.
    """
    strategy = ruled(DIANA(), "diana(float32, 0.5)", clients=4)
    assert moves(strategy, 1, {0: up(4.0), 1: up(8.0)}) == [6]
    assert moves(strategy, 2, {3: up(2.0)}) == [9.5]
    assert moves(strategy, 3, {0: up(0.0), 1: up(0.0)}) == [11.25]


def test_scaffold_s_lines_16_and_17() -> None:
    """Two of eight clients: the model moves by their mean, the control variate by a quarter of it,
    which is their sum over eight."""
    assert list(Scaffold().client.payload_template({"w": torch.ones(1)})) == ["w", "control/w"]
    ups = {
        k: Uplink(
            b"", {}, {"w": torch.tensor([w]), "control/w": torch.tensor([c])}, {"num-examples": n}
        )
        for k, (w, c, n) in enumerate(((4.0, 8.0, 1), (8.0, 24.0, 3)))
    }
    of_eight, of_two = (
        Scaffold().step(ups, {}, {}, RoundInfo(1, 0, clients, Raw()))[0] for clients in (8, 2)
    )
    assert of_eight is not None and of_two is not None
    assert of_eight["w"].tolist() == [6] and of_eight["control/w"].tolist() == [4]
    assert of_two["control/w"].tolist() == [16]


# --- votes and integers -------------------------------------------------------------------------


def test_votes_count_once_each_round_anew() -> None:
    """Two to one for plus, then one to two: back at zero. Samples do not count."""
    strategy = ruled(Majority(), "sign(0.5)", clients=3)
    for number, signs, model in ((1, (1, 1, -1), 0.25), (2, (1, -1, -1), 0.0)):
        ups = {k: up(0.25 * s, samples=100 - 49 * k) for k, s in enumerate(signs)}
        assert moves(strategy, number, ups) == [model]


def test_integers_at_the_switch_by_hand() -> None:
    """Units of 2^-14: 0.5, 0.25 and 0.25 are 8192, 4096, 4096; their sum 2^14 over three is 1 / 3.

    -1, 0.5 and 0.5 cancel, and 2^-14 three times over is 2^-14.
    """
    assert Natural(5, 0).lowest == -14
    strategy = ruled(InNetwork(), "cnat(5, 0)", clients=3, entries=3)
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
    rule = FetchSGD(server_lr=0.5, momentum=0.5)
    strategy = ruled(rule, "fetchsgd(0.5, 4, 1000)", entries=2)
    assert moves(strategy, 1, sketches(method, (4.0, 1.0), (2.0, 3.0))) == [1.5, 0]
    assert moves(strategy, 2, sketches(method, (1.0, 1.0))) == [1.5, 2]
    assert moves(strategy, 3, sketches(method, (0.0, 0.0))) == [3.375, 2]
    assert (FetchSGD().server_lr, FetchSGD().momentum) == (1, 0.9)


# --- what runs are built with -------------------------------------------------------------------


def test_runs_build_the_rules_that_they_name() -> None:
    """SCAFFOLD counts all eight clients, not the two of a cohort; votes have the run's seed."""
    scaffold = make_strategy(small(strategy="scaffold", momentum=0.0, clients=8, cohort=2))
    assert isinstance(scaffold, DelayedDSGD) and scaffold.rule == Scaffold()
    assert (scaffold.clients, scaffold.cohort) == (8, 2)
    vote = make_strategy(small(strategy="majority", method="sign(0.5)", seed=3))
    assert isinstance(vote, DelayedDSGD) and vote.rule == Majority() and vote.seed == 3
    switch = make_strategy(small(strategy="innetwork", method="cnat(5, 0)"))
    assert isinstance(switch, DelayedDSGD) and switch.rule == InNetwork(32)


def test_a_buffer_holds_ten_updates_or_as_many_as_are_at_work() -> None:
    timed = {"strategy": "fedbuff", "network": "4g, compute=20ms", "method": "raw"}
    sizes = [({"clients": 20}, 10), ({"clients": 20, "cohort": 7}, 7), ({"buffer_size": 3}, 3)]
    for given, size in sizes:
        built: Any = make_strategy(small(**timed, **given))
        assert (built.rule.server_lr, built.rule.staleness) == (1, Staleness())
        memory, updates, delta = State(), 0, None
        while delta is None:
            now = RoundInfo(1, 0, built.clients, Raw(), built.cohort, age={7: 0})
            delta, memory = built.rule.step({7: up(1.0)}, memory, {"w": torch.zeros(1)}, now)
            updates += 1
        assert updates == size and delta["w"].item() == pytest.approx(1)


# --- servers that do not wait -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "weights"),
    [
        ("constant", [1, 1, 1, 1]),
        ("polynomial(1)", [1, 1 / 2, 1 / 3, 1 / 4]),
        ("polynomial(0)", [1, 1, 1, 1]),
        ("hinge(2, 1)", [1, 1, 1 / 3, 1 / 5]),
    ],
)
def test_weights_by_staleness(rule: str, weights: list[float]) -> None:
    """Of updates that are 0 to 3 steps old; hinge(2, 1) begins behind one step: 1 / (2 * 1 + 1)."""
    assert [Staleness(rule)(steps) for steps in range(4)] == pytest.approx(weights)


class Coming:
    """An algorithm that is told of one update at a time."""

    def __init__(self, rule: Algorithm, at: float = 0.0) -> None:
        self.rule, self.model, self.memory = rule, {"w": torch.tensor([at])}, State()

    def step(
        self, value: float, stale: int, from_: float = 0.0, samples: float | None = None
    ) -> list[float] | None:
        """What an update moves of a client that was sent the model ``from_``, so many steps ago."""
        sent = {7: {"w": torch.tensor([from_])}}
        now = RoundInfo(1, 0, 4, Raw(), 4, age={7: stale}, sent=sent)
        came = {7: up(value, samples=samples)}
        delta, self.memory = self.rule.step(came, self.memory, self.model, now)
        return None if delta is None else delta["w"].tolist()


def test_fedbuff_by_samples_by_hand() -> None:
    """3 of 4 samples moved by 8, one of them by 4 at half its weight: (24 + 2) / 4; then anew."""
    coming = Coming(FedBuff(2, "polynomial(1)", weighting="samples"))
    assert coming.step(8.0, 0, samples=3.0) is None
    assert coming.step(4.0, 1, samples=1.0) == [6.5]
    assert coming.step(1.0, 0, samples=9.0) is None
    assert coming.step(1.0, 0, samples=9.0) == [1]


def test_fetchsgd_by_samples() -> None:
    """A client with three samples weighs as three clients."""
    method = parse("fetchsgd(0.5, 4, 1000)")
    now, model = RoundInfo(1, 0, 4, method, 4), {"w": torch.zeros(2)}
    two = sketches(method, (4.0, 1.0), (1.0, 3.0))
    by_samples = {c: replace(x, metrics={"num-examples": 3.0 - 2 * c}) for c, x in two.items()}
    four = dict(enumerate([two[0]] * 3 + [two[1]]))
    _, weighted = FetchSGD(weighting="samples").step(by_samples, {}, model, now)
    _, repeated = FetchSGD().step(four, {}, model, now)
    torch.testing.assert_close(weighted["momentum"], repeated["momentum"])
