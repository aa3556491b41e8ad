"""What no client sent does not move, whatever strategy is inside."""

from functools import partial
from typing import Any

import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi
from torch import Tensor

from compressors import compress, decompress, parse
from strategies import Compressed, answer_partition
from strategies.channel.payload import put
from tests.support.linear import grid_of

SIZE, CLIENTS = 4923, 7
SPARSE, NONZERO = parse("topk(0.02) | float32 | golomb"), parse("nonzero | float32 | bitmap")
INNER = {
    "fedavg": FedAvg,
    "fedavgm": partial(FedAvgM, server_momentum=0.9),
    "fedadam": FedAdam,
    "fedadagrad": FedAdagrad,
    "fedyogi": FedYogi,
}


def update_of(client: int) -> dict[str, Tensor]:
    draws = torch.Generator().manual_seed(client)
    return {"w": torch.randn(SIZE, generator=draws)}


def sparse_client() -> ClientApp:
    """Sends the same fiftieth of its entries every round."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = int(context.node_config["partition-id"])
        content = RecordDict({"metrics": MetricRecord({"num-examples": client + 1})})
        put(content, compress(SPARSE, update_of(client))[0].payload)
        return Message(content, reply_to=message)

    answer_partition(app)
    return app


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("down", [None, NONZERO], ids=["raw", "nonzero"])
def test_entries_that_nobody_sent_stay_as_they_were(inner: str, down: Any) -> None:
    sent = torch.zeros(SIZE, dtype=torch.bool)
    for client in range(CLIENTS):
        payload = compress(SPARSE, update_of(client))[0].payload
        sent |= decompress(SPARSE, payload, {"w": torch.zeros(SIZE)})["w"] != 0
    start = torch.randn(SIZE, generator=torch.Generator().manual_seed(99))
    strategy = Compressed(INNER[inner](fraction_evaluate=0.0), SPARSE, down, clients=CLIENTS)
    grid, arrays = grid_of(sparse_client(), CLIENTS), ArrayRecord({"w": Array(start.numpy())})
    for number in (1, 2, 3):
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        arrays, _ = strategy.aggregate_train(number, grid.send_and_receive(messages))
    after = strategy.channel.weights["w"]
    assert 0 < int(sent.sum()) < SIZE // 5
    assert torch.equal(after[~sent], start[~sent])
    assert bool((after[sent] != start[sent]).all())
    if down is not None:  # and nobody pays for them
        count = int(compress(NONZERO, {"w": after - start})[0].sent["w"].count)
        assert count == int(sent.sum())
