"""The rows of a run's results before they are booked: each client's update, and their traffic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from compressors.bits import SPANS, Span
from fedsim.federation import ledger
from fedsim.federation.orders import Work
from fedsim.ground.records import ClientTiming, RoundTiming, SimulatedTime, TimeParts
from fedsim.network.clock import PARTS
from strategies import Arrival, Downlink, RoundTraffic, Uplink


@dataclass
class Update:
    """One client's part in a row: from the message that asked for its update to the arrival.

    ``arrivals``: what came of it where clients are asked one at a time: one, or one at each server
    that holds a part of the model. The part at ``local_part`` the client holds itself, so that it
    does not travel; None: all do.
    """

    client: int
    work: Work | None  # None: what the settings have
    parts: Sequence[float]  # seconds of download, compute, upload and waiting
    seconds: float | None  # from the request to the reply; None: there is none yet
    timing: ClientTiming
    joules: float = 0.0  # where they are counted
    arrivals: Sequence[Arrival] = ()
    local_part: int | None = None

    @property
    def messages(self) -> list[RoundTraffic]:
        """All messages, the client's to itself too."""
        return [arrival.traffic for arrival in self.arrivals]

    @property
    def travelled(self) -> list[RoundTraffic]:
        """Messages over a link."""
        return [traffic for place, traffic in enumerate(self.messages) if place != self.local_part]


@dataclass
class RoundUpdates:
    """What a server has collected for a row of the results."""

    traffic: RoundTraffic
    updates: Mapping[int, Update]  # of every client, by the keys of the traffic
    joules: float  # what all clients have spent, where that is counted
    timing: RoundTiming = field(default_factory=RoundTiming)

    @property
    def used(self) -> list[Update]:
        """The updates that the model has, or will have."""
        return [self.updates[key] for key in self.traffic.uplinks]

    def times(self, start: float, now: float) -> None:
        """Books a part of the clock; a client's parts are means over used updates, or NaN."""
        nothing = [[np.nan] * len(PARTS)]
        means = np.mean([x.parts for x in self.used] or nothing, axis=0).tolist()
        self.timing.time, self.timing.parts = SimulatedTime(now - start, now), TimeParts(*means)


@dataclass
class Updates(RoundTraffic):
    """A round's traffic by the place of each update in the order of arrival.

    ``begun``: messages of updates that have come in parts, of which some are still under way.
    """

    updates: list[Update] = field(default_factory=list)
    begun: list[RoundTraffic] = field(default_factory=list)

    def client_of(self, key: int) -> int:
        return self.updates[key].client

    @property
    def parts(self) -> Sequence[RoundTraffic]:
        """Every message: its round is its number among those to its client."""
        return [traffic for update in self.updates for traffic in update.messages] + self.begun


def merge_updates(number: int, updates: list[Update]) -> Updates:
    """The traffic of ``updates`` as that of round ``number``."""
    round_traffic = Updates(number, updates=updates)
    round_traffic.side_names = updates[0].messages[0].side_names
    for place, update in enumerate(updates):
        messages, client = update.travelled, update.client
        downs = [traffic.downlinks[client] for traffic in messages]
        round_traffic.downlinks[place] = downs[0] if len(downs) == 1 else _joined(downs)
        failures = [t.failures[client] for t in update.messages if client in t.failures]
        for traffic in update.messages:
            if client in traffic.traces:
                round_traffic.traces[place] = traffic.traces[client]
        if failures:
            round_traffic.failures[place] = failures[0]
        elif len(update.messages) == 1 and update.local_part is None:
            round_traffic.uplinks[place] = update.messages[0].uplinks[client]
        else:  # one of all parts; its bits, and the entries that it sent, are those that travelled
            uplinks = [traffic.uplinks[client] for traffic in update.messages]
            tensors: dict[str, Tensor] = {}
            sent: dict[str, int] = {}
            for part, up in enumerate(uplinks):
                for name, count in up.sent.items():  # a tensor may lie in two parts
                    before = [tensors[name]] if name in tensors else []
                    tensors[name] = torch.cat([*before, up.update[name]])
                    sent[name] = sent.get(name, 0) + (count if part != update.local_part else 0)
            ups = [up for part, up in enumerate(uplinks) if part != update.local_part]
            round_traffic.uplinks[place] = Uplink(
                payload=b"".join(up.payload for up in ups),
                spans=_spans([up.spans for up in ups]),
                update=tensors,
                metrics=uplinks[0].metrics | {"sent": sum(sent.values())},
                sent=sent,
                side_payloads=_side_payloads(ups),
                returned=max(up.returned for up in uplinks),
                lost=max(up.lost for up in uplinks),
            )
        failed = sum(traffic.failed_bits.get(client, 0) for traffic in messages)
        if failures:  # parts that were taken count here, too: the update as a whole was not
            taken = [t.uplinks[client] for t in messages if client in t.uplinks]
            failed += sum(map(ledger.charged_bits, taken))
        if failed:
            round_traffic.failed_bits[place] = failed
        round_traffic.dropped += [place] * max(t.dropped.count(client) for t in update.messages)
        for traffic in messages:
            round_traffic.wire.add(place, client, traffic.wire)
        round_traffic.decode_seconds += sum(traffic.decode_seconds for traffic in update.messages)
        round_traffic.downlink_seconds += sum(t.downlink_seconds for t in update.messages)
    return round_traffic


def _joined(downs: Sequence[Downlink]) -> Downlink:
    """The messages of all parts to a client as one; those of the initial model are free."""
    paid = [down for down in downs if down.charged]
    free = [len(down.payload) for down in downs if not down.charged]
    return Downlink(
        payload=b"".join(down.payload for down in downs),
        kind=downs[0].kind if downs else "model",
        spans=_spans([down.spans for down in paid or downs]),
        charged=bool(paid) or not downs,
        side_payloads=_side_payloads(downs),
        free=8 * sum(free) if paid else 0,
    )


def _side_payloads(parts: Sequence[Downlink | Uplink]) -> dict[str, bytes]:
    """The side payloads of all parts."""
    names = dict.fromkeys(name for part in parts for name in part.side_payloads)
    return {name: b"".join(part.side_payloads.get(name, b"") for part in parts) for name in names}


def _spans(spans_of_parts: list[dict[Span, int]]) -> dict[Span, int]:
    return {name: sum(spans[name] for spans in spans_of_parts) for name in SPANS}
