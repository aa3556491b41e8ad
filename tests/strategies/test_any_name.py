"""A tensor's name is any text, those too under which algorithms put tensors of their own."""

from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict
from torch import Tensor

from compressors import parse
from strategies.algorithms.scaffold import Scaffold
from strategies.channel import directions
from strategies.channel.client_end import ClientEnd, one_by_one
from strategies.channel.server_end import ServerEnd

PLAIN = ("v", "w")


NAMES = [
    PLAIN,
    ("w", "control/w"),
    ("control/w", "control_/w"),
    ("w", "direction/w"),
    ("weights/w", "base/w"),
    ("direction/w", "direction_/w"),
]


def model(names: tuple[str, ...], *values: float) -> dict[str, Tensor]:
    return {name: torch.tensor([x]) for name, x in zip(names, values, strict=True)}


@pytest.mark.parametrize("names", NAMES)
def test_control_variates_stand_beside_any_name(names: tuple[str, ...]) -> None:
    shared = Scaffold().client.payload_template(model(names, 1.0, 2.0))
    assert list(shared)[:2] == list(names) and len(shared) == 4
    assert [float(x) for x in shared.values()] == [1.0, 2.0, 0.0, 0.0]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("downlink", ["ef21(topk(0.5) | float32)", "sbc(0.5)", "raw"])
def test_a_direction_stands_beside_any_name(downlink: str, names: tuple[str, ...]) -> None:
    """Two rounds: what the client holds is what the server has, whatever the names are."""
    server = ServerEnd(parse("raw"), parse(downlink), model(names, 0.0, 0.0))
    client, memory = ClientEnd(parse("raw"), parse(downlink), model(names, 0.0, 0.0)), None
    for number in (1, 2, 3):
        server.begin(number, [0])
        content = server.content(0, ConfigRecord())
        came = client.decode(content, memory)
        assert all(torch.equal(came.weights[n], x) for n, x in server.weights.items())
        update = model(names, 2.0 * number, 1.0)
        packet, memory = one_by_one(client.encode(0, update, came))
        reply = RecordDict()
        client.reply(reply, packet, came, {})
        server.take(0, Message(reply, dst_node_id=0, message_type="train"))
        (up,) = server.finish().values()
        server.advance(up.update)
    assert not torch.equal(server.weights[names[0]], torch.zeros(1))


def test_a_model_has_no_direction_for_its_names() -> None:
    given: Any = model(("w", "direction/w"), 1.0, 5.0)
    after = directions.moved(given, model(("w", "direction/w"), 1.0, 1.0))
    assert [float(x) for x in after.values()] == [2.0, 6.0]
