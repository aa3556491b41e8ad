"""What is computed of a message's bytes is what Flower would send."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.app.message.message import make_message, remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.common.serde import message_to_proto
from flwr.proto import fleet_pb2, node_pb2
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

from strategies.channel import framing
from strategies.channel.framing import Travel, to_client, to_server

LARGE = 2**64 - 1  # an id of ten bytes: random ids have nine or ten


def message(content: RecordDict | Error, reply: bool, kind: str = "train") -> Message:
    metadata = Metadata(
        run_id=LARGE, message_id="", src_node_id=LARGE if reply else 1,
        dst_node_id=1 if reply else LARGE, reply_to_message_id=64 * "a" if reply else "",
        group_id="", created_at=1.5e9, ttl=43200.0, message_type=kind,
        src_task_id=None if reply else LARGE, dst_task_id=LARGE if reply else None,
    )  # fmt: skip
    made = make_message(metadata, **{"error" if isinstance(content, Error) else "content": content})
    made.metadata.__dict__["_message_id"] = made.object_id
    return made


def by_flower(content: RecordDict | Error, reply: bool, kind: str = "train") -> Travel:
    """Serialized by Flower, and measured as its SuperLink measures."""
    whole = message(content, reply, kind)
    objects = {name: one.deflate() for name, one in get_all_nested_objects(whole).items()}
    pushed, tree = sum(map(len, objects.values())), get_object_tree(whole)
    described = message_to_proto(remove_content_from_message(whole))
    node = node_pb2.Node(node_id=LARGE)
    if not reply:
        told = fleet_pb2.PullMessagesResponse(
            messages_list=[described], message_object_trees=[tree]
        )
        asked = fleet_pb2.PullMessagesRequest(node=node)
        return Travel(told.ByteSize() + pushed, asked.ByteSize())
    told = fleet_pb2.PushMessagesRequest(
        node=node, messages_list=[described], message_object_trees=[tree],
        clientapp_runtime_list=[1.5],
    )  # fmt: skip
    wanted = fleet_pb2.PushMessagesResponse(
        reconnect=fleet_pb2.Reconnect(reconnect=5), results={whole.metadata.message_id: 0},
        objects_to_push=[*objects], session_id="01234567-89ab-cdef-0123-456789abcdef",
    )  # fmt: skip
    return Travel(wanted.ByteSize(), told.ByteSize() + pushed)


def payload(length: int) -> bytes:
    return np.random.default_rng(length).bytes(length)


EVERYTHING = {
    "yes": True, "no": False, "zero": 0, "count": 300, "below": -70000, "rate": 0.5, "none": 0.0,
    "text": "änderung", "empty": "", "bytes": b"abc", "floats": [1.0, 2.0], "counts": [1, -500, 0],
    "flags": [True, False], "texts": ["a", "bc"], "parts": [b"a", b""],
}  # fmt: skip
ARRAYS = ArrayRecord(
    {"w": Array(np.arange(6.0).reshape(2, 3)), "b": Array(np.zeros(3)), "c": Array(np.zeros(3))}
)
CONTENTS = {
    "nothing": RecordDict(),
    "payload": RecordDict({"fedsim": ConfigRecord({"payload": payload(100), "round": 200})}),
    "everything": RecordDict({"fedsim": ConfigRecord(dict(EVERYTHING)), "ü": ConfigRecord()}),
    "metrics": RecordDict({"metrics": MetricRecord({"n": 3, "loss": 0.5, "sent": [1, 2, 900]})}),
    "arrays": RecordDict({"arrays": ARRAYS, "config": ConfigRecord({"lr": 0.1})}),
    "chunks": RecordDict({"arrays": ArrayRecord({"w": Array(np.ones(1_500_000))})}),
}


@pytest.mark.parametrize("kind", ["train", "evaluate"])
@pytest.mark.parametrize("name", CONTENTS)
def test_computed_is_measured(name: str, kind: str) -> None:
    content = CONTENTS[name]
    assert to_client(content, kind) == by_flower(content, False, kind)
    assert to_server(content, kind) == by_flower(content, True, kind)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 10**7])
def test_every_length_of_a_payload(length: int) -> None:
    content = RecordDict({"fedsim": ConfigRecord({"payload": payload(length), "kind": "update"})})
    assert to_client(content) == by_flower(content, False)
    assert to_server(content) == by_flower(content, True)


@pytest.mark.parametrize("reason", ["", "out of order", 300 * "ö"])
def test_a_failure_travels_too(reason: str) -> None:
    error = Error(code=2, reason=reason)
    assert to_server(error) == by_flower(error, True)


def test_the_size_of_a_chunk_is_flowers() -> None:
    from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE

    assert framing._CHUNK == FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE
