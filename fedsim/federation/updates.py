"""The traffic of as many updates as make a round, of a server that takes them in one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from compressors.bits import SPANS, Span
from strategies import Arrival, Downlink, RoundTraffic, Uplink

@dataclass
class Update:
    """One update of a client, from the message that asked for it to its arrival.

    Args:
        client: whose it is.
        arrivals: what came of it: one, or one at each server that holds a part of the model.
        own: the place in ``arrivals`` of the part that the client holds itself: that does not
            travel; None: all do.
        seconds: of download, compute, upload and waiting.
        end: the clock at its arrival.
    """

    client: int
    arrivals: Sequence[Arrival]
    own: int | None
    seconds: Sequence[float]
    end: float

    @property
    def trips(self) -> list[RoundTraffic]:
        """All messages, the client's to itself too."""
        return [arrival.trip for arrival in self.arrivals]

    @property
    def travelled(self) -> list[RoundTraffic]:
        """Messages over a link."""
        return [trip for place, trip in enumerate(self.trips) if place != self.own]

    @property
    def staleness(self) -> float:
        """The mean over ``arrivals``."""
        return sum(arrival.staleness for arrival in self.arrivals) / len(self.arrivals)


@dataclass
class Updates(RoundTraffic):
    """A round's traffic by the place of each update in the order of arrival."""

    updates: list[Update] = field(default_factory=list)

    @property
    def parts(self) -> Sequence[RoundTraffic]:
        """Every message: its round is its number among those to its client."""
        return [trip for update in self.updates for trip in update.trips]


def together(number: int, updates: list[Update]) -> Updates:
    """The traffic of ``updates`` as that of round ``number``."""
    made = Updates(number, updates=updates)
    for place, update in enumerate(updates):
        trips, client = update.travelled, update.client
        downs = [trip.downlinks[client] for trip in trips]
        made.downlinks[place] = _downlink(downs)
        failures = [trip.failures[client] for trip in update.trips if client in trip.failures]
        if failures:
            made.failures[place] = failures[0]
        else:
            whole = update.trips[0].uplinks[client]
            made.uplinks[place] = _uplink(trips, client, whole)
        if failed := sum(trip.failed_bits.get(client, 0) for trip in trips):
            made.failed_bits[place] = failed
        for trip in trips:
            made.wire.add(place, client, trip.wire)
        made.decode_seconds += sum(trip.decode_seconds for trip in update.trips)
        made.downlink_seconds += sum(trip.downlink_seconds for trip in update.trips)
    return made


def _downlink(downs: list[Downlink]) -> Downlink:
    if len(downs) == 1:
        return downs[0]
    return Downlink(
        payload=b"".join(down.payload for down in downs),
        kind=downs[0].kind if downs else "model",
        spans=_spans([down.spans for down in downs]),
        charged=all(down.charged for down in downs),
        news=b"".join(down.news for down in downs),
    )


def _uplink(trips: list[RoundTraffic], client: int, first: Uplink) -> Uplink:
    """One uplink of the parts that travelled."""
    ups = [trip.uplinks[client] for trip in trips]
    if len(ups) == 1 and ups[0] is first:
        return first
    update: dict[str, Tensor] = {}
    sent: dict[str, int] = {}
    for up in ups:  # a tensor may lie in two parts
        for name, count in up.sent.items():
            before = [update[name]] if name in update else []
            update[name] = torch.cat([*before, up.update[name]])
            sent[name] = sent.get(name, 0) + count
    return Uplink(
        payload=b"".join(up.payload for up in ups), spans=_spans([up.spans for up in ups]),
        update=update, metrics=first.metrics | {"sent": sum(sent.values())}, sent=sent,
    )  # fmt: skip


def _spans(every: list[dict[Span, int]]) -> dict[Span, int]:
    return {name: sum(spans[name] for spans in every) for name in SPANS}
