"""A strategy's memory: saved, restored, and going on as if nothing had happened."""

import json
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedYogi,
)

from compressors import Raw, gradient_dropping
from fedsim.engines.local import LocalGrid
from strategies import ChannelStrategy, Compressed, DelayedDSGD, Gradients, build
from strategies.channel.payload import to_arrays
from tests.support.linear import Pull, grid_of, modded_app, record

HALF = gradient_dropping(0.5)
TARGETS = [(8.0, 4.0), (0.0, -16.0), (3.0, 5.0)]
ADAM = partial(torch.optim.Adam, lr=0.1)
TRAIN_ONLY = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}


def wrapped(make: Callable[..., FedAvg], down: object) -> Compressed:
    return Compressed(make(**TRAIN_ONLY), HALF, down, clients=3, cohort=2, required=1)


def adaptive(**settings: float) -> DifferentialPrivacyServerSideAdaptiveClipping:
    """Around FedAvg; without noise, which is drawn from numpy's own generator."""
    return DifferentialPrivacyServerSideAdaptiveClipping(
        FedAvg(**settings), 0.0, 2, initial_clipping_norm=1.0
    )


MAKERS: list[Callable[[object], ChannelStrategy]] = [
    lambda down: DelayedDSGD(HALF, down, clients=3, cohort=2),
    lambda down: build(Gradients(optimizer=ADAM), HALF, down, clients=3, cohort=2),
    *(
        partial(wrapped, make)
        for make in (
            FedAvg,
            FedAdam,
            FedYogi,
            FedAdagrad,
            partial(FedAvgM, server_momentum=0.5, server_learning_rate=0.5),
        )
    ),
    lambda down: Compressed(adaptive(**TRAIN_ONLY), HALF, down, clients=3, cohort=2),
]


def go(
    strategy: ChannelStrategy, grid: LocalGrid, arrays: ArrayRecord, numbers: range
) -> ArrayRecord:
    for number in numbers:
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        arrays, _ = strategy.aggregate_train(number, grid.send_and_receive(messages))
    return arrays


@pytest.mark.parametrize("down", [Raw(), HALF])
@pytest.mark.parametrize("make", MAKERS, ids=lambda m: "")
def test_it_goes_on_bit_for_bit(make: Callable[[object], ChannelStrategy], down: object) -> None:
    whole = make(down)
    grid = grid_of(modded_app(Pull(TARGETS), HALF, down), 3)
    at_once = go(whole, grid, record([1.0, 2.0]), range(1, 8))

    first = make(down)
    grid = grid_of(modded_app(Pull(TARGETS), HALF, down), 3)
    go(first, grid, record([1.0, 2.0]), range(1, 4))
    tensors, values = first.state()
    tensors = {name: x.clone() for name, x in tensors.items()}
    values = json.loads(json.dumps(values))
    second = make(down)
    second.restore(tensors, values)
    in_parts = go(second, grid, to_arrays(second.channel.weights), range(4, 8))

    assert in_parts["w"].numpy().tobytes() == at_once["w"].numpy().tobytes()
    after, state = whole.state(), second.state()
    own = {"channel_id": 0}  # no two servers have the same
    assert after[1] | own == state[1] | own
    assert list(after[0]) == list(state[0])
    for name, x in after[0].items():
        assert x.dtype == state[0][name].dtype and torch.equal(x, state[0][name]), name


@pytest.mark.parametrize("down", [Raw(), HALF])
@pytest.mark.parametrize("make", MAKERS, ids=lambda m: "")
def test_start_goes_on_from_what_was_restored(
    make: Callable[[object], ChannelStrategy], down: object
) -> None:
    """``start`` counts its rounds from 1, and clients have answered those of before."""
    scored: list[tuple[int, list[float]]] = []

    def score(number: int, arrays: ArrayRecord) -> MetricRecord:
        scored.append((number, arrays["w"].numpy().tolist()))
        return MetricRecord({"rounds": number})

    kept = []
    for parts in ([7], [3, 4], [3, 0, 2, 2]):
        pull, saved = Pull(TARGETS), None
        grid = grid_of(modded_app(pull, HALF, down), 3)
        scored.clear()
        before: list[float] = []
        for rounds in parts:
            strategy = make(down)
            if saved is not None:
                strategy.restore(*saved)
            result = strategy.start(grid, record([1.0, 2.0]), rounds, evaluate_fn=score)
            if saved is not None:
                assert (0, before) == scored[-rounds - 1]  # from the model of before
            before = scored[-1][1]
            tensors, values = strategy.state()
            saved = {n: x.clone() for n, x in tensors.items()}, json.loads(json.dumps(values))
        assert result.arrays["w"].numpy().tolist() == before
        kept.append((saved, pull.seen, before))
    own = {"channel_id": 0}
    for (tensors, values), seen, model in kept[1:]:
        assert model == kept[0][2] and seen == kept[0][1]
        assert values | own == kept[0][0][1] | own
        assert all(torch.equal(x, kept[0][0][0][n]) for n, x in tensors.items())


def test_moments_of_scalars_are_kept() -> None:
    """numpy turns the result of arithmetic on 0-d arrays into scalars: they count as arrays."""
    inner = FedAdam(**TRAIN_ONLY)
    inner.m_t = {"bias": np.float32(0.5), "w": np.ones(2, np.float32)}
    strategy = Compressed(inner, HALF, clients=1)
    grid = grid_of(modded_app(Pull(TARGETS[:1]), HALF), 1)
    list(strategy.configure_train(1, record([0.0, 0.0]), ConfigRecord(), grid))
    tensors, values = strategy.state()
    again = Compressed(FedAdam(**TRAIN_ONLY), HALF, clients=1)
    again.restore(tensors, values)
    assert again.strategy.m_t["bias"] == 0.5
    assert again.strategy.m_t["w"].tolist() == [1.0, 1.0]


def test_there_is_nothing_to_save_before_the_first_round() -> None:
    with pytest.raises(RuntimeError, match="before the first round"):
        DelayedDSGD(HALF, clients=3).state()
