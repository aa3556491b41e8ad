"""Two ``start()`` on the same nodes: the second knows nothing of the first."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from flwr.serverapp.strategy import FedAvg

from compressors import Compressor, Raw, gradient_dropping, parse
from fedsim.engines.local import LocalGrid
from strategies import (
    DIANA,
    EF21,
    ChannelStrategy,
    Compressed,
    DelayedDSGD,
    FedBuff,
    Gradients,
    Nesterov,
    build,
)
from tests.support.linear import Pull, grid_of, modded_app, record

ADAM = Gradients(optimizer=partial(torch.optim.Adam, lr=0.5))
HALF = gradient_dropping(0.5)
TRAIN_ONLY = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}


def trained(strategy: ChannelStrategy, grid: LocalGrid) -> list[float]:
    result = strategy.start(grid, record([0.0, 0.0]), num_rounds=3)
    found: list[float] = result.arrays["w"].numpy().tolist()
    return found


@pytest.mark.parametrize("down", [Raw(), HALF], ids=["raw", "half"])
def test_the_second_ends_where_the_first_did(down: Compressor) -> None:
    grid = grid_of(modded_app(Pull([(8.0, 4.0), (100.0, -60.0)]), HALF, down), 2)
    ends = [trained(DelayedDSGD(HALF, down, clients=2), grid) for _ in range(3)]
    wrapped = (Compressed(FedAvg(**TRAIN_ONLY), HALF, down, clients=2) for _ in range(2))
    ends += [trained(strategy, grid) for strategy in wrapped]
    assert ends[0] == ends[1] == ends[2] and ends[3] == ends[4]


def test_clients_that_learn_nothing_move_nothing() -> None:
    pull = Pull([(8.0, 4.0), (100.0, -60.0)])
    grid = grid_of(modded_app(pull, HALF), 2)
    assert trained(DelayedDSGD(HALF, clients=2), grid) != [0.0, 0.0]
    pull.targets = [(0.0, 0.0)] * 2  # the model that they are sent: they answer it as it came
    assert trained(DelayedDSGD(HALF, clients=2), grid) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("make", "up"),
    [
        (lambda up: build(EF21(), up, clients=2), "ef21(topk(0.5) | float32)"),
        (lambda up: build(DIANA(), up, clients=2), "diana(qsgd(4))"),
        (lambda up: build(Nesterov(), up, clients=2), "raw"),
        (lambda up: build(ADAM, up, clients=2), "raw"),
    ],
    ids=["ef21", "diana", "nesterov", "adam"],
)
def test_what_the_server_remembers_is_forgotten_too(
    make: Callable[[Compressor], ChannelStrategy], up: str
) -> None:
    method = parse(up)
    grid = grid_of(modded_app(Pull([(8.0, 4.0), (100.0, -60.0)]), method), 2)
    strategy = make(method)
    first = trained(strategy, grid)
    assert trained(strategy, grid) == first == trained(make(method), grid)


def test_an_asynchronous_server_is_started_once() -> None:
    grid = grid_of(modded_app(Pull([(8.0, 4.0), (100.0, -60.0)]), Raw()), 2)
    strategy = build(FedBuff(3), Raw(), clients=2)
    assert trained(strategy, grid) != [0.0, 0.0]
    with pytest.raises(RuntimeError, match="this strategy was started before: make another"):
        trained(strategy, grid)
