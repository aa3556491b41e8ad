"""Tied weights in somebody else's app: two names of one tensor travel once, and stay equal."""

from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

from compressors import Raw, parse
from fedsim.engines.local import LocalGrid
from strategies import Compressed, answer_partition, client_mod

OWN = 12 * 5 + 5 * 5 + 5
"""Entries of ``tied()``; its ``state_dict`` has 12 * 5 more."""


def tied() -> nn.Module:
    """An embedding whose weights are those of the layer after it."""
    torch.manual_seed(0)
    net = nn.ModuleDict(
        {"a": nn.Embedding(12, 5), "b": nn.Linear(5, 5), "c": nn.Linear(5, 12, bias=False)}
    )
    net["c"].weight = net["a"].weight
    return net


def copies() -> nn.Module:
    """Copies of a layer, which begin equal and are trained apart."""
    net = tied()
    net["c"] = nn.Linear(5, 12, bias=False)
    net["c"].weight = nn.Parameter(net["a"].weight.detach().clone())
    return net


def initial(model: Any) -> ArrayRecord:
    return ArrayRecord(model().state_dict())


def app_of(model: Any, uplink: Any, downlink: Any) -> ClientApp:
    app = ClientApp(mods=[client_mod(uplink, downlink, initial(model))])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        net = model()
        net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        x = torch.arange(12)
        loss = nn.functional.cross_entropy(net["c"](net["b"](net["a"](x)).tanh()), (x * 7 + 3) % 12)
        loss.backward()
        optimizer.step()
        content = {"arrays": ArrayRecord(net.state_dict())}
        return Message(
            RecordDict(content | {"metrics": MetricRecord({"num-examples": 4})}), reply_to=message
        )

    answer_partition(app)
    return app


def strategy_of(uplink: Any, downlink: Any) -> Compressed:
    inside = FedAvg(fraction_evaluate=0, min_train_nodes=2, min_available_nodes=2)
    return Compressed(inside, uplink, downlink, clients=2)


def bits(strategy: Compressed) -> tuple[int, int]:
    """Of one message up and of one down."""
    assert strategy.channel is not None
    traffic = strategy.channel.traffic
    up, down = traffic.uplinks.values(), traffic.downlinks.values()
    return 8 * len(next(iter(up)).payload), 8 * len(next(iter(down)).payload)


@pytest.mark.parametrize("downlink", ["raw", "terngrad", "sbc(0.2)"])
@pytest.mark.parametrize("uplink", ["raw", "terngrad", "sbc(0.2)", "powersgd(1)"])
def test_two_names_of_one_tensor_stay_equal(uplink: str, downlink: str) -> None:
    up, down = parse(uplink), parse(downlink)
    strategy, grid = strategy_of(up, down), LocalGrid(app_of(tied, up, down), 2)
    arrays = strategy.start(grid, initial(tied), num_rounds=5).arrays.to_torch_state_dict()
    assert torch.equal(arrays["a.weight"], arrays["c.weight"])
    assert not torch.equal(arrays["a.weight"], tied()["a"].weight)  # and were trained
    sent = bits(strategy)
    for method, found in ((uplink, sent[0]), (downlink, sent[1])):
        if method == "raw":  # 24 of header, and a byte which says what is equal
            assert found == 24 + 8 + 32 * OWN


@pytest.mark.parametrize("downlink", ["raw", "sbc(0.2)"])
def test_copies_are_tensors_of_their_own(downlink: str) -> None:
    up, down = Raw(), parse(downlink)
    strategy, grid = strategy_of(up, down), LocalGrid(app_of(copies, up, down), 2)
    arrays = strategy.start(grid, initial(copies), num_rounds=3).arrays.to_torch_state_dict()
    assert not torch.equal(arrays["a.weight"], arrays["c.weight"])
    assert bits(strategy)[0] == 24 + 8 + 32 * (OWN + 12 * 5)


def test_a_restored_strategy_goes_on_with_the_same_arrays() -> None:
    """Clients live on; the messages are those of a strategy that was never stopped."""
    found = []
    for stops in (False, True):
        up = down = parse("sbc(0.2)")
        app, arrays, payloads = app_of(copies, up, down), initial(copies), []
        strategy, grid = strategy_of(up, down), LocalGrid(app, 2)
        for number in range(1, 5):
            if stops and number == 3:
                saved, strategy = strategy.state(), strategy_of(up, down)
                strategy.restore(*saved)
            asked = list(strategy.configure_train(number, arrays, ConfigRecord(), grid))
            record, _ = strategy.aggregate_train(number, grid.send_and_receive(asked))
            assert record is not None and strategy.channel is not None
            arrays = record
            payloads.append([up.payload for up in strategy.channel.traffic.uplinks.values()])
        found.append((payloads, {n: a.numpy().tolist() for n, a in arrays.items()}))
    assert found[0] == found[1]
