"""Messages that wait on the simulated clock, as a checkpoint can hold them."""

from itertools import count
from typing import Any

from flwr.app import Error, Message, RecordDict

from fedsim.engines import compat

_TRAIN = "train"
_ids = count(1)


def reply_values(reply: Message) -> dict[str, Any]:
    """A reply: its node, and the bytes of its content, or its error."""
    node = {"node": reply.metadata.src_node_id}
    if reply.has_error():
        return node | {"error": [reply.error.code, reply.error.reason]}
    return node | {"content": compat.to_bytes(reply.content)}


def reply_of(values: dict[str, Any]) -> tuple[Message, Message]:
    """A message of before, whose content is gone, and the reply to it."""
    message = Message(RecordDict(), values["node"], _TRAIN)
    compat.name(message, f"before-{next(_ids)}")
    if "error" in values:
        code, reason = values["error"]
        return message, Message(Error(code, reason), reply_to=message)
    return message, Message(compat.from_bytes(values["content"]), reply_to=message)
