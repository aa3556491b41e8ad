"""Arrays that nobody trains, in somebody else's app: in the model, and in no message."""

from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

from compressors import Raw, parse
from fedsim.engines.local import LocalGrid
from strategies import Compressed, DelayedDSGD, answer_partition, client_mod

FROZEN = ("0.weight", "0.bias")  # 24 entries; 8 + 1 are trained


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.Linear(8, 1))


def initial() -> ArrayRecord:
    return ArrayRecord(model().state_dict())


def train(message: Message, context: Context, trained: tuple[str, ...] = ("1.",)) -> Message:
    """One step of what begins with one of ``trained``, and all arrays back."""
    net = model()
    net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    own = [p for name, p in net.named_parameters() if name.startswith(trained)]
    optimizer = torch.optim.SGD(own, lr=0.1)
    (net(torch.ones(4, 2)) - 1).square().mean().backward()
    optimizer.step()
    content = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"loss": 1.0})}
    return Message(
        RecordDict(content | {"metrics": MetricRecord({"num-examples": 4})}), reply_to=message
    )


def rounds(strategy: Any, downlink: Any, how: Any = train) -> Any:
    """Two rounds with two clients: the model, and every round's trip."""
    app = ClientApp(mods=[client_mod(Raw(), downlink, initial(), frozen=FROZEN)])
    app.train()(how)
    answer_partition(app)
    grid, arrays, messages = LocalGrid(app, 2), initial(), []
    for number in (1, 2):
        asked = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        arrays, _ = strategy.aggregate_train(number, grid.send_and_receive(asked))
        messages.append(strategy.channel.traffic)
    return arrays, messages


@pytest.mark.parametrize("downlink", ["raw", "cnat"])
@pytest.mark.parametrize("wrapped", [True, False], ids=["Compressed", "DelayedDSGD"])
def test_frozen_arrays_are_in_the_model_and_in_no_message(wrapped: bool, downlink: str) -> None:
    inside = FedAvg(fraction_evaluate=0, min_train_nodes=2, min_available_nodes=2)
    down: Any = parse(downlink)
    common: dict[str, Any] = {"clients": 2, "frozen": FROZEN}
    strategy = (
        Compressed(inside, Raw(), down, **common) if wrapped else DelayedDSGD(Raw(), down, **common)
    )
    arrays, messages = rounds(strategy, down)
    for traffic in messages:
        assert [8 * len(up.payload) for up in traffic.uplinks.values()] == [32 * 9 + 24] * 2
        assert all(8 * len(d.payload) <= 32 * 9 + 24 for d in traffic.downlinks.values())
    found, first = arrays.to_torch_state_dict(), model().state_dict()
    assert list(found) == list(first)
    assert all(torch.equal(found[name], first[name]) for name in FROZEN)
    assert not torch.equal(found["1.weight"], first["1.weight"])


def test_what_is_trained_all_the_same_is_told() -> None:
    strategy = DelayedDSGD(Raw(), clients=2, frozen=FROZEN, required=0)
    rounds(strategy, Raw(), lambda message, context: train(message, context, ("0.", "1.")))
    assert "the app trained 0.weight, which is frozen" in str(strategy.channel.traffic.failures)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="frozen names head: the model has no such array"):
        client_mod(Raw(), Raw(), initial(), frozen=["head"])
    strategy = DelayedDSGD(Raw(), clients=2, frozen=["head"])
    with pytest.raises(ValueError, match="frozen names head: the model has no such array"):
        rounds(strategy, Raw())
