"""The server's end where clients are asked one at a time, each from the model that it was sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from torch import Tensor

from compressors import Compressor, State
from compressors.whole.memory import nest, unnest
from strategies.channel.late import Count, Late
from strategies.channel.orders import Orders
from strategies.channel.server_end import ServerEnd, Side
from strategies.channel.stored import Stored
from strategies.channel.traffic import Downlink, RoundTraffic, Uplink
from strategies.channel.wire import Travel, Wire

OVERDUE = "its update came after the deadline"

_GONE = "the client does not hold the model that the server believes"


@dataclass(frozen=True)
class Asked:
    """A message that has no reply yet.

    ``weights``: the model that the client works from; ``version``: its number.
    """

    traffic: RoundTraffic
    version: int
    weights: Mapping[str, Tensor]


@dataclass(frozen=True)
class Arrival:
    """One reply, booked.

    ``staleness``: steps of the server's model since the client was sent its own; ``uplink``: None
    where the reply is not used, for which ``traffic`` has the reason.
    """

    client: int
    asked: Asked
    staleness: int
    uplink: Uplink | None

    @property
    def traffic(self) -> RoundTraffic:
        """What travelled: the message and its reply."""
        return self.asked.traffic


KINDS = (Arrival, Asked, RoundTraffic, Downlink, Uplink, Wire, Travel)
"""What a checkpoint holds of messages that have no reply yet."""


class AsynchronousEnd(ServerEnd):
    """A ``ServerEnd`` without rounds: every message is a round of its own.

    A message's number (``round``, on the wire) counts the messages to its client, 1, 2, ...; the
    acknowledgement and the seeds of random methods go by it. An update counts as applied when the
    server has taken it in: from then on nothing but the server decides when it moves the model.

    Args:
        uplink: how clients encode their updates.
        downlink: how the server encodes a change of its model.
        weights: the initial model, known to all.
        seed: for methods with random choices.
        max_norm: as ``ServerEnd``.
        sides: as ``ServerEnd``.

    Example:
        >>> import torch
        >>> from compressors import Raw
        >>> end = AsynchronousEnd(Raw(), Raw(), {"w": torch.zeros(2)})
        >>> _ = end.ask(3, ConfigRecord())
        >>> end.asked[3].version, end.asked[3].traffic.round
        (0, 1)
    """

    def __init__(
        self, uplink: Compressor, downlink: Compressor, weights: Mapping[str, Tensor],
        seed: int = 0, max_norm: float | None = None, sides: Sequence[Side] = (),
    ) -> None:  # fmt: skip
        super().__init__(uplink, downlink, weights, seed, sides, catch_up=True, max_norm=max_norm)
        self.asked: dict[int, Asked] = {}
        self._count: dict[int, int] = {}

    def ask(self, client: int, config: ConfigRecord) -> RecordDict:
        """The content of the next message to ``client``, who has answered all before it."""
        number = self._count[client] = self._count.get(client, 0) + 1
        traffic = self.begin(number, [client])
        content = self.content(client, config)
        self.asked[client] = Asked(traffic, self.version, self.weights)
        return content

    def arrive(self, client: int, reply: Message, late: Late | None = None) -> Arrival:
        """Books the reply of ``client`` to its last message.

        ``late``: what becomes of one that came after its deadline; None: it came in time. One that
        counts when it comes is like any other here.
        """
        asked = self.asked.pop(client)
        self.traffic = asked.traffic
        if late is None or isinstance(late, Count):
            self.take(client, reply)
        else:
            late.come(self, client, reply, in_round=True)
            asked.traffic.failures[client] = OVERDUE
        if asked.traffic.wishes:
            asked.traffic.wishes.clear()
            asked.traffic.failures[client] = _GONE
        uplink = asked.traffic.uplinks.get(client)
        if uplink is not None:
            self.base[client] = asked.version  # the model may have moved since
            self.applied[client] = asked.traffic.round
        return Arrival(client, asked, self.version - asked.version, uplink)

    def state(self) -> tuple[State, dict[str, Any]]:
        """See ``ServerEnd.state``; with the messages that have no reply yet."""
        tensors, values = super().state()
        stored = Stored(KINDS)
        asked = {client: _without_method(client, asked) for client, asked in self.asked.items()}
        values |= {"count": stored.pack(self._count), "asked": stored.pack(asked)}
        return tensors | nest("asked", stored.tensors), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """See ``ServerEnd.restore``."""
        super().restore(tensors, values)
        self._closed = False  # what comes is booked at once
        stored = Stored(KINDS, unnest("asked", tensors))
        self._count, self.asked = stored.unpack(values["count"]), stored.unpack(values["asked"])
        for side in self.sides:
            if isinstance(side, Orders):
                for client, asked in self.asked.items():
                    downs = asked.traffic.downlinks
                    downs[client] = side.again(downs[client])


def _without_method(client: int, asked: Asked) -> Asked:
    """The message, whose order names the method, without it."""
    down = asked.traffic.downlinks[client]
    if down.uplink is None:
        return asked
    traffic = replace(asked.traffic, downlinks={client: replace(down, uplink=None)})
    return replace(asked, traffic=traffic)
