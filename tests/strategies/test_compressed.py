"""``Compressed`` around Flower's own strategies."""

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi

from compressors import Raw, gradient_dropping
from strategies import Compressed, TooFewReplies
from strategies.channel.downlinks import Updates
from strategies.channel.nodes import cohort
from tests.support.linear import Pull, grid_of, modded_app, plain_app, record, vector

HALF = gradient_dropping(0.5)
TARGETS = [(8.0, 4.0), (0.0, -16.0), (3.0, 5.0)]
TRAIN_ONLY = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}
MakeInner = Callable[[], FedAvg]


def result_of(strategy: FedAvg | Compressed, app: ClientApp, rounds: int) -> np.ndarray:
    grid = grid_of(app, len(TARGETS))
    result = strategy.start(grid, record([1.0, 2.0]), num_rounds=rounds)
    return result.arrays["w"].numpy()


@pytest.mark.parametrize(
    "make",
    [
        FedAvg,
        FedAdam,
        FedYogi,
        FedAdagrad,
        FedAvgM,
        partial(FedAvgM, server_momentum=0.5),
        partial(FedAvgM, server_momentum=0.5, server_learning_rate=0.5),
    ],
)
@pytest.mark.parametrize("clients", [None, 3])
def test_with_raw_it_changes_nothing(make: MakeInner, clients: int | None) -> None:
    plain = result_of(make(**TRAIN_ONLY), plain_app(Pull(TARGETS)), 4)
    wrapped = Compressed(make(**TRAIN_ONLY), Raw(), clients=clients)
    mine = result_of(wrapped, modded_app(Pull(TARGETS), Raw()), 4)
    np.testing.assert_allclose(mine, plain, rtol=1e-5, atol=1e-6)
    assert not np.allclose(plain, [1.0, 2.0])


@pytest.mark.parametrize(
    ("make", "rate"), [(FedAvg, 1.0), (partial(FedAvgM, server_learning_rate=0.5), 0.5)]
)
def test_the_strategy_inside_starts_from_the_model_that_clients_hold(
    make: MakeInner, rate: float
) -> None:
    """What the downlink holds back is in its residual, once: not in the next step as well.

    One client, raw uplink. round 1: w (0, 0), u (4, 2): step rate * u; the larger entry is
    sent. round 2: w (4 rate, 0): step rate * u, + the residual (0, 2 rate).
    """
    grid = grid_of(modded_app(Pull([(8.0, 4.0)]), Raw(), HALF), 1)
    strategy = Compressed(make(**TRAIN_ONLY), Raw(), HALF, clients=1)
    strategy.start(grid, record([0.0, 0.0]), num_rounds=2)
    second = np.array([(8 - 4 * rate) / 2, 2.0]) * rate + [0.0, 2 * rate]
    sent = np.where(np.abs(second) == np.abs(second).max(), second, 0.0)
    assert vector(strategy.channel.weights) == [4 * rate + sent[0], sent[1]]
    assert isinstance(strategy.channel.policy, Updates)
    assert strategy.channel.policy.memory["residual/w"].tolist() == (second - sent).tolist()


def test_the_cohort_is_ours() -> None:
    pull = Pull([(8.0, 4.0)] * 5)
    grid = grid_of(modded_app(pull, HALF, HALF), 5)
    strategy = Compressed(FedAvg(**TRAIN_ONLY), HALF, HALF, clients=5, cohort=2, seed=1)
    strategy.start(grid, record([0.0, 0.0]), num_rounds=6)
    drawn = [cohort(5, 2, 1, number) for number in range(1, 7)]
    assert {c: len(seen) for c, seen in pull.seen.items()} == {
        c: sum(c in one for one in drawn) for c in range(5)
    }


