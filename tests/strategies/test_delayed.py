"""Algorithm 1, followed by hand, and the draw of cohorts."""

from typing import Any

import pytest
from flwr.app import ArrayRecord, ConfigRecord

from compressors import Raw, gradient_dropping
from fedsim.engines.local import LocalGrid
from strategies import DSGD, DelayedDSGD
from strategies.channel import nodes
from strategies.channel.downlinks import Updates
from strategies.channel.nodes import cohort
from tests.support.linear import Pull, grid_of, modded_app, record, tensor, vector

HALF = gradient_dropping(0.5)  # the larger of the two entries; the other waits
MODEL_BITS, UPDATE_BITS = 88, 64  # 24 + 2 x 32; 24 + 1 + 1 or 2 + 32, whole bytes


def test_three_rounds_by_hand() -> None:
    """Two clients, both directions sparse with residuals; client 1 fails in round 2.

    round 1: w (0, 0)   client 0: u (4, 2), sends (4, 0), keeps (0, 2)
                        client 1: u (0, -8), sends (0, -8), keeps (0, 0)
             mean (2, -4): the server sends (0, -4), keeps (2, 0)
    round 2: w (0, -4)  client 0: u (4, 4) + (0, 2) = (4, 6), sends (0, 6), keeps (4, 0)
                        client 1: fails
             mean (0, 6), + (2, 0) = (2, 6): sends (0, 6), keeps (2, 0)
    round 3: w (0, 2)   client 0: u (4, 1) + (4, 0) = (8, 1), sends (8, 0), keeps (0, 1)
                        client 1: u (0, -9), sends (0, -9), keeps (0, 0)
             mean (4, -4.5), + (2, 0) = (6, -4.5): sends (6, 0), keeps (0, -4.5)
    """
    pull = Pull([(8.0, 4.0), (0.0, -16.0)], fails=lambda client, call: (client, call) == (1, 2))
    grid = grid_of(modded_app(pull, HALF, HALF), 2)
    strategy = DelayedDSGD(HALF, HALF, clients=2, required=1)
    uplinks, kinds, charged, models, metrics = three_rounds(strategy, grid)
    assert uplinks == [
        {0: [4.0, 0.0], 1: [0.0, -8.0]},
        {0: [0.0, 6.0]},
        {0: [8.0, 0.0], 1: [0.0, -9.0]},
    ]
    assert models == [[0.0, -4.0], [0.0, 2.0], [6.0, 2.0]]
    assert isinstance(strategy.channel.policy, Updates)
    assert vector({"w": strategy.channel.policy.memory["residual/w"]}) == [0.0, -4.5]
    assert kinds == [["model"] * 2, ["update"] * 2, ["update", "model"]]
    assert charged == [[0, 0], [UPDATE_BITS] * 2, [UPDATE_BITS, MODEL_BITS]]
    assert pull.seen == {
        0: [[0.0, 0.0], [0.0, -4.0], [0.0, 2.0]],
        1: [[0.0, 0.0], [0.0, -4.0], [0.0, 2.0]],  # told the model whole after it failed
    }
    assert metrics["train-loss"] == 0.5 and metrics["num-examples"] == 1.5


def three_rounds(strategy: DelayedDSGD, grid: LocalGrid) -> Any:
    """What was sent, told and charged in each round, the models after it, and the last metrics."""
    arrays = record([0.0, 0.0])
    uplinks, kinds, charged, models = [], [], [], []
    for number in (1, 2, 3):
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        arrays, metrics = strategy.aggregate_train(number, grid.send_and_receive(messages))
        traffic = strategy.channel.traffic
        uplinks.append({c: vector(up.update) for c, up in traffic.uplinks.items()})
        kinds.append([d.kind for d in traffic.downlinks.values()])
        charged.append([8 * len(d.payload) * d.charged for d in traffic.downlinks.values()])
        models.append(vector(strategy.channel.weights))
        assert {8 * len(up.payload) for up in traffic.uplinks.values()} == {UPDATE_BITS}
        assert arrays["w"].numpy().tolist() == models[-1]
    return uplinks, kinds, charged, models, metrics


