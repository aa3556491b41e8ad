"""Payloads of more than 4 MB travel in pieces that Flower cuts; smaller ones stay in one record."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from compressors import Raw
from strategies import Compressed, TooFewReplies, answer_partition, client_mod
from strategies.channel.framing import to_client, to_server
from strategies.channel.payload import CHUNKED, KEY, LARGE, get, payload_bits, put
from tests.support.byflower import by_flower, payload
from tests.support.linear import grid_of

ENTRIES = 1_200_000  # 4.8 MB as float32
CHUNK = 5 * 2**20


def message_of(*parts: bytes) -> Message:
    content = RecordDict()
    for part in parts:
        put(content, part, kind="update", round=3)
    return Message(content, dst_node_id=1, message_type="train")


def travelled(message: Message) -> tuple[Message, list[int]]:
    """What arrives of a message that Flower serializes, and the sizes of its pieces."""
    pieces = {name: one.deflate() for name, one in get_all_nested_objects(message).items()}
    sizes = [len(piece) for piece in pieces.values()]
    whole = inflate_object_from_contents(message.object_id, pieces)
    assert isinstance(whole, Message)
    return whole, sizes


@pytest.mark.parametrize("length", [0, 1, LARGE, LARGE + 1, 2 * CHUNK, 2 * CHUNK + 1])
def test_what_is_put_arrives(length: int) -> None:
    sent = payload(length)
    message = message_of(sent)
    assert ([*message.content] == [KEY]) == (length <= LARGE)
    arrived, sizes = travelled(message)
    got, beside = get(arrived.content)
    assert got == sent and beside["round"] == 3 and payload_bits(arrived) == 8 * length
    assert max(sizes) < CHUNK + 100
    assert to_client(message.content) == by_flower(message.content, False)
    assert to_server(message.content) == by_flower(message.content, True)


def test_a_large_payload_is_not_taken_for_numbers() -> None:
    array = message_of(bytes(LARGE + 1)).content.array_records[CHUNKED]["payload"]
    with pytest.raises(TypeError, match="fedsim.bytes"):
        array.numpy()


def model(value: float) -> ArrayRecord:
    return ArrayRecord({"w": Array(np.full(ENTRIES, value, np.float32))})


def app(mods: list) -> ClientApp:
    made = ClientApp()
    answer_partition(made)

    @made.train(mods=mods)
    def train(message: Message, context: Context) -> Message:
        assert [*message.content] == ["arrays", "config"]
        w = message.content.array_records["arrays"]["w"].numpy()
        trained = ArrayRecord({"w": Array(w + 1)})
        content = {"arrays": trained, "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    return made


def test_a_large_model_through_strategy_and_mod() -> None:
    strategy = Compressed(FedAvg(fraction_evaluate=0.0), Raw(), clients=2)
    grid = grid_of(app([client_mod(Raw(), Raw(), model(0.0))]), 2)
    after = strategy.start(grid, model(1.0), num_rounds=2).arrays["w"].numpy()
    assert np.array_equal(after, np.full(ENTRIES, 3.0))


def test_a_mod_before_ours_cannot_take_a_large_payload_for_a_model() -> None:
    local = LocalDpMod(1.0, 0.0, 1.0, 1e-5)
    strategy = Compressed(FedAvg(fraction_evaluate=0.0), Raw(), clients=2)
    grid = grid_of(app([local, client_mod(Raw(), Raw(), model(0.0))]), 2)
    with pytest.raises(TooFewReplies, match="Unsupported serialization type"):
        strategy.start(grid, model(1.0), num_rounds=1)