def test_a_client_that_fails_is_left_out_as_in_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    log = logging.getLogger("flwr")
    monkeypatch.setattr(log, "warning", lambda text, *given: told.append(text % given))
    pull = Pull(TARGETS, fails=lambda client, call: client == 2)
    grid = grid_of(modded_app(pull, Raw()), 3)
    strict = Compressed(FedAvg(**TRAIN_ONLY), Raw(), clients=3, required=3)
    with pytest.raises(TooFewReplies, match="round 1: 2 of 3 .* client 2: .*out of order"):
        strict.start(grid, record([0.0, 0.0]), num_rounds=1)
    expected = (np.array([4.0, 2.0]) + 2 * np.array([0.0, -8.0])) / 3
    for clients, required in ((3, 2), (3, None), (None, None)):
        mild = Compressed(FedAvg(**TRAIN_ONLY), Raw(), clients=clients, required=required)
        result = mild.start(grid, record([0.0, 0.0]), num_rounds=1)
        np.testing.assert_allclose(result.arrays["w"].numpy(), expected, rtol=1e-6)
        assert len(result.train_metrics_clientapp) == 1
        client = 3 if clients is None else 2  # known by its node
        assert told.pop().startswith(f"round 1 goes on without client {client}: RuntimeError")


def test_a_round_in_which_all_fail() -> None:
    """The first ends the start: every client fails. A later one leaves the model as it is."""
    pull = Pull(TARGETS, fails=lambda client, call: call == 2)
    grid = grid_of(modded_app(pull, HALF), 3)
    result = Compressed(FedAvg(**TRAIN_ONLY), HALF).start(grid, record([0.0, 0.0]), num_rounds=3)
    assert [len(told) for told in result.train_metrics_clientapp.values()] == [3, 2, 3]
    assert {"bytes-up", "bytes-down"} == {*result.train_metrics_clientapp[2]}
    assert [len(seen) for seen in pull.seen.values()] == [3] * 3
    assert pull.seen[0][1] == pull.seen[0][2]
    pull.fails = lambda client, call: True
    with pytest.raises(TooFewReplies, match="round 1: 0 of 3 clients replied and 1 are required"):
        Compressed(FedAvg(**TRAIN_ONLY), HALF).start(grid, record([0.0, 0.0]), num_rounds=3)


def test_evaluation_passes_through() -> None:
    app = modded_app(Pull(TARGETS), HALF, HALF)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        metrics = MetricRecord({"w0": float(arrays["w"].numpy()[0]), "num-examples": 1})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    grid = grid_of(app, 3)
    strategy = Compressed(FedAvg(), HALF, HALF, clients=3)
    result = strategy.start(grid, record([0.0, 0.0]), num_rounds=2)
    scores = result.evaluate_metrics_clientapp
    assert scores[2]["w0"] == result.arrays["w"].numpy()[0]


@pytest.mark.parametrize(
    "told",
    [
        {"loss": 1.0, "num-examples": -10},
        {"loss": 1.0},
        {"loss": [1.0], "num-examples": 5},
        {"loss": 1.0, "num-examples": math.nan},
        {"other": 1.0, "num-examples": 5},
        {"loss": 1.0, "num-examples": [5]},
        {},
    ],
)
def test_no_client_ends_or_spoils_the_evaluation_of_the_others(told: dict[str, Any]) -> None:
    app = modded_app(Pull(TARGETS), HALF, HALF)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        odd = context.node_config["partition-id"] == 2
        metrics = MetricRecord(told if odd else {"loss": 0.5, "num-examples": 5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    grid = grid_of(app, 3)
    strategy = Compressed(FedAvg(), HALF, HALF, clients=3)
    result = strategy.start(grid, record([0.0, 0.0]), num_rounds=1)
    assert result.evaluate_metrics_clientapp[1]["loss"] == 0.5


def test_no_client_learns_the_model_but_from_its_payload() -> None:
    grid = grid_of(modded_app(Pull(TARGETS), HALF, HALF), 3)
    strategy = Compressed(FedAvg(**TRAIN_ONLY), HALF, HALF, clients=3)
    messages = list(strategy.configure_train(1, record([1.0, 2.0]), ConfigRecord(), grid))
    assert len(messages) == 3
    for message in messages:
        assert not message.content.array_records
        payloads = [
            value
            for config in message.content.config_records.values()
            for value in config.values()
            if isinstance(value, bytes)
        ]
        assert len(payloads) == 1
    contents = {id(message.content) for message in messages}
    assert len(contents) == 3  # strategies share one record between their messages; we do not


def test_aggregating_before_configuring_is_refused() -> None:
    with pytest.raises(RuntimeError, match="before configure_train"):
        Compressed(FedAvg(**TRAIN_ONLY), Raw()).aggregate_train(1, [])
