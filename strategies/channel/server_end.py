"""The server's end of the channel: which model each client is sent, and what its reply says.

The twin of ``client_end``. The server's model changes by exactly what its clients decode, so that
all who follow hold the same weights bit for bit (Sattler et al. 2018, Algorithm 1, lines 8, 9 and
19). Every model has a version, a number. A client that holds the version before the server's is
sent the last update; any other client is sent the whole model, raw. With a raw downlink the whole
model is as small as its update, so the model is what is sent.
"""

import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

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
from compressors.whole.lift import inside, nest
from strategies.channel.buffers import ASKED, PAYLOAD, Buffers
from strategies.channel.payload import METRICS, SENT, get, hint, payload_bits, put
from strategies.channel.traffic import Downlink, RoundTraffic, Uplink, average_buffers


class TooFewReplies(RuntimeError):
    """Fewer clients than required came back with a usable update; the message says why."""


class ServerEnd:
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
        self.trip = RoundTraffic(0)
        self._model: Downlink | None = None

    @property
    def follows(self) -> bool:
        """Whether clients keep the model and are sent updates (never with a raw downlink)."""
        return not isinstance(self.downlink, Raw)

    def begin(self, round_number: int, clients: Iterable[int]) -> RoundTraffic:
        """Starts a round: decides what each of ``clients`` is sent."""
        start = time.perf_counter()
        self.trip = RoundTraffic(round_number, {client: self._for(client) for client in clients})
        if self.buffers is not None:
            self.trip.asks_buffers = self.buffers.asked(round_number)
            beside = self.buffers.payload()
            downs = self.trip.downlinks.items()
            self.trip.downlinks = {c: replace(down, buffers=beside) for c, down in downs}
        self.trip.downlink_seconds = time.perf_counter() - start
        return self.trip

    def _for(self, client: int) -> Downlink:
        """The last update for a client that holds the version before it, else the whole model."""
        if self.last_update is not None and self.base.get(client) == self.version - 1:
            return self.last_update
        if self._model is None:
            packet, _ = compress(Raw(), self.weights)
            self._model = Downlink(packet.payload, "model", packet.spans, self.version > 0)
        return self._model

    def content(
        self, client: int, config: ConfigRecord, beside: RecordDict | None = None
    ) -> RecordDict:
        """The content of the message to ``client``: our record, with the settings of ``config``.

        ``beside``: other records of the message, which come first.
        """
        down = self.trip.downlinks[client]
        record = RecordDict(dict(beside or {}))
        settings = {k: v for k, v in config.items() if isinstance(v, str | int | float | bool)}
        own: dict[str, str | int | float | bool | bytes] = {
            **settings, "kind": down.kind, "round": self.trip.round
        }  # fmt: skip
        if self.trip.asks_buffers:
            own[ASKED] = True
        if down.buffers:
            own[PAYLOAD] = down.buffers
        put(record, down.payload, **own)
        self.trip.wire.sent(client, record)
        return record

    def take(self, client: int, reply: Message) -> None:
        """Books one reply: a decoded update, or a failure with its reason.

        A client whose update arrived whole holds the version that it was sent.
        """
        start = time.perf_counter()
        try:
            self.trip.uplinks[client] = self._decode(reply)
            self.base[client] = self.version
            self.trip.wire.came(client, reply, used=True)
        except (PayloadError, ValueError) as error:
            self.trip.failures[client] = str(error)
            self.charge(client, reply)
        self.trip.decode_seconds += time.perf_counter() - start

    def charge(self, client: int, reply: Message) -> None:
        """Books the bits of an upload that is not used: not decodable, or of a round that is over.

        The client has sent them all the same. A reply without a payload has none.
        """
        self.trip.wire.came(client, reply, used=False)
        if bits := payload_bits(reply):
            booked = self.trip.failed_bits
            booked[client] = booked.get(client, 0) + bits

    def _decode(self, reply: Message) -> Uplink:
        if reply.has_error():
            raise ValueError(_reason(reply.error.reason) + hint(reply.error.code))
        payload, beside = get(reply.content)
        message = receive(self.uplink, payload, self.weights)
        buffers = self.buffers.read(beside) if self.buffers and self.trip.asks_buffers else ()
        metrics = reply.content.metric_records.get(METRICS) or MetricRecord()
        numbers = {k: float(v) for k, v in metrics.items() if isinstance(v, int | float)}
        counts = metrics.get(SENT)
        listed = counts if isinstance(counts, list) and len(counts) == len(self.weights) else []
        sent = {name: int(count) for name, count in zip(self.weights, listed, strict=False)}
        return Uplink(payload, message.spans, message.update, numbers, sent, *buffers)

    def finish(self, required: int | None = None) -> dict[int, Uplink]:
        """The uplinks in client order; the buffers that came with them become the server's.

        Raises ``TooFewReplies`` if fewer than ``required`` (None: all that were asked) arrived
        whole.
        """
        asked = len(self.trip.downlinks)
        required = asked if required is None else required
        for client in self.trip.downlinks:
            if client not in self.trip.uplinks:
                self.trip.failures.setdefault(client, "no reply within the timeout")
        if len(self.trip.uplinks) < required:
            why = [f"; client {c}: {reason}" for c, reason in sorted(self.trip.failures.items())]
            raise TooFewReplies(
                f"round {self.trip.round}: {len(self.trip.uplinks)} of {asked} clients replied "
                f"and {required} are required"
                + "".join(why[:1])  # none where fewer were asked than are required
            )
        uplinks = dict(sorted(self.trip.uplinks.items()))
        if self.buffers is not None and self.trip.asks_buffers:
            self.buffers.values = average_buffers(uplinks, self.buffers.weighting)
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

    def holds(self, weights: Mapping[str, Tensor]) -> bool:
        """Whether the shared model has these values."""
        mine = self.weights
        return {*mine} == {*weights} and all(torch.equal(x, weights[n]) for n, x in mine.items())

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold."""
        last = self.last_update
        values: dict[str, Any] = {
            "version": self.version,
            "base": {str(client): version for client, version in self.base.items()},
            "update": b64encode(last.payload).decode() if last else None,
            "spans": last.spans if last else None,
        }
        tensors = nest("weights", self.weights) | nest("downlink", self.memory)
        if self.buffers is not None:
            tensors |= nest("buffers", self.buffers.values)
        return tensors, values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        self.weights, self.memory = inside("weights", tensors), inside("downlink", tensors)
        if self.buffers is not None:
            self.buffers.values = inside("buffers", tensors)
        self.version, self._model = values["version"], None
        self.base = {int(client): version for client, version in values["base"].items()}
        if values["update"] is not None:
            self.last_update = Downlink(b64decode(values["update"]), "update", values["spans"])


def _reason(text: str | None) -> str:
    """One line of what Flower says: on Ray a whole traceback comes with it, the error last."""
    last = (text or "the client raised").strip().splitlines()[-1]
    return last.rpartition("Message: ")[2].removesuffix("'>")
