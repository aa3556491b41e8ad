"""The server's end of the channel: which model each client is sent, and what its reply says.

The twin of ``client_end``. The server's model changes by exactly what its clients decode, so that
all who follow hold the same weights bit for bit (Sattler et al. 2018, Algorithm 1, lines 8, 9 and
19). Every model has a version, a number. A client that holds the version before the server's is
sent the last update; any other client is sent the whole model, raw, or with ``catch_up`` what it
missed (``catch_up.py``), where that is shorter. With a raw downlink the whole model is as small as
its update, so the model is what is sent. A client that does not hold what the server believes (it
was restarted) asks for the whole model, and is sent it in the same round.
"""

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from flwr.app import ConfigRecord, Message, RecordDict
from torch import Tensor

from compressors import Compressor, PayloadError, Raw, State, check_decoded, compress, derive
from compressors.bits import SPANS
from compressors.whole.returned import loses
from strategies.channel import server_memory
from strategies.channel.acknowledge import CHANNEL, told
from strategies.channel.buffers import ASKED, PAYLOAD, Buffers
from strategies.channel.catch_up import Missed
from strategies.channel.directions import stepped, told_beside
from strategies.channel.orders import Order, Ordering
from strategies.channel.payload import (
    BASE,
    CLIENT,
    CONFIG,
    ENDS,
    ROUND,
    VERSION,
    ends,
    payload_bits,
    put,
)
from strategies.channel.replies import (
    asked_in,
    carries_buffers,
    check_round,
    uplink_of,
    wants_model,
)
from strategies.channel.shortage import check_enough
from strategies.channel.traffic import Downlink, RoundTraffic, Uplink, average_buffers


class ServerEnd:
    """The server's end of a compressed channel to every client.

    Args:
        uplink: how clients encode their updates.
        downlink: how the server encodes the global update.
        weights: the initial model, known to all; float32 tensors by name.
        seed: for methods with random choices.
        buffers: what else the model has, and when it travels; None: nothing.
        catch_up: whether a client that missed updates is sent these, where they are shorter.
        max_norm: the greatest L2 norm of an update, decoded: one above is not used; None: any.
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor,
        weights: Mapping[str, Tensor],
        seed: int = 0,
        buffers: Buffers | None = None,
        catch_up: bool = False,
        max_norm: float | None = None,
    ) -> None:
        self.uplink, self.downlink, self.seed, self.buffers = uplink, downlink, seed, buffers
        self.max_norm = max_norm
        self.weights = {name: x.detach().clone() for name, x in weights.items()}
        self.memory: State = downlink.init(self.weights)
        self.version, self.missed = 0, Missed(self.weights) if catch_up else None
        self.base: dict[int, int] = {}  # client -> version of the model it holds
        self.told: dict[int, tuple[int, int]] = {}  # client -> round, version that it was sent last
        self.iterations: dict[int, int] = {}  # client -> how many it was asked for last
        self.applied: dict[int, int] = {}  # client -> round of its last update that was applied
        self.lost: dict[int, int] = {}  # client -> its lost updates that are counted, as it counts
        self.channel = 2**30 + secrets.randbits(30)  # clients may know an earlier server
        self.last_update: Downlink | None = None
        self.trip = RoundTraffic(0)
        self._model: Downlink | None = None
        self.ordering: Ordering | None = None
        self.app: ConfigRecord | None = None  # what Flower's loop tells apps; None: another loop

    @property
    def follows(self) -> bool:
        """Whether clients keep the model and are sent updates (never with a raw downlink)."""
        return not isinstance(self.downlink, Raw)

    def begin(
        self, round_number: int, clients: Iterable[int], out: Mapping[int, str] | None = None
    ) -> RoundTraffic:
        """Starts a round: decides what each of ``clients`` is sent.

        ``out``: clients of the cohort that are sent nothing, with the reason.
        """
        start = time.perf_counter()
        asked = list(clients)
        orders = self.ordering.give(round_number, asked) if self.ordering else {}
        downlinks = {c: self._for(c, round_number, orders.get(c)) for c in asked}
        self.trip = RoundTraffic(round_number, downlinks, failures=dict(out or {}))
        self.trip.ordered = self.ordering is not None
        if self.buffers is not None:
            self.trip.asks_buffers = self.buffers.asked(round_number)
            beside = self.buffers.payload()
            downs = self.trip.downlinks.items()
            self.trip.downlinks = {c: replace(down, buffers=beside) for c, down in downs}
        self.trip.downlink_seconds = time.perf_counter() - start
        return self.trip

    def _for(self, client: int, round_number: int, order: Order | None) -> Downlink:
        """The model or its update, the client's order, and news of its last uplink."""
        news = told(round_number, self.applied.get(client, 0))
        return replace(self._model_or_update(client), news=news, order=order)

    def _model_or_update(self, client: int) -> Downlink:
        """The last update for a client that holds the version before it, else the whole model.

        Or the updates since its version, where they are shorter; none where the model has not moved
        since the client was asked.
        """
        if self.follows and self.base.get(client) == self.version:
            return Downlink(b"", "updates", dict.fromkeys(SPANS, 0))
        if self.last_update is not None and self.base.get(client) == self.version - 1:
            return self.last_update
        if self._model is None:
            beside = told_beside(self.downlink, self.memory, self.version)
            packet, _ = compress(Raw(), self.weights | beside)
            self._model = Downlink(packet.payload, "model", packet.spans, self.version > 0)
        if self.missed is None or client not in self.base:
            return self._model
        updates = self.missed.last(self.version - self.base[client]) or self._model
        return min(updates, self._model, key=lambda down: len(down.payload))

    def content(
        self, client: int, config: ConfigRecord, beside: RecordDict | None = None
    ) -> RecordDict:
        """The content of the message to ``client``: our record, with the settings of ``config``.

        ``beside``: other records of the message, which come first; None: in Flower's loop the
        settings of ``app``, in a record of their own, whose keys cannot be taken for ours.
        """
        self.told[client], down = (self.trip.round, self.version), self.trip.downlinks[client]
        record = RecordDict(dict(beside or {}))
        if beside is None and self.app is not None:
            record[CONFIG] = ConfigRecord({**self.app, "server-round": self.trip.round})
        asked = down.order.iterations if down.order else config.get("iterations")
        self.iterations[client] = asked if isinstance(asked, int) and asked > 0 else 1
        settings = {k: v for k, v in config.items() if isinstance(v, str | int | float | bool)}
        own: dict[str, str | int | float | bool | bytes] = {
            **settings, "kind": down.kind, ROUND: self.trip.round, VERSION: self.version,
            CLIENT: client, CHANNEL: self.channel,
        }  # fmt: skip
        if down.kind != "model":
            own[BASE] = self.base[client]
        if self.app is not None and client not in self.base:
            known = self.buffers.values if self.buffers else ()
            own[ENDS] = ends(self.uplink, self.downlink, known)
        own |= down.beside()
        if self.trip.asks_buffers:
            own[ASKED] = True
        if down.buffers:
            own[PAYLOAD] = down.buffers
        put(record, down.payload, **own)
        self.trip.wire.sent(client, record)
        return record

    def grant(self) -> list[int]:
        """Clients whose wish for the model is granted now; ``content`` is then the model."""
        wishes, self.trip.wishes = self.trip.wishes, []
        for client, first in [(client, self.trip.downlinks[client]) for client in wishes]:
            self.trip.unused.append((client, first))
            again = self._for(client, self.trip.round, first.order)
            self.trip.downlinks[client] = replace(again, buffers=first.buffers)
        return wishes

    def take(self, client: int, reply: Message, late: bool = False) -> None:
        """Books one reply: a decoded update, a wish for the model, or a failure with its reason.

        A client whose update arrived whole holds the version that it was sent. Of several replies
        of a client in a round the first update counts. ``late``: an earlier round asked for it.
        """
        if client in self.trip.uplinks:
            self.charge(client, reply)
            return
        if wants_model(reply) and client not in dict(self.trip.unused):
            self.base.pop(client, None)
            self.trip.wishes.append(client)
            self.trip.wire.came(client, reply, used=False)
            return
        start = time.perf_counter()
        try:
            asks = carries_buffers(reply) if late else self.trip.asks_buffers
            asked = self.buffers if asks else None
            check_round(reply, self.told[client][0] if late else self.trip.round)
            uplink, wanted = self.trip.asked_of(client, self.uplink)
            came = uplink_of(reply, uplink, self.weights, asked, wanted, self.max_norm)
            number = asked_in(reply) if late else None
            counted = self.lost.get(client, 0)  # of a client without its memory, all are new
            lost = came.lost - counted if came.lost >= counted else came.lost
            self.trip.uplinks[client] = replace(came, asked=number or 0, lost=lost)
            self.lost |= {client: came.lost} if came.lost != counted else {}
            self.base[client] = self.told[client][1] if late else self.version
            self.trip.failures.pop(client, None)  # an error may have come for it before
            self.trip.wire.came(client, reply, used=True)
        except (PayloadError, ValueError) as error:
            self.trip.failures[client] = str(error)
            self.charge(client, reply)
            is_last = asked_in(reply) == self.told.get(client, (None,))[0] is not None
            self.trip.dropped += [client] * (is_last and self.loses(client))
        self.trip.decode_seconds += time.perf_counter() - start

    def loses(self, client: int) -> bool:
        """Whether a client's last update, which is not used, is lost; it is counted here then."""
        if not loses(self.uplink, self.weights):
            return False
        self.lost[client] = self.lost.get(client, 0) + 1
        return True

    def refuse(self, client: int, reply: Message, why: str) -> None:
        """Books an update that was taken as a failure: beside those of others it cannot be used."""
        came = self.trip.uplinks.pop(client)
        del self.trip.wire.used[client]
        self.trip.failures[client] = why
        self.charge(client, reply)
        self.lost[client] = self.lost.get(client, 0) - came.lost  # its next message tells of them
        self.trip.dropped += [client] * self.loses(client)

    def charge(self, client: int, reply: Message) -> None:
        """Books the bits of an upload that is not used: not decodable, or of a round that is over.

        The client has sent them all the same. A reply without a payload has none.
        """
        self.trip.wire.came(client, reply, used=False)
        if bits := payload_bits(reply):
            booked = self.trip.failed_bits
            booked[client] = booked.get(client, 0) + bits

    def finish(self, required: int | None = None) -> dict[int, Uplink]:
        """The uplinks in client order; the buffers that came with them become the server's.

        Raises ``TooFewReplies`` if fewer than ``required`` (None: all that were asked) arrived
        whole.
        """
        check_enough(self.trip, required)
        uplinks = self.trip.uplinks = dict(sorted(self.trip.uplinks.items()))
        if self.buffers is not None and self.trip.asks_buffers:
            those = {c: up for c, up in uplinks.items() if up.buffers}  # one that is late has none
            if those:
                self.buffers.values = average_buffers(those, self.buffers.weighting)
        return uplinks

    def advance(self, delta: Mapping[str, Tensor]) -> None:
        """Moves the shared model by what receivers will decode of ``delta``.

        With the model every update of the round counts as applied.
        """
        if not self.follows:  # the model itself will be sent, and what is raw is what it was
            self.replace({n: x + delta[n] for n, x in self.weights.items()})
            return
        start = time.perf_counter()
        seed = derive(self.seed, "downlink", self.version)
        packet, self.memory = compress(self.downlink, delta, self.memory, seed)
        if self.version == 0:  # once a run: what follows goes by what was said to be sent
            check_decoded(self.downlink, packet, self.weights)
        self.weights = stepped(self.weights, self.downlink, packet.sent, self.memory)
        self._moved()
        self.last_update = Downlink(packet.payload, "update", packet.spans)
        if self.missed is not None:
            self.missed.add(self.last_update)
        self.trip.downlink_seconds += time.perf_counter() - start

    def replace(self, weights: Mapping[str, Tensor]) -> None:
        """Sets the shared model, which will be sent whole to everybody; as ``advance``."""
        self.weights, self.missed = dict(weights), Missed(weights) if self.missed else None
        self._moved()

    def _moved(self) -> None:
        self.version, self._model, self.last_update = self.version + 1, None, None
        self.applied |= {c: up.asked or self.trip.round for c, up in self.trip.uplinks.items()}

    def holds(self, weights: Mapping[str, Tensor]) -> bool:
        """Whether the shared model has these values."""
        mine = self.weights
        return {*mine} == {*weights} and all(torch.equal(x, weights[n]) for n, x in mine.items())

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold."""
        return server_memory.kept(self)

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        server_memory.put_back(self, tensors, values)
        self._model = None
