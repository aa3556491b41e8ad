"""The one place where bits are counted: eight times the length of what was sent.

Uplinks are counted as they arrived, downlinks once for each receiver. The initial model
is known to all and not charged. ``wire`` is the whole payload; ``content`` is what
papers report: positions, values and side information, without the header. Side payloads of models
and updates (``strategies/channel/side_payloads.py``) have a column per name. Buffers (BatchNorm's
statistics), which papers leave out, orders and reports are in ``wire``, too. Acknowledgements of
the client's last uplink (``news`` down, ``fate`` up) are in no other column, because they are not a
part of a model.
``message`` is ``wire`` and what Flower sends around it (``strategies/channel/framing.py``);
``total`` is all that travels: the initial model, failures and uploads that are not used, too.
The server evaluates, which costs no bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from compressors.bits import Span
from fedsim.federation import digests
from fedsim.federation.failures import failed_clients, reasons
from fedsim.ground.records import (
    ClientBooks,
    CodingSeconds,
    FailedReplies,
    LayerRecord,
    RoundBits,
)
from fedsim.ground.rounds import receivers
from strategies import RoundTraffic
from strategies.channel.side_payloads import CHARGES
from strategies.channel.traffic import Downlink, Uplink

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

_SPLIT: dict[str, Span] = {
    "header_bits": "header",
    "position_bits": "positions",
    "value_bits": "values",
    "side_bits": "side",
}
CONTENT = ("position_bits", "value_bits", "side_bits")
FATES = ("returned", "lost")
"""What becomes of an update that arrived too late, or not at all, and was not applied."""

EDGES = ("edge_up_bits", "edge_down_bits")
"""The columns of what travels between the server and edge servers."""

_OF_ALL = ("up_wire_bits", "up_content_bits", "down_wire_bits")


@dataclass
class SamplerBits:
    """The bits of a sampler's requests and replies in a round, apart from training messages."""

    up: int = 0
    down: int = 0


def of_each(bits: float, clients: int) -> float:
    """The bits of one of so many clients; where none took part, all that there are.

    A sampler may have asked clients though no update was used.

    Example:
        >>> of_each(80, 2), of_each(0, 0), of_each(64, 0)
        (40.0, 0.0, 64.0)
    """
    return bits / max(1, clients)


def bits_of_each(row: Mapping[str, Any], of: str) -> float:
    """The bits (wire) of a client that took part in a round: upstream, and of ``total`` both ways.

    Download bits are divided by the number of clients asked in the round, as in a run's summary.

    Args:
        row: of ``rounds.parquet``.
        of: ``up`` or ``total``.

    Example:
        >>> row = {"up_wire_bits": 80, "down_wire_bits": 90, "clients": 2, "failures": 1}
        >>> bits_of_each(row, "up"), bits_of_each(row, "total")
        (40.0, 70.0)
    """
    up = of_each(row["up_wire_bits"], row["clients"])
    return up if of == "up" else up + of_each(row["down_wire_bits"], receivers(row))


def wire_bits(payload: bytes) -> int:
    """The bits of one message."""
    return 8 * len(payload)


def charged_bits(message: Downlink | Uplink) -> int:
    """The charged bits of one message: its payload, and the side payloads that are in ``wire``.

    The initial model, which is known to all, is not charged, nor is what is a part of it.

    Example:
        >>> both = {"buffers": b"c", "applied": b"d"}
        >>> charged_bits(Downlink(b"ab", "update", {}, side_payloads=both))
        24
        >>> charged_bits(Downlink(b"ab", "model", {}, charged=False, side_payloads={"order": b"c"}))
        8
    """
    size = len(message.payload)
    for name, payload in message.side_payloads.items():
        if CHARGES[name].wire:
            size += len(payload)
    return 8 * size - free_bits(message)


def free_bits(message: Downlink | Uplink) -> int:
    """The bits of a message that are not charged: those of the initial model and its parts."""
    if isinstance(message, Uplink):
        return 0
    if message.charged:
        return message.free
    charged = (payload for name, payload in message.side_payloads.items() if CHARGES[name].model)
    return wire_bits(message.payload) + sum(map(wire_bits, charged))


