"""The one place where bits are counted: eight times the length of what was sent.

Uplinks are counted as they arrived, downlinks once for each receiver. The initial model
is known to all and not charged. ``wire`` is the whole payload; ``content`` is what
papers report: positions, values and side information, without the header. Side payloads of models
and updates (``strategies/channel/payload.py``) have a column per name. Buffers (BatchNorm's
statistics), which papers leave out, orders and reports are in ``wire``, too. Acknowledgements of
the client's last uplink (``news`` down, ``fate`` up) are in no other column, because they are not a
part of a model.
``message`` is ``wire`` and what Flower sends around it (``strategies/channel/framing.py``);
``total`` is all that travels: the initial model, failures and uploads that are not used, too.
The server evaluates, which costs no bits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import nan
from typing import Any

from compressors import Tensors
from compressors.bits import Span
from fedsim.federation.failures import reasons
from fedsim.ground.columns import receivers
from fedsim.ground.files import bytes_of, digest_of
from fedsim.ground.records import ClientBooks, CodingSeconds, FailedReplies, LayerRecord, RoundBits
from strategies import RoundTraffic
from strategies.channel.framing import NO_TRAVEL, Travel
from strategies.channel.payload import BUFFERS, CHARGES
from strategies.channel.traffic import Downlink, Uplink

_SPLIT: dict[str, Span] = {
    "header_bits": "header",
    "position_bits": "positions",
    "value_bits": "values",
    "side_bits": "side",
}
CONTENT = ("position_bits", "value_bits", "side_bits")


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

    Example:
        >>> row = {"up_wire_bits": 80, "down_wire_bits": 90, "clients": 2, "failures": 1}
        >>> bits_of_each(row, "up"), bits_of_each(row, "total")
        (40.0, 70.0)
    """
    up: float = row["up_wire_bits"] / max(1, row["clients"])
    return up if of == "up" else up + row["down_wire_bits"] / max(1, receivers(row))


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
    return 8 * (len(message.payload) + sum(map(len, charged)))


@lru_cache
def _side_columns(names: tuple[str, ...], direction: str) -> Mapping[str, str]:
    """The columns of side payloads, by the names of those that travel in a direction."""
    return {
        name: f"{direction}_{CHARGES[name].column}"
        for name in names
        if direction in CHARGES[name].directions
    }


def _side_bits(columns: Mapping[str, str], messages: Sequence[Downlink | Uplink]) -> dict[str, int]:
    """The bits of side payloads by ``_side_columns``, each the sum over messages."""
    bits = dict.fromkeys(columns.values(), 0)
    for message in messages:
        for name, payload in message.side_payloads.items():
            if name in columns and not (CHARGES[name].model and free_bits(message)):
                bits[columns[name]] += 8 * len(payload)
    return bits


