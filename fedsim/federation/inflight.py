"""Exchanges in flight between server and client: messages, their bits, and both in a checkpoint."""

import math
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

from flwr.app import Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from fedsim.engines import compat
from fedsim.federation import ledger
from fedsim.ground.records import DROPPED
from fedsim.network.clock import Clock, Exchange
from strategies import RoundTraffic
from strategies.channel.framing import Travel, of_reply
from strategies.channel.payload import payload_bits

_TRAIN = "train"
_ids = count(1)


def reply_of(values: dict[str, Any]) -> tuple[Message, Message]:
    """A message of before, whose content is gone, and the reply to it."""
    message = Message(RecordDict(), values["node"], _TRAIN)
    compat.name(message, f"before-{next(_ids)}")
    if "error" in values:
        code, reason = values["error"]
        return message, Message(Error(code, reason), reply_to=message)
    return message, Message(compat.from_bytes(values["content"]), reply_to=message)


def drop_error(request: Message, leaves: str) -> Message:
    """What the server gets in place of a reply where the client drops out, and when it did."""
    return Message(Error(ErrorCode.NODE_UNAVAILABLE, DROPPED[leaves]), reply_to=request)


@dataclass(eq=False)
class InFlight(Exchange):
    """An exchange on the clock with its request and, once that is worked out, its reply."""

    iterations: int = 0  # that the client does
    fraction: float = 1.0  # p, where a controller orders it
    leaves: str = ""  # when the client drops out
    silent: bool = False  # it has dropped out, and the server may not know yet
    overdue: bool = False  # another was asked in its place, because it had not answered in time
    request: Message | None = None  # None where it is no longer needed
    reply: Message | None = None  # None where it is not known yet, or never arrives

    def values(self) -> dict[str, Any]:
        """As a checkpoint can hold it: the reply, or the request that has none yet."""
        record: dict[str, Any] = {"exchange": [getattr(self, name) for name in _NUMBERS]}
        if (reply := self.reply) is not None:
            answer = (
                {"error": [reply.error.code, reply.error.reason]}
                if reply.has_error()
                else {"content": compat.to_bytes(reply.content)}
            )
            record["reply"] = {"node": reply.metadata.src_node_id} | answer
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


_NUMBERS = tuple(f.name for f in fields(InFlight) if f.name not in ("request", "reply", "ready_at"))
"""Numbers of an exchange that a checkpoint has; ``ready_at`` is over when a round ends."""


_NEVER = math.inf


def restore(clock: Clock[InFlight], under_way: Mapping[str, Any]) -> None:
    """Goes on with what 0.1.0 kept: times that lay ahead were forecasts, and bits what was left.

    ``clock`` is at the time of then, and ``under_way`` is what the checkpoint had by that name.
    """
    for work in under_way["works"]:
        times = {name: _NEVER if x is None else x for name, x in work.items()}
        _go_on(clock, times)
    for late in under_way["late"]:
        exchange = clock.exchanges.get(late["client"])
        if exchange is None or exchange.number != late["round"]:  # it has come by now
            then = dict.fromkeys(("received_at", "trained_at", "ended_at"), late["arrived"])
            exchange = InFlight(late["client"], late["round"], **then)
            clock.exchanges[exchange.client] = exchange
        content = b64decode(late["content"])
        exchange.request, exchange.reply = reply_of({"node": late["node"], "content": content})


def _go_on(clock: Clock[InFlight], work: Mapping[str, Any]) -> None:
    """Enters what comes next for one client."""
    now, client, number = clock.now, work["client"], work["round"]
    exchange = InFlight(
        client,
        number,
        compute_seconds=work["seconds"],
        up_bits=work["up_bits"],
        until=work["until"],
        sent_at=work["asked"],
    )
    clock.exchanges[client] = exchange
    if work["down_end"] > now:
        clock.transfer("down", exchange, work["down_bits"], "downloaded")
        return
    if work["received"] > now:
        clock.agenda.at(work["received"], "received", client, number)
        return
    exchange.received_at = work["received"]
    if work["trained"] > now:
        clock.agenda.at(work["trained"], "trained", client, number)
        return
    exchange.trained_at = work["trained"]
    if work["up_end"] > now:
        clock.transfer("up", exchange, work["up_bits"], "uploaded")
    else:
        clock.agenda.at(work["arrived"], "arrived", client, number)


def bits_down(traffic: RoundTraffic, client: int, framing: bool) -> int:
    """The bits of the message to a client, which was sent nothing else in ``traffic``.

    ``framing``: whether the whole message counts, or its payload alone.
    """
    down = traffic.downlinks[client]
    if not framing:
        return ledger.charged_bits(down)
    return 8 * traffic.wire.requests[client].down - ledger.free_bits(down)


def bits_back(traffic: RoundTraffic, client: int, reply: Message, framing: bool) -> Travel:
    """The bits of a client's reply, up, and of what is sent down to it in answer.

    Up is the call for the message, too, which is booked with the message (``bits_down``).
    """
    if not framing:
        return Travel(0, payload_bits(reply))
    back = of_reply(reply)
    return Travel(8 * back.down, 8 * (back.up + traffic.wire.requests[client].up))
