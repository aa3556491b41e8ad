"""Everything private of Flower that fedsim touches, in one place (flwr 1.41 and 1.42)."""

import copy
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Any

from flwr.app import Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Encoded
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

_LOOK_SECONDS = 0.01
_MOST_THREADS = 1 << 20


def identify(run_id: int = 1) -> None:
    """Gives this process the identity without which no ``Message`` can be made."""
    TaskIdentity.run_id = run_id
    TaskIdentity.task_id = 1
    TaskIdentity.node_id = 1


def name(message: Message, message_id: str) -> None:
    """Gives a message the id that a reply to it refers to, as Flower's grids do when they send."""
    message.metadata.__dict__["_message_id"] = message_id


def leaving(message: Message, node: int, content: RecordDict) -> Message:
    """A message to another node and with another content; that which is given stays as it is."""
    other = copy.copy(message)
    other.__dict__["_metadata"] = copy.copy(message.metadata)
    other.metadata.dst_node_id, other.content = node, content
    return other


def come_from(reply: Message, node: int) -> None:
    """Makes a reply one of this node."""
    reply.metadata.__dict__["_src_node_id"] = node


def to_bytes(content: RecordDict) -> bytes:
    """A message's content as Flower sends it."""
    data: bytes = recorddict_to_proto(content).SerializeToString()
    return data


def from_bytes(data: bytes) -> RecordDict:
    """The way back from ``to_bytes``."""
    return recorddict_from_proto(Encoded.FromString(data))


def run_of(run_id: int) -> Any:
    """A Flower ``Run`` that has only a number."""
    from flwr.supercore.run import Run

    return Run.create_empty(run_id)


@contextmanager
def simulate_with(pool: Callable[..., Any]) -> Iterator[None]:
    """Inside, Flower's simulation has workers of ``pool``, and gives them messages without a pause.

    It would look for messages ten times a second, a node at a time, and have four threads more than
    this machine has cores to wait for replies, 32 at most, however many workers there are.
    """
    from flwr.server.superlink.fleet.vce import vce_api
    from flwr.server.superlink.fleet.vce.backend import raybackend

    def hand_out(state: Any, waiting: Any, nodes: Iterable[int], stop: Event) -> None:
        while not stop.wait(_LOOK_SECONDS):
            for node in nodes:
                for message in state.get_message_ins(node_id=node, limit=None):
                    waiting.put(message)

    threads = partial(ThreadPoolExecutor, _MOST_THREADS)
    with (
        _standing_in(vce_api, "add_messages_to_queue", hand_out),
        _standing_in(vce_api, "ThreadPoolExecutor", threads),
        _standing_in(raybackend, "BasicActorPool", pool),
    ):
        yield


@contextmanager
def _standing_in(module: Any, name: str, own: Any) -> Iterator[None]:
    theirs = vars(module)[name]
    vars(module)[name] = own
    try:
        yield
    finally:
        vars(module)[name] = theirs


def look_often(grid: Grid) -> None:
    """The grid of Flower's simulation sees replies soon after they came."""
    grid.pull_interval = _LOOK_SECONDS  # type: ignore[attr-defined]
