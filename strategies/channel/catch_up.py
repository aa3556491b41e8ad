"""The updates that a client missed, in one payload, which is sent if the model is longer.

A payload of several updates holds each after its length, in 7 bits per byte. Their number follows
from the versions in the message's settings: from the client's, as far as the server knows, to the
server's own. A client whose answer was lost holds a later one, and skips updates that it has.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from compressors import PayloadError
from strategies.channel.traffic import Downlink
from strategies.channel.varints import read_varint, varint


def join_updates(payloads: Sequence[bytes]) -> bytes:
    """Several payloads as one.

    Example:
        >>> joined = join_updates([b"ab", b"c"])
        >>> joined, split_updates(joined, 2)
        (b'\\x02ab\\x01c', [b'ab', b'c'])
    """
    return b"".join(varint(len(payload)) + payload for payload in payloads)


def split_updates(payload: bytes, count: int) -> list[bytes]:
    """The payloads that ``join_updates`` joined; ``PayloadError`` where they are not ``count``."""
    parts, place = list[bytes](), 0
    while place < len(payload):
        length, place = read_varint(payload, place)
        parts.append(payload[place : place + length])
        place += length
    if len(parts) != count or place != len(payload):
        raise PayloadError(f"{count} updates were missed and the message holds {len(parts)}")
    return parts


class Missed:
    """The server's last updates, as many as may be shorter together than the model.

    Args:
        weights: the model, whose size in float32 is the limit.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.limit = sum(4 * x.numel() for x in weights.values())
        self.updates: list[Downlink] = []

    def add(self, update: Downlink) -> None:
        """Keeps an update, and forgets the first ones where all are longer than the model."""
        self.updates.append(update)
        while sum(len(update.payload) for update in self.updates) > self.limit:
            self.updates.pop(0)

    def last(self, count: int) -> Downlink | None:
        """The last ``count`` updates as one message; None where they are not kept any more."""
        if not 0 < count <= len(self.updates):
            return None
        updates = self.updates[-count:]
        payload = join_updates([update.payload for update in updates])
        spans = {key: sum(update.spans[key] for update in updates) for key in updates[0].spans}
        spans["header"] += 8 * (len(payload) - sum(len(update.payload) for update in updates))
        return Downlink(payload, "updates", spans)

    def state(self) -> list[dict[str, Any]]:
        """The updates as JSON can hold them."""
        return [
            {"payload": b64encode(update.payload).decode(), "spans": update.spans}
            for update in self.updates
        ]  # fmt: skip

    def restore(self, values: list[dict[str, Any]]) -> None:
        """Goes on from what ``state`` returned."""
        self.updates = [
            Downlink(b64decode(update["payload"]), "update", update["spans"]) for update in values
        ]
