"""Everything private of Flower that fedsim touches, in one place (flwr 1.41)."""

from typing import Any

from flwr.app import Message, MetricRecord, RecordDict
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


def metrics_of(values: dict[str, int | float | list[int]]) -> MetricRecord:
    """A record of numbers, whose types Flower does not check one by one."""
    record = MetricRecord()
    record.__dict__["_data"].update(values)
    return record


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