def _side_columns(names: Iterable[str], direction: str) -> dict[str, str]:
    """The columns of side payloads, by the names of those that travel in a direction."""
    return {
        name: f"{direction}_{CHARGES[name].column}"
        for name in names
        if direction in CHARGES[name].directions
    }


def _side_bits(columns: Mapping[str, str], messages: Iterable[Downlink | Uplink]) -> dict[str, int]:
    """The bits of side payloads by ``_side_columns``, each the sum over messages."""
    bits = dict.fromkeys(columns.values(), 0)
    for message in messages:
        for name, payload in message.side_payloads.items():
            if name in columns and not (CHARGES[name].model and free_bits(message)):
                bits[columns[name]] += wire_bits(payload)
    return bits


def _split(messages: Sequence[Downlink | Uplink], direction: str) -> dict[str, int]:
    """The columns of a payload's parts, each the sum over messages of one direction."""
    sums = {column: sum([m.spans[span] for m in messages]) for column, span in _SPLIT.items()}
    content = sum(sums[column] for column in CONTENT)
    return {f"{direction}_{name}": x for name, x in (sums | {"content_bits": content}).items()}


def bits_of_round(traffic: RoundTraffic, sampling: SamplerBits | None = None) -> RoundBits:
    """The bit columns of one round: sums over the cohort, both directions.

    ``sampling``: the bits of a sampler's own requests; None: the run's sampler sends none.
    """
    ups = list(traffic.uplinks.values())
    downs = [*traffic.downlinks.values(), *(down for _, down in traffic.unused)]
    sampler = sampling or SamplerBits()
    edges = (
        []
        if traffic.edges is None
        else [
            sum(wire_bits(payload) for payload in traffic.edges.payloads.values()),
            sum(edge_down_bits(traffic).values()),
        ]
    )
    return RoundBits(
        up_wire_bits=sum(map(charged_bits, ups)) + sampler.up,
        down_wire_bits=sum(map(charged_bits, downs)) + sampler.down,
        up_sampler_bits=None if sampling is None else sampling.up,
        down_sampler_bits=None if sampling is None else sampling.down,
        up_message_bits=8 * sum([traffic.wire.up(client) for client in traffic.uplinks]),
        down_message_bits=sum([_down_message_bits(traffic, c) for c in traffic.downlinks]),
        total_bits=8 * sum(traffic.wire.total()) + sampler.up + sampler.down + sum(edges),
        **dict(zip(EDGES, edges, strict=False)),
        up_sent=sum([int(up.metrics.get("sent", 0)) for up in ups]),
        **_split(ups, "up"),
        **_split([down for down in downs if down.charged], "down"),
        **_side_bits(_side_columns(traffic.side_names, "up"), ups),
        **_side_bits(_side_columns(traffic.side_names, "down"), downs),
    )


def edge_down_bits(traffic: RoundTraffic) -> dict[int, int]:
    """By edge server, the charged bits that the server sends it for its clients in a round.

    A message that several clients of a group get travels once to their edge server, which relays
    it to each of them.
    """
    assert traffic.edges is not None
    group_of = traffic.edges.group_of
    bits: dict[int, dict[tuple[str, bytes], int]] = {group: {} for group in group_of.values()}
    for client, down in (*traffic.downlinks.items(), *traffic.unused):
        bits[group_of[client]][down.kind, down.payload] = charged_bits(down)
    return {group: sum(messages.values()) for group, messages in bits.items()}


def _down_message_bits(traffic: RoundTraffic, client: int) -> int:
    """The message bits down to a client; only the framing if it is sent the initial model."""
    return 8 * traffic.wire.down(client) - free_bits(traffic.downlinks[client])


def mean_metric(traffic: RoundTraffic, key: str) -> float:
    """The mean of what clients say under ``key``; NaN where none does."""
    values = [up.metrics[key] for _, up in sorted(traffic.uplinks.items()) if key in up.metrics]
    return sum(values) / len(values) if values else float("nan")


