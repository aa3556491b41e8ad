"""What passes between one server and its clients in a round, and the model they share.

The server's model changes by exactly what its clients decode, so that all who
follow hold the same weights bit for bit (Sattler et al. 2018, Algorithm 1, lines 8,
9 and 19). A client that took part in the round before holds the base of the next
update; any other gets the whole model, raw. With a raw downlink the whole model is
as small as its update, so it is always the model that is sent.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from torch import Tensor

from compressors import (
    Compressor,
    PayloadError,
    Raw,
    State,
    check_decoded,
    compress,
    derive,
    receive,
)
from compressors.bits import Span
from strategies.channel.buffers import ASKED, PAYLOAD, Buffers
from strategies.channel.payload import METRICS, SAMPLES, SENT, Kind, get, payload_bits, put


class TooFewReplies(RuntimeError):
    """Fewer clients than required came back with a usable update; the message says why."""


@dataclass(frozen=True)
class Downlink:
    """What one client is sent. The initial model is known to all and not ``charged``."""

    payload: bytes
    kind: Kind
    spans: dict[Span, int]
    charged: bool = True
    buffers: bytes = b""


@dataclass(frozen=True)
class Uplink:
    """What one client sent back, decoded, with the metrics beside it.

    ``sent``: by tensor, how many entries travelled; empty where the client does not say.
    """

    payload: bytes
    spans: dict[Span, int]
    update: dict[str, Tensor]
    metrics: dict[str, float]
    sent: dict[str, int] = field(default_factory=dict)
    buffers: bytes = b""
    statistics: dict[str, Tensor] = field(default_factory=dict)  # what ``buffers`` says

    @property
    def samples(self) -> float:
        """The client's number of training samples."""
        return self.metrics.get(SAMPLES, 1.0)


@dataclass
class Trip:
    """One round: what each client (by its number) was sent, sent back, or why it failed.

    ``failed_bits``: by client, the bits of uploads that arrived in this round and are not used.
    """

    round: int
    downlinks: dict[int, Downlink] = field(default_factory=dict)
    uplinks: dict[int, Uplink] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    failed_bits: dict[int, int] = field(default_factory=dict)
    asks_buffers: bool = False
    decode_seconds: float = 0.0  # the server's, over all uplinks
    downlink_seconds: float = 0.0  # the server's, for encoding


