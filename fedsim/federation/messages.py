"""Messages that wait on the simulated clock, as JSON can hold them."""

from base64 import b64decode, b64encode
from itertools import count
from typing import Any

from flwr.app import Error, Message, RecordDict

from fedsim.engines import compat

_TRAIN = "train"
_ids = count(1)


def content_text(content: RecordDict) -> str:
    """A message's content."""
    return b64encode(compat.to_bytes(content)).decode()


def content_of(text: str) -> RecordDict:
    """The way back from ``content_text``."""
    return compat.from_bytes(b64decode(text))


def reply_values(reply: Message) -> dict[str, Any]:
    """A reply: its node, and its content or its error."""
    node = {"node": reply.metadata.src_node_id}
    if reply.has_error():
        return node | {"error": [reply.error.code, reply.error.reason]}
    return node | {"content": content_text(reply.content)}


def reply_of(values: dict[str, Any]) -> tuple[Message, Message]:
    """A message of before, whose content is gone, and the reply to it."""
    message = Message(RecordDict(), values["node"], _TRAIN)
    compat.name(message, f"before-{next(_ids)}")
    if "error" in values:
        code, why = values["error"]
        return message, Message(Error(code, why), reply_to=message)
    return message, Message(content_of(values["content"]), reply_to=message)