def round_seconds(traffic: RoundTraffic) -> CodingSeconds:
    """The columns of what a round's parts took, over all clients and at the server."""

    def total(key: str) -> float:
        return sum([up.metrics.get(key, 0.0) for up in traffic.uplinks.values()])

    return CodingSeconds(
        train_seconds=total("train-seconds"),
        encode_seconds=total("encode-seconds"),
        decode_seconds=traffic.decode_seconds,
        downlink_seconds=traffic.downlink_seconds + total("decode-seconds"),
        receive_seconds=total("decode-seconds"),
    )


def count_failures(traffic: RoundTraffic) -> FailedReplies:
    """How many replies of a round's cohort were not used, why, and the bits of such uploads.

    ``absent`` of them had no node, so that nothing was sent to them. ``returned`` and ``lost``
    count updates of earlier rounds that were not applied, and went back into their client's memory
    or did not; a client tells what has gone back with its next reply that is used.
    The bits are those that arrived in this round: an upload that comes late is booked where it
    comes, and its failure where it was asked for. The reasons have late updates that could not be
    applied (``RoundTraffic.refused``).
    """
    ups = traffic.uplinks.values()
    return FailedReplies(
        failures=len(traffic.failures),
        failure_reasons=reasons([*traffic.failures.values(), *traffic.refused.values()]),
        failed_up_bits=sum(traffic.failed_bits.values()),
        absent=len({*traffic.failures} - {*traffic.downlinks}),
        returned=sum([up.returned for up in ups]),
        lost=sum([up.lost for up in ups]) + len(traffic.dropped),
    )


def booked(traffic: RoundTraffic) -> list[int]:
    """The keys of a round's traffic that have a record, in order (``client_books``)."""
    reasons_of = {*traffic.refused, *traffic.failures}
    return sorted({*traffic.downlinks, *traffic.uplinks, *reasons_of, *traffic.failed_bits})


def client_books(traffic: RoundTraffic) -> list[ClientBooks]:
    """One for each client of the round's cohort, and for each whose late upload arrived in it.

    One whose reply is not used has `failures` 1 and the reason; its uplink columns are 0. They are
    in the order of the traffic's keys.
    """
    reasons_of = traffic.refused | traffic.failures
    names = traffic.side_names
    side_up, side_down = (_side_columns(names, direction) for direction in ("up", "down"))
    cache: dict[tuple[int, int], str] = {}
    dropped = Counter(traffic.dropped)
    books = []
    for key in booked(traffic):
        up, down = traffic.uplinks.get(key), traffic.downlinks.get(key)
        sent = [*([down] if down else []), *[first for k, first in traffic.unused if k == key]]
        books.append(
            ClientBooks(
                round=traffic.round,
                client=traffic.client_of(key),
                samples=int(up.samples) if up else 0,
                up_wire_bits=charged_bits(up) if up else 0,
                up_content_bits=wire_bits(up.payload) - up.spans["header"] if up else 0,
                down_wire_bits=sum(map(charged_bits, sent)),
                **_side_bits(side_up, [up] if up else []),
                **_side_bits(side_down, sent),
                up_message_bits=8 * traffic.wire.up(key),
                down_message_bits=_down_message_bits(traffic, key) if down else 0,
                up_sent=int(up.metrics.get("sent", 0)) if up else 0,
                train_loss=up.metrics.get("train-loss", float("nan")) if up else float("nan"),
                failures=int(key in traffic.failures),
                failure_reasons=" ".join(reasons_of.get(key, "").split()),
                failed_up_bits=traffic.failed_bits.get(key, 0),
                returned=up.returned if up else 0,
                lost=(up.lost if up else 0) + dropped[key],
                digest_down=digests.of_message(down, cache),
                digest_up=digests.of_message(up, cache),
            )
        )
    return books


def layer_records(traffic: RoundTraffic) -> list[LayerRecord]:
    """One per tensor of the model: its entries, and how many travelled, the cohort's mean.

    Empty where no client of the round says what it sent, and where messages are sums of entries.
    """
    counted = [up for up in traffic.uplinks.values() if up.sent and {*up.sent} <= {*up.update}]
    return [
        LayerRecord(
            round=traffic.round,
            tensor=name,
            entries=counted[0].update[name].numel(),
            sent=sum(up.sent[name] for up in counted) / len(counted),
        )
        for name in (counted[0].sent if counted else ())
    ]


