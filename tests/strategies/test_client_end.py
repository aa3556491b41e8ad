"""The client's end of the channel: from a message to the model, from an update to the reply."""

from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict

from compressors import Raw, State, UpdateError, decompress, gradient_dropping, parse
from strategies import ClientEnd, ServerEnd
from strategies.channel import client_end
from strategies.channel.acknowledge import APPLIED, read_varint, take_ack, write_applied
from strategies.channel.buffers import answered
from strategies.channel.client_end import one_by_one
from strategies.channel.payload import get
from tests.support.linear import tensor, vector

HALF = gradient_dropping(0.5)
ZERO = tensor(0.0, 0.0)
WAITING = {"pending/round", "pending/channel"}
MEAN = {"mean": torch.tensor([1.0, 2.0])}


def round_of(
    server: ServerEnd, client: ClientEnd, number: int, memory: State | None, update: Any
) -> tuple[list[float], State]:
    """One round of client 0 that has trained ``update``: the model it was sent, its memory."""
    server.begin(number, [0])
    delivery = client.decode(server.content(0, ConfigRecord()), memory)
    packet, memory = one_by_one(client.encode(0, update, delivery))
    content = RecordDict()
    client.reply(content, packet, delivery, answered(delivery.settings, MEAN, client.buffers))
    asked = Message(RecordDict(), dst_node_id=1, message_type="train")
    server.take(0, Message(content, reply_to=asked))
    server.advance(server.finish()[0].update)
    return vector(delivery.weights), memory


def test_a_client_that_is_sent_models_keeps_none() -> None:
    server, client = ServerEnd(Raw(), Raw(), ZERO), ClientEnd(Raw(), Raw(), ZERO)
    _, memory = round_of(server, client, 1, None, tensor(4.0, 1.0))
    assert set(memory) == WAITING  # nothing could take the update back
    seen, _ = round_of(server, client, 2, memory, tensor(0.0, 1.0))
    assert seen == [4.0, 1.0]


def test_a_failed_message_changes_no_memory() -> None:
    server, client = ServerEnd(HALF, HALF, ZERO), ClientEnd(HALF, HALF, ZERO)
    _, memory = round_of(server, client, 1, None, tensor(4.0, 1.0))
    before = {name: x.clone() for name, x in memory.items()}
    server.begin(2, [0])
    delivery = client.decode(server.content(0, ConfigRecord()), memory)
    with pytest.raises(UpdateError, match="'w'"):
        one_by_one(client.encode(0, tensor(torch.nan, 1.0), delivery))
    assert all(torch.equal(x, memory[name]) for name, x in before.items())


def test_the_first_message_is_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bool] = []
    monkeypatch.setattr(client_end, "check_decoded", lambda *_: looked.append(True))
    server, client = ServerEnd(Raw(), Raw(), ZERO), ClientEnd(Raw(), Raw(), ZERO)
    memory: State | None = None
    for number in (1, 2, 3):  # with an empty memory, too: it has one
        _, memory = round_of(server, client, number, memory, tensor(1.0, 1.0))
    assert looked == [True]


def test_what_is_sent_follows_from_seed_client_and_round() -> None:
    method = parse("randk(0.5) | float32")
    server, large = ServerEnd(method, Raw(), {"w": torch.zeros(64)}), {"w": torch.ones(64)}
    payloads = set()
    for seed, client, number in ((0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 1), (0, 0, 1)):
        end = ClientEnd(method, Raw(), large, seed=seed)
        server.begin(number, [client])
        delivery = end.decode(server.content(client, ConfigRecord()), None)
        packet, _ = one_by_one(end.encode(client, large, delivery))
        content = RecordDict()
        end.reply(content, packet, delivery, {})
        assert decompress(method, get(content)[0], large)["w"].count_nonzero() == 32
        payloads.add(packet.payload)
    assert len(payloads) == 4


def test_the_news_of_an_uplink_is_one_number() -> None:
    furthest = 2**62
    assert read_varint(write_applied(furthest + 1, 1))[0] == furthest
    with pytest.raises(ValueError, match="cut, or has more than 9 bytes"):
        take_ack(Raw(), {"round": 1, APPLIED: b"\xff" * 199_999 + b"\x01"}, {}, {})
