"""A Flower app behind ``client_mod`` whose batches are dicts, read lazily by a ``DataLoader``."""

import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from torch import nn
from torch.utils.data import DataLoader, Subset

from compressors import parse, sbc
from strategies import Compressed, client_mod
from tests.support.encoders import Encoder, Sentences, padded
from tests.support.linear import client_of, grid_of

NODES, ROUNDS = 3, 6


def app_of(initial: ArrayRecord) -> ClientApp:
    """Nodes that train an encoder on every third sentence."""
    app = ClientApp(mods=[client_mod(sbc(0.01), parse("raw"), initial)])

    @app.train()
    def fit(message: Message, context: Context) -> Message:
        model = Encoder()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        part = Subset(Sentences(240, padded=False), range(client_of(context), 240, NODES))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for batch in DataLoader(part, batch_size=16, collate_fn=padded):
            target = batch.pop("labels")
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(**batch).logits, target)
            loss.backward()
            optimizer.step()
        metrics = MetricRecord({"num-examples": len(part), "loss": float(loss.detach())})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


def score(arrays: ArrayRecord) -> float:
    """The loss on sentences that no node has."""
    model = Encoder()
    model.load_state_dict(arrays.to_torch_state_dict())
    batch = padded([Sentences(500)[i] for i in range(240, 500)])
    target = batch.pop("labels")
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(**batch).logits, target))


@pytest.mark.slow
def test_an_encoder_learns_from_dict_batches_at_a_hundredth_of_the_entries() -> None:
    torch.manual_seed(0)
    initial = ArrayRecord(Encoder().state_dict())
    grid = grid_of(app_of(initial), NODES)
    strategy = Compressed(FedAvg(fraction_evaluate=0.0), sbc(0.01), parse("raw"))
    result = strategy.start(grid, initial, num_rounds=ROUNDS)
    assert score(result.arrays) < score(initial) - 0.05
    dense = sum(array.numpy().size for array in initial.values())
    uplinks = strategy.channel.traffic.uplinks.values()
    assert all(8 * len(uplink.payload) < 32 * dense / 50 for uplink in uplinks)
