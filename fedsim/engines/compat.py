"""Everything private of Flower that fedsim touches, in one place (flwr 1.41 and 1.42)."""

from typing import Any

from flwr.app import Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Encoded
from flwr.supercore.task_identity import TaskIdentity


def identify(run_id: int = 1) -> None:
    """Gives this process the identity without which no ``Message`` can be made."""
    TaskIdentity.run_id = run_id
    TaskIdentity.task_id = 1
    TaskIdentity.node_id = 1


def name(message: Message, message_id: str) -> None:
    """Gives a message the id that a reply to it refers to, as Flower's grids do when they send."""
    message.metadata.__dict__["_message_id"] = message_id


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


def end_actors_once() -> None:
    """Flower's actors that are told to end are told once.

    Ray does a message again whose actor is gone, and an actor that ended would count as gone: Ray
    would print to standard output that it asks again.
    """
    from flwr.simulation.ray_transport.ray_actor import ClientAppActor

    actors: Any = ClientAppActor
    actors.__ray_metadata__.method_meta.max_task_retries["terminate"] = 0