def per_participation(rounds: pd.DataFrame) -> dict[str, float]:
    """Bits of a client that takes part in every round: round by round, the mean over its cohort.

    With them ``total_bits``, all that travelled of all clients, and ``EDGES``, of all edge servers.
    """
    up_columns = [c for c in rounds.columns if c.startswith("up_")]
    down_columns = [c for c in rounds.columns if c.startswith("down_") and c.endswith("_bits")]
    receiver_counts = receivers(rounds.fillna({"absent": 0, "late": 0}))
    sums = {c: _of_each(rounds[c], rounds["clients"]) for c in up_columns}
    sums |= {c: _of_each(rounds[c], receiver_counts) for c in down_columns}
    # NaN where a round lacks the number, as in a run that an older version began
    of_all = [name for name in ("total_bits", *EDGES) if name in rounds]
    return sums | {name: float(rounds[name].sum(skipna=False)) for name in of_all}


def _of_each(bits: pd.Series, clients: pd.Series) -> float:
    """The sum of ``of_each``, round by round."""
    many, totals = clients.to_numpy(float), bits.to_numpy(float)  # short runs would wait for pandas
    return float((totals / np.maximum(many, 1)).sum())


def of_federation(rounds: pd.DataFrame, clients: int) -> dict[str, float]:
    """Bits of the whole federation over the number of its clients.

    With a cohort smaller than the federation they are fewer than those of `per_participation`. The
    wire columns include unused uploads, too. The content of these is not known.

    Args:
        rounds: `rounds.parquet`; without `failed_up_bits` (older folders) no failure is known.
        clients: of the federation.

    Example:
        >>> import pandas as pd
        >>> columns = ["up_wire_bits", "up_content_bits", "down_wire_bits", "failed_up_bits"]
        >>> of_federation(pd.DataFrame([[40, 30, 20, 0], [40, 30, 20, 20]], columns=columns), 10)
        {'up_wire_bits_per_client': 10.0, 'up_content_bits_per_client': 6.0, \
'down_wire_bits_per_client': 4.0}
    """
    sums = {f"{name}_per_client": float(rounds[name].sum()) for name in _OF_ALL if name in rounds}
    if "failed_up_bits" in rounds:
        sums["up_wire_bits_per_client"] += float(rounds["failed_up_bits"].sum())
    return {name: bits / clients for name, bits in sums.items()}


def failed(rounds: pd.DataFrame, clients: pd.DataFrame) -> dict[str, Any]:
    """A run's failed replies: how many, why, and the bits of such uploads, over all clients."""
    texts = clients.loc[clients["failures"] > 0, "failure_reasons"]
    whose = failed_clients(clients)
    return {
        "failures": int(rounds["failures"].sum()),
        "failure_reasons": reasons(texts),
        "failed_up_bits": int(rounds["failed_up_bits"].sum()),
        **{outcome: int(rounds[outcome].sum()) for outcome in FATES if outcome in rounds},
        **({"failed_clients": whose} if whose else {}),
    }


def share(rounds: pd.DataFrame, entries: int) -> float:
    """The share of an update's entries that travelled, over all uploads that were used.

    The share differs from the nominal p: a tensor sends at least one entry, and zeros are never
    sent. `entries`: those of an update, to which frozen ones do not belong, but control variates
    do.
    """
    uploads = rounds["clients"].sum()
    return float(rounds["up_sent"].sum() / (uploads * entries)) if uploads else 0.0


def used_iterations(row: Mapping[str, Any]) -> float:
    """The local iterations behind a round's used updates, their mean; 0 where none was used.

    Args:
        row: of ``rounds.parquet``. Without ``used_iterations``, all clients did the round's n.

    Example:
        >>> used_iterations({"clients": 2, "local_iterations": 5})
        5
        >>> used_iterations({"clients": 0, "local_iterations": 5})
        0
    """
    mean: float = row.get("used_iterations", row["local_iterations"])
    return mean if row["clients"] else 0


def compression_ratio(trained: int, iterations: float, up_bits: float) -> float:
    """32 bits per trained parameter and local iteration, over the bits that were sent instead."""
    return 32 * trained * iterations / up_bits if up_bits else float("inf")