class Exchange:
    """The server's end of a compressed channel to every client.

    Args:
        uplink: how clients encode their updates.
        downlink: how the server encodes the global update.
        weights: the initial model, known to all; float32 tensors by name.
        seed: for methods with random choices.
        buffers: what else the model has, and when it travels; None: nothing.
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor,
        weights: Mapping[str, Tensor],
        seed: int = 0,
        buffers: Buffers | None = None,
    ) -> None:
        self.uplink, self.downlink, self.seed, self.buffers = uplink, downlink, seed, buffers
        self.weights = {name: x.detach().clone() for name, x in weights.items()}
        self.memory: State = downlink.init(self.weights)
        self.version = 0
        self.base: dict[int, int] = {}  # client -> version of the model it holds
        self.last_update: Downlink | None = None
        self.trip = Trip(0)
        self._model: Downlink | None = None

    @property
    def follows(self) -> bool:
        """Whether clients keep the model and are sent updates (never with a raw downlink)."""
        return not isinstance(self.downlink, Raw)

    def begin(self, round_number: int, clients: Iterable[int]) -> Trip:
        """Starts a round: decides what each of ``clients`` is sent."""
        start = time.perf_counter()
        self.trip = Trip(round_number, {client: self._for(client) for client in clients})
        if self.buffers is not None:
            self.trip.asks_buffers = self.buffers.asked(round_number)
            beside = self.buffers.payload()
            downs = self.trip.downlinks.items()
            self.trip.downlinks = {c: replace(down, buffers=beside) for c, down in downs}
        self.trip.downlink_seconds = time.perf_counter() - start
        return self.trip

    def _for(self, client: int) -> Downlink:
        held = self.base.get(client)
        if self.last_update is not None and held == self.version - 1:
            return self.last_update
        return self._whole()

    def _whole(self) -> Downlink:
        if self._model is None:
            packet, _ = compress(Raw(), self.weights)
            self._model = Downlink(packet.payload, "model", packet.spans, self.version > 0)
        return self._model

    def take(self, client: int, reply: Message) -> None:
        """Books one reply: a decoded update, or a failure with its reason."""
        start = time.perf_counter()
        try:
            self.trip.uplinks[client] = self._decode(reply)
            self.base[client] = self.version
        except (PayloadError, ValueError) as error:
            self.trip.failures[client] = str(error)
            self.charge(client, reply)
        self.trip.decode_seconds += time.perf_counter() - start

    def charge(self, client: int, reply: Message) -> None:
        """Books the bits of an upload that is not used: not decodable, or of a round that is over.

        The client has sent them all the same. A reply without a payload has none.
        """
        if bits := payload_bits(reply):
            booked = self.trip.failed_bits
            booked[client] = booked.get(client, 0) + bits

    def _decode(self, reply: Message) -> Uplink:
        if reply.has_error():
            raise ValueError(_reason(reply.error.reason))
        payload, beside = get(reply.content)
        message = receive(self.uplink, payload, self.weights)
        buffers = self.buffers.read(beside) if self.buffers and self.trip.asks_buffers else ()
        metrics = reply.content.metric_records.get(METRICS) or MetricRecord()
        numbers = {k: float(v) for k, v in metrics.items() if isinstance(v, int | float)}
        counts = metrics.get(SENT)
        listed = counts if isinstance(counts, list) and len(counts) == len(self.weights) else []
        sent = {name: int(count) for name, count in zip(self.weights, listed, strict=False)}
        return Uplink(payload, message.spans, message.update, numbers, sent, *buffers)

    def finish(self, required: int) -> dict[int, Uplink]:
        """The uplinks in client order.

        Raises ``TooFewReplies`` if fewer than ``required`` arrived whole.
        """
        for client in self.trip.downlinks:
            if client not in self.trip.uplinks:
                self.trip.failures.setdefault(client, "no reply within the timeout")
        if len(self.trip.uplinks) < required:
            why = [f"; client {c}: {reason}" for c, reason in sorted(self.trip.failures.items())]
            raise TooFewReplies(
                f"round {self.trip.round}: {len(self.trip.uplinks)} of "
                f"{len(self.trip.downlinks)} clients replied and {required} are required"
                + "".join(why[:1])  # none where fewer were asked than are required
            )
        uplinks = dict(sorted(self.trip.uplinks.items()))
        if self.buffers is not None and self.trip.asks_buffers:
            shares = _shares(uplinks, self.buffers.weighting)
            self.buffers.values = _mean([up.statistics for up in uplinks.values()], shares)
        return uplinks

    def advance(self, delta: Mapping[str, Tensor]) -> None:
        """Moves the shared model by what receivers will decode of ``delta``."""
        if not self.follows:  # the model itself will be sent, and what is raw is what it was
            self.replace({n: x + delta[n] for n, x in self.weights.items()})
            return
        start = time.perf_counter()
        packet, self.memory = compress(
            self.downlink, delta, self.memory, derive(self.seed, "downlink", self.version)
        )
        if self.version == 0:  # once a run: what follows goes by what was said to be sent
            check_decoded(self.downlink, packet, self.weights)
        self.weights = {n: x + packet.sent[n].decoded for n, x in self.weights.items()}
        self.version, self._model = self.version + 1, None
        self.last_update = Downlink(packet.payload, "update", packet.spans)
        self.trip.downlink_seconds += time.perf_counter() - start

    def replace(self, weights: Mapping[str, Tensor]) -> None:
        """Sets the shared model, which will be sent whole to everybody."""
        self.weights = dict(weights)
        self.version, self._model, self.last_update = self.version + 1, None, None

    def content(self, client: int, config: ConfigRecord) -> RecordDict:
        """The content of the message to ``client``, with the settings of ``config``."""
        down = self.trip.downlinks[client]
        record = RecordDict()
        settings = {k: v for k, v in config.items() if isinstance(v, str | int | float | bool)}
        beside: dict[str, str | int | float | bool | bytes] = {
            **settings, "kind": down.kind, "round": self.trip.round
        }  # fmt: skip
        if self.trip.asks_buffers:
            beside[ASKED] = True
        if down.buffers:
            beside[PAYLOAD] = down.buffers
        put(record, down.payload, **beside)
        return record


def _reason(text: str | None) -> str:
    """One line of what Flower says: on Ray a whole traceback comes with it, the error last."""
    last = (text or "the client raised").strip().splitlines()[-1]
    return last.rpartition("Message: ")[2].removesuffix("'>")


def average(uplinks: Mapping[int, Uplink], weighting: str) -> dict[str, Tensor]:
    """The mean update, summed in client order; ``weighting`` is ``uniform`` or ``samples``."""
    return _mean([up.update for up in uplinks.values()], _shares(uplinks, weighting))


def _shares(uplinks: Mapping[int, Uplink], weighting: str) -> list[float]:
    return [up.samples if weighting == "samples" else 1.0 for up in uplinks.values()]


def _mean(parts: Sequence[Mapping[str, Tensor]], shares: Sequence[float]) -> dict[str, Tensor]:
    total = sum(shares)
    mean = {name: torch.zeros_like(x) for name, x in parts[0].items()}
    for part, share in zip(parts, shares, strict=True):
        for name, x in part.items():
            mean[name].add_(x, alpha=share / total)
    return mean
