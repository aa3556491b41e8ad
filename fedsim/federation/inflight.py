"""Exchanges in flight between server and client, with their messages, as a checkpoint has them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from flwr.app import Message

from fedsim.engines import compat
from fedsim.federation.messages import reply_of, reply_values
from fedsim.network.clock import Exchange


@dataclass(eq=False)
class InFlight(Exchange):
    """An exchange on the clock with its request and, once that is worked out, its reply.

    Args:
        iterations: that the client does.
        fraction: p, where a controller orders it.
        leaves: when the client drops out.
        silent: it has dropped out, and the server may not know yet.
        overdue: another was asked in its place, because it had not answered in time.
        request: None where it is no longer needed.
        reply: None where it is not known yet, or never arrives.
    """

    iterations: int = 0
    fraction: float = 1.0
    leaves: str = ""
    silent: bool = False
    overdue: bool = False
    request: Message | None = None
    reply: Message | None = None

    def values(self) -> dict[str, Any]:
        """As a checkpoint can hold it: the reply, or the request that has none yet."""
        record: dict[str, Any] = {"exchange": [getattr(self, name) for name in _NUMBERS]}
        if self.reply is not None:
            record["reply"] = reply_values(self.reply)
        elif self.request is not None:
            record["request"] = compat.to_bytes(self.request.content)
        return record

    @classmethod
    def of(cls, values: Mapping[str, Any], nodes: Mapping[int, int]) -> "InFlight":
        """The way back from ``values``; ``nodes``: where each client is now."""
        job = cls(**dict(zip(_NUMBERS, values["exchange"], strict=True)))
        if "reply" in values:
            job.request, job.reply = reply_of(values["reply"])
        elif "request" in values:
            content = compat.from_bytes(values["request"])
            job.request = Message(content, nodes[job.client], "train")
        return job


_NUMBERS = tuple(
    f.name for f in fields(InFlight) if f.name not in ("request", "reply", "ready_at")
)
"""Numbers of an exchange that a checkpoint has; ``ready_at`` is over when a round ends."""
