"""A message's bytes as Flower serializes them and its SuperLink measures them."""

import numpy as np
from flwr.app import Error, Message, RecordDict
from flwr.app.message.message import make_message, remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.common.serde import message_to_proto
from flwr.proto import fleet_pb2, node_pb2
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

from strategies.channel.framing import Travel

LARGE = 2**64 - 1  # an id of ten bytes: random ids have nine or ten


def message(content: RecordDict | Error, reply: bool, kind: str = "train") -> Message:
    """A message whose ids have ten bytes."""
    metadata = Metadata(
        run_id=LARGE,
        message_id="",
        src_node_id=LARGE if reply else 1,
        dst_node_id=1 if reply else LARGE,
        reply_to_message_id=64 * "a" if reply else "",
        group_id="",
        created_at=1.5e9,
        ttl=43200.0,
        message_type=kind,
        src_task_id=None if reply else LARGE,
        dst_task_id=LARGE if reply else None,
    )
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
        node=node,
        messages_list=[described],
        message_object_trees=[tree],
        clientapp_runtime_list=[1.5],
    )
    wanted = fleet_pb2.PushMessagesResponse(
        reconnect=fleet_pb2.Reconnect(reconnect=5),
        results={whole.metadata.message_id: 0},
        objects_to_push=[*objects],
        session_id="01234567-89ab-cdef-0123-456789abcdef",
    )
    return Travel(wanted.ByteSize(), told.ByteSize() + pushed)


def payload(length: int) -> bytes:
    """So many random bytes."""
    return np.random.default_rng(length).bytes(length)