def client_books(traffic: RoundTraffic, clients: Mapping[int, int]) -> dict[int, ClientBooks]:
    """One for each client of the round's cohort, and for each whose late upload arrived in it.

    One whose reply is not used has `failures` 1 and the reason; its uplink columns are 0.
    ``clients``: by the traffic's keys, in the order of the books.
    """
    reasons_of = traffic.refused | traffic.failures
    side_up, side_down = (
        _side_columns(traffic.side_names, direction) for direction in ("up", "down")
    )
    cache: dict[tuple[int, int], str] = {}
    dropped, wire = Counter(traffic.dropped), traffic.wire
    books, unused = {}, dict[int, list[Downlink]]()
    for key, before in traffic.unused:
        unused.setdefault(key, []).append(before)
    for key, client in clients.items():
        up, down = traffic.uplinks.get(key), traffic.downlinks.get(key)
        request, answer = wire.requests.get(key, NO_TRAVEL), wire.used.get(key, NO_TRAVEL)
        ups = [up] if up else []
        sent = [*([down] if down else []), *unused.get(key, ())]
        books[key] = ClientBooks(
            round=traffic.round,
            client=client,
            samples=int(up.samples) if up else 0,
            up_wire_bits=charged_bits(up) if up else 0,
            up_content_bits=8 * len(up.payload) - up.spans["header"] if up else 0,
            down_wire_bits=sum(map(charged_bits, sent)),
            **(_side_bits(side_up, ups) if side_up else {}),
            **(_side_bits(side_down, sent) if side_down else {}),
            # the reply that is used, and the call for the message, which a late one has not
            up_message_bits=8 * (answer.up + request.up) if key in wire.used else 0,
            # the message, of the initial model only the framing, and the answer to its reply
            down_message_bits=8 * (request.down + answer.down) - free_bits(down) if down else 0,
            up_sent=int(up.metrics.get("sent", 0)) if up else 0,
            train_loss=up.metrics.get("train-loss", nan) if up else nan,
            failures=int(key in traffic.failures),
            failure_reasons=" ".join(reasons_of.get(key, "").split()),
            failed_up_bits=traffic.failed_bits.get(key, 0),
            returned=up.returned if up else 0,
            lost=(up.lost if up else 0) + dropped[key],
            digest_down=_digest_of_message(down, cache),
            digest_up=_digest_of_message(up, cache),
        )
    return books