def one_round(strategy: DelayedDSGD, number: int, arrays: ArrayRecord, grid: LocalGrid) -> None:
    messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
    strategy.aggregate_train(number, grid.send_and_receive(messages))


def test_a_copy_of_the_model_is_the_model() -> None:
    """Wrappers hand over a record of their own: what counts is its values."""
    grid = grid_of(modded_app(Pull([(8.0, 4.0)]), Raw(), HALF), 1)
    strategy = DelayedDSGD(Raw(), HALF, clients=1)
    one_round(strategy, 1, record([0.0, 0.0]), grid)
    assert strategy.channel is not None
    one_round(strategy, 2, record(vector(strategy.channel.weights)), grid)
    assert strategy.channel.traffic.downlinks[0].kind == "update" and strategy.channel.version == 2


def test_a_model_that_was_changed_between_rounds_is_sent_whole_and_charged() -> None:
    pull = Pull([(8.0, 4.0)])
    grid = grid_of(modded_app(pull, Raw(), HALF), 1)
    strategy = DelayedDSGD(Raw(), HALF, clients=1)
    one_round(strategy, 1, record([0.0, 0.0]), grid)
    one_round(strategy, 2, record([1.0, 1.0]), grid)  # as a wrapper that adds noise
    assert strategy.channel is not None and strategy.channel.version == 3
    down = strategy.channel.traffic.downlinks[0]
    assert (down.kind, down.charged) == ("model", True)
    assert pull.seen[0] == [[0.0, 0.0], [1.0, 1.0]]


def test_a_late_update_counts_though_the_model_was_changed_since() -> None:
    """The first round asked for it; in the second the channel is another."""
    grid = grid_of(modded_app(Pull([(8.0, 4.0)] * 2), Raw()), 2)
    strategy = DelayedDSGD(Raw(), clients=2, required=1, late="count")
    strategy.open(tensor(0.0, 0.0))
    first, late = grid.send_and_receive(strategy.ask(1, ConfigRecord({"iterations": 3}), grid))
    strategy.advance([first])
    channel = strategy.open(tensor(1.0, 1.0), 2)
    channel.begin(2, [0])
    assert strategy.late(channel, 1, late, True)
    assert channel.traffic.uplinks[1].earlier_round == 1 and channel.iterations[1] == 3


def test_the_cohort_follows_from_seed_and_round_alone() -> None:
    draws = {(s, r): cohort(10, 3, s, r) for s in range(4) for r in range(1, 30)}
    assert draws == {(s, r): cohort(10, 3, s, r) for r in range(29, 0, -1) for s in range(4)}
    for drawn in draws.values():
        assert drawn == sorted(set(drawn)) and len(drawn) == 3
        assert set(drawn) <= set(range(10))
    for seed in range(4):
        mine = [draws[seed, r] for r in range(1, 30)]
        assert {c for drawn in mine for c in drawn} == set(range(10))
        assert len({tuple(d) for d in mine}) > 10
    assert [draws[0, r] for r in range(1, 30)] != [draws[1, r] for r in range(1, 30)]
    assert cohort(4, 4, 0, 1) == cohort(4, 9, 5, 2) == [0, 1, 2, 3]
    assert (cohort(10, 3, 0, 1), cohort(10, 3, 7, 2)) == ([3, 5, 6], [2, 7, 8])


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="weighting is 'median'"):
        DSGD("median")


def test_clients_that_never_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "REGISTRATION_SECONDS", 0.2)
    grid = grid_of(modded_app(Pull([(0.0, 0.0)]), Raw()), 1)
    strategy = DelayedDSGD(Raw(), clients=2, timeout=0.2)
    with pytest.raises(TimeoutError, match="1 nodes have registered in 0.2 s and 2 clients"):
        strategy.configure_train(1, record([0.0, 0.0]), ConfigRecord(), grid)
