"""Buffers are averaged as the strategy weighs the updates that come with them."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedMedian,
    Strategy,
)

from compressors import Raw
from fedsim.engines.local import LocalGrid
from strategies import DSGD, Buffers, Compressed, answer_partition, build, client_mod
from strategies.algorithms.flowers import FedAvgM
from strategies.server.inner_checks import weighting_of
from tests.support.linear import client_of

SAMPLES, WEIGHTS, MEANS = (1, 3), (3.0, 1.0), (2.0, 6.0)
FIRST = ArrayRecord({"w": torch.zeros(2), "mean": torch.zeros(1)})
ALL: dict[str, Any] = {"fraction_evaluate": 0.0, "min_train_nodes": 2, "min_available_nodes": 2}
PRIVATE = {"noise_multiplier": 0.0, "clipping_norm": 9.0, "num_sampled_clients": 2}


def train(message: Message, context: Context) -> Message:
    client = client_of(context)
    arrays = {"w": torch.full((2,), MEANS[client]), "mean": torch.tensor([MEANS[client]])}
    said = MetricRecord({"num-examples": SAMPLES[client], "weight": WEIGHTS[client]})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": said})
    return Message(content, reply_to=message)


def buffers(weighting: str = "") -> Buffers:
    return Buffers({"mean": torch.zeros(1)}, weighting=weighting)


def after(strategy: Any) -> tuple[float, float]:
    """An entry of the model, and of the buffers, after one round."""
    app = ClientApp(mods=[client_mod(Raw(), Raw(), FIRST, buffers=["mean"])])
    app.train()(train)
    answer_partition(app)
    grid = LocalGrid(app, 2)
    made = strategy.start(grid, FIRST, num_rounds=1).arrays
    return float(made["w"].numpy()[0]), float(made["mean"].numpy()[0])


@pytest.mark.parametrize(
    ("inside", "mean"),
    [
        (FedAvg(**ALL), 5.0),
        (FedAvg(**ALL, weighted_by_key="weight"), 3.0),
        (FedMedian(**ALL), 4.0),
        (DifferentialPrivacyServerSideFixedClipping(FedAvg(**ALL), **PRIVATE), 4.0),
    ],
    ids=["examples", "a number of their own", "a median", "noise"],
)
def test_inside_compressed_as_the_strategy_inside(inside: Strategy, mean: float) -> None:
    assert after(Compressed(inside, Raw(), buffers=buffers())) == pytest.approx((mean, mean))


def test_a_strategy_without_a_key_weighs_nobody() -> None:
    assert weighting_of(SimpleNamespace()) == "uniform"


def test_an_optimizer_inside_moves_the_model_alone() -> None:
    assert after(Compressed(FedAdam(**ALL), Raw(), buffers=buffers()))[1] == 5.0


@pytest.mark.parametrize(
    ("rule", "mean"),
    [(DSGD(), 4.0), (DSGD("samples"), 5.0), (FedAvgM(), 5.0)],
    ids=["uniform", "samples", "by_samples"],
)
def test_of_an_algorithm_as_that_weighs(rule: Any, mean: float) -> None:
    found = after(build(rule, Raw(), clients=2, buffers=buffers()))
    assert found == pytest.approx((mean, mean))


@pytest.mark.parametrize(("weighting", "mean"), [("uniform", 4.0), ("weight", 3.0)])
def test_what_is_given_stands(weighting: str, mean: float) -> None:
    assert after(Compressed(FedAvg(**ALL), Raw(), buffers=buffers(weighting)))[1] == mean
