"""Flower's adaptive strategies by the formulas of docs/strategies.md."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from compressors import Raw
from fedsim.engines.local import LocalGrid
from strategies import answer_partition, build, client_mod
from strategies.algorithms.flowers import FedAdagrad, FedAdam, FedYogi
from tests.support.linear import client_of

ROUNDS, TAU, BETA, SECOND = 4, 0.001, 0.9, 0.99
SAMPLES = (1, 3)
MOVES = np.random.default_rng(0).normal(size=(2, ROUNDS, 5))  # by client and round
MOVES[:, 1:, 0] = 0  # an entry that moves once
FIRST = ArrayRecord({"w": torch.zeros(5)})


def app() -> ClientApp:
    done = {0: 0, 1: 0}

    def train(message: Message, context: Context) -> Message:
        client = client_of(context)
        (w,) = message.content.array_records["arrays"].values()
        moved = torch.from_numpy(w.numpy() + MOVES[client, done[client]]).float()
        done[client] += 1
        said = MetricRecord({"num-examples": SAMPLES[client]})
        content = RecordDict({"arrays": ArrayRecord({"w": moved}), "metrics": said})
        return Message(content, reply_to=message)

    made = ClientApp(mods=[client_mod(Raw(), Raw(), FIRST)])
    made.train()(train)
    answer_partition(made)
    return made


def by_hand(name: str, eta: float) -> np.ndarray:
    x, m, v = (np.zeros(5) for _ in range(3))
    for t in range(1, ROUNDS + 1):
        d = np.average(MOVES[:, t - 1], axis=0, weights=SAMPLES)
        m = d if name == "FedAdagrad" else BETA * m + (1 - BETA) * d
        v = {
            "FedAdagrad": v + d**2,
            "FedAdam": SECOND * v + (1 - SECOND) * d**2,
            "FedYogi": v - (1 - SECOND) * d**2 * np.sign(v - d**2),
        }[name]
        rate = eta
        if name == "FedAdam":  # t + 1 from the first step on
            rate *= math.sqrt(1 - SECOND ** (t + 1)) / (1 - BETA ** (t + 1))
        x = x + rate * m / (np.sqrt(v) + TAU)
    return x


@pytest.mark.parametrize("kind", [FedAdagrad, FedAdam, FedYogi])
def test_the_page_s_formula_is_what_runs(kind: Any) -> None:
    grid = LocalGrid(app(), 2)
    try:
        strategy = build(kind(), Raw(), clients=2)
        made = strategy.start(grid, FIRST, num_rounds=ROUNDS).arrays
    finally:
        grid.close()
    np.testing.assert_allclose(
        made["w"].numpy(), by_hand(kind.__name__, kind().server_lr), rtol=2e-5, atol=1e-7
    )