def bits_of_round(
    traffic: RoundTraffic, books: Mapping[int, ClientBooks], sampling: Travel | None = None
) -> RoundBits:
    """The bit columns of one round: sums over the cohort, both directions.

    ``books``: of its clients; ``sampling``: the bits of a sampler's own requests; None: the run's
    sampler sends none.
    """
    sampler, clients = sampling or NO_TRAVEL, books.values()
    bits: dict[str, int] = {}
    if traffic.edges is not None:
        bits["edge_up_bits"] = 8 * sum(map(len, traffic.edges.payloads.values()))
        bits["edge_down_bits"] = sum(edge_down_bits(traffic).values())
    total = 8 * sum(traffic.wire.total()) + sampler.up + sampler.down + sum(bits.values())
    downs = [*traffic.downlinks.values(), *(down for _, down in traffic.unused)]
    paid = [down for down in downs if down.charged]
    for direction, messages in (("up", traffic.uplinks.values()), ("down", paid)):
        for column, span in _SPLIT.items():
            bits[f"{direction}_{column}"] = sum([message.spans[span] for message in messages])
        bits[f"{direction}_content_bits"] = sum(bits[f"{direction}_{column}"] for column in CONTENT)
        for column in _side_columns(traffic.side_names, direction).values():
            bits[column] = sum([getattr(record, column) for record in clients])
    return RoundBits(
        up_wire_bits=sum([record.up_wire_bits for record in clients]) + sampler.up,
        down_wire_bits=sum([record.down_wire_bits for record in clients]) + sampler.down,
        up_sampler_bits=None if sampling is None else sampling.up,
        down_sampler_bits=None if sampling is None else sampling.down,
        # a client whose update came in part has messages of which the round uses none
        up_message_bits=sum([books[key].up_message_bits for key in traffic.uplinks]),
        down_message_bits=sum([record.down_message_bits for record in clients]),
        total_bits=total,
        up_sent=sum([record.up_sent for record in clients]),
        **bits,
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


def round_seconds(traffic: RoundTraffic) -> CodingSeconds:
    """The columns of what a round's parts took, over all clients and at the server."""
    metrics = [up.metrics for up in traffic.uplinks.values()]
    train, encode, receive = (
        sum([of_client.get(name, 0.0) for of_client in metrics])
        for name in ("train-seconds", "encode-seconds", "decode-seconds")
    )
    return CodingSeconds(
        train_seconds=train,
        encode_seconds=encode,
        decode_seconds=traffic.decode_seconds,
        downlink_seconds=traffic.downlink_seconds + receive,
        receive_seconds=receive,
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
    ups, failures = traffic.uplinks.values(), [*traffic.failures.values()]
    failures += traffic.refused.values()
    return FailedReplies(
        failures=len(traffic.failures),
        failure_reasons=reasons(failures) if failures else "",
        failed_up_bits=sum(traffic.failed_bits.values()),
        absent=len({*traffic.failures} - {*traffic.downlinks}),
        returned=sum([up.returned for up in ups]),
        lost=sum([up.lost for up in ups]) + len(traffic.dropped),
    )


def layer_records(traffic: RoundTraffic, template: Tensors) -> list[LayerRecord]:
    """One per tensor of the model: its entries, and how many travelled, the cohort's mean.

    Empty where no client of the round says what it sent, and where messages are sums of entries.
    """
    counted = [up for up in traffic.uplinks.values() if up.sent and {*up.sent} <= {*up.update}]
    return [
        LayerRecord(
            round=traffic.round,
            tensor=name,
            entries=template[name].numel(),
            sent=sum(up.sent[name] for up in counted) / len(counted),
        )
        for name in (counted[0].sent if counted else ())
    ]


ITERATIONS_OF = "clients", "local_iterations", "used_iterations"
"""The columns that ``used_iterations`` reads."""


def used_iterations(row: Mapping[str, Any]) -> float:
    """The local iterations behind a round's used updates, their mean; 0 where none was used.

    In a row of ``rounds.parquet`` without ``used_iterations`` all clients did the round's n.

    Example:
        >>> used_iterations({"clients": 2, "local_iterations": 5})
        5
        >>> used_iterations({"clients": 0, "local_iterations": 5})
        0
    """
    mean: float = row.get("used_iterations", row["local_iterations"])
    return mean if row["clients"] else 0


DIGEST_UP, DIGEST_DOWN = "digest_up", "digest_down"
"""The columns of ``clients.parquet``: of the payload, with the buffers' behind it where there is
one; empty where nothing travelled, or what came is not used. Digests of messages and of the model
are 32 hex digits of blake2b (``fedsim.ground.files.digest_of``). Reports, orders and
acknowledgements are in none of them: the model follows from the rest."""

DIGEST_PAYLOADS, DIGEST_MODEL = "digest_payloads", "digest_model"
"""The columns of ``rounds.parquet``: over the round's rows of clients, and of the model after it,
as ``model.safetensors`` would hold it."""


def _digest_of_message(message: Downlink | Uplink | None, cache: dict[tuple[int, int], str]) -> str:
    """The digest of a client's downlink, or of its used uplink; empty without a message.

    ``cache``: digests of the same traffic, to which this one is added: a payload that many clients
    receive is hashed once.
    """
    if message is None:
        return ""
    payload, buffers = message.payload, message.side_payloads.get(BUFFERS, b"")
    same = id(payload), id(buffers)
    if same not in cache:
        cache[same] = digest_of(payload + buffers)
    return cache[same]


def digest_of_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """Over a round's rows of clients, in their order.

    Example:
        >>> digest_of_rows([{"client": 3, "digest_down": "ab", "digest_up": ""}])
        '5a295c8a25e3bd0eab2428bb286b9c01'
    """
    lines = [f"{row['client']} {row[DIGEST_DOWN]} {row[DIGEST_UP]}" for row in rows]
    return digest_of("\n".join(lines).encode("ascii"))


def digest_of_model(tensors: Tensors) -> str:
    """Of tensors by name, in the order of the names: of their types, shapes and values.

    Example:
        >>> import torch
        >>> a, b = torch.zeros(2), torch.ones(3)
        >>> one, other = digest_of_model({"a": a, "b": b}), digest_of_model({"b": b, "a": a})
        >>> one == other != digest_of_model({"a": b, "b": a})
        True
    """
    lines = []
    for name, x in sorted(tensors.items()):
        lines.append(f"{name} {x.dtype} {tuple(x.shape)} {digest_of(bytes_of(x))}")
    return digest_of("\n".join(lines).encode("utf-8"))
