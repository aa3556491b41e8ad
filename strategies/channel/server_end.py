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
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from flwr.app import ConfigRecord, Message, RecordDict
from torch import Tensor

from compressors import Compressor, PayloadError, Raw, State, check_decoded, compress, derive
from compressors.bits import SPANS
from compressors.whole.memory import nest, unnest
from compressors.whole.returned import loses
from strategies.channel.acknowledge import CHANNEL, LIVES, write_applied
from strategies.channel.beside import APPLIED, BUFFERS, USUAL
from strategies.channel.catch_up import Missed
from strategies.channel.directions import sent_beside, stepped
from strategies.channel.payload import (
    BASE,
    CLIENT,
    CONFIG,
    ENDS,
    ROUND,
    SCORES,
    TIED,
    VERSION,
    payload_bits,
    put,
    tied,
)
from strategies.channel.replies import asked_in, uplink_of, wants_model
from strategies.channel.shortage import check_enough
from strategies.channel.traffic import Downlink, RoundTraffic, Uplink

_BY_CLIENT = ("base", "sent_last", "iterations", "applied", "lost")
"""What an end knows of each client, as attributes."""


class Side(Protocol):
    """Something that travels beside models and updates, at the server's end of a channel.

    Attributes:
        names: of its side payloads (``beside``).
    """

    @property
    def names(self) -> tuple[str, ...]: ...

    def write(self, round_number: int, downs: Mapping[int, Downlink]) -> dict[int, Downlink]:
        """The messages of a round, by client, with what stands in each beside the model."""
        ...

    def read(self, up: Uplink, said: ConfigRecord, down: Downlink | None) -> Uplink:
        """An uplink with what it says beside its update.

        Args:
            up: the update.
            said: what stands beside it in the reply.
            down: the message that asked for it; None: it was one of an earlier round.

        Raises ``ValueError`` or ``PayloadError`` where that is not what was asked for.
        """
        ...

    def close(self, uplinks: Mapping[int, Uplink]) -> None:
        """The round has these uplinks, in client order."""
        ...

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold."""
        ...

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        ...


class ServerEnd:
    """The server's end of a compressed channel to every client.

    Args:
        uplink: how clients encode their updates.
        downlink: how the server encodes the global update.
        weights: the initial model, known to all; float32 tensors by name.
        seed: for methods with random choices.
        sides: what travels beside models and updates, such as ``Buffers``.
        catch_up: whether a client that missed updates is sent these, where they are shorter.
        max_norm: the greatest L2 norm of an update, decoded: one above is not used; None: any.
        ties: which arrays may be one, as clients are told it (``payload.tied``); empty: none.

    Attributes:
        reads: what the algorithm reads messages of an ordered method as (``Algorithm.reads``).
        ends: what clients are told that both ends have to agree about, with the first message of
            Flower's own loop; empty: another loop.
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor,
        weights: Mapping[str, Tensor],
        seed: int = 0,
        sides: Sequence[Side] = (),
        catch_up: bool = False,
        max_norm: float | None = None,
        ties: str = "",
    ) -> None:
        self.uplink, self.downlink, self.seed, self.ties = uplink, downlink, seed, ties
        self.reads: Callable[[Compressor], Compressor] = lambda method: method
        self.sides, self.max_norm, self.ends = tuple(sides), max_norm, ""
        self.weights = {name: x.detach().clone() for name, x in weights.items()}
        self.memory: State = self._tied(downlink).init(self.weights)
        self.version, self.missed = 0, Missed(self.weights) if catch_up else None
        self.base: dict[int, int] = {}  # client -> version of the model it holds
        self.sent_last: dict[int, tuple[int, int]] = {}  # client -> round, version
        self.iterations: dict[int, int] = {}  # client -> how many it was asked for last
        self.applied: dict[int, int] = {}  # client -> round of its last update that was applied
        self.lost: dict[int, int] = {}  # client -> its lost updates that are counted, as it counts
        self.channel_id = LIVES * (2**23 + secrets.randbits(23))  # clients may know another server
        self.last_update: Downlink | None = None
        self.traffic = RoundTraffic(0)
        self._model: Downlink | None = None
        self._passed: list[tuple[int, Message, bool]] = []  # late, and whether it is lost
        self._closed = True  # whether the round has its replies
        self.app: ConfigRecord | None = None  # what Flower's loop tells apps; None: another loop

    def _tied(self, method: Compressor) -> Compressor:
        return tied(method, {TIED: self.ties})

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
        downs, known = {}, dict[tuple[int, bytes], tuple[Downlink, Downlink]]()
        for client in clients:
            news = write_applied(round_number, self.applied.get(client, 0))
            down = self._model_or_update(client)
            if (id(down), news) not in known:  # most clients are told the same
                known[id(down), news] = down, down.with_beside(APPLIED, news)
            downs[client] = known[id(down), news][1]
        for side in self.sides:
            downs = side.write(round_number, downs)
        names = dict.fromkeys([*USUAL, *(name for side in self.sides for name in side.names)])
        self.traffic = RoundTraffic(
            round_number, downs, failures=dict(out or {}), beside=tuple(names)
        )
        self.traffic.downlink_seconds = time.perf_counter() - start
        self._closed = False
        self._book_passed()
        return self.traffic

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
            beside = sent_beside(self.downlink, self.memory, self.version)
            packet, _ = compress(self._tied(Raw()), self.weights | beside)
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
        down = self.traffic.downlinks[client]
        self.sent_last[client] = self.traffic.round, self.version
        record = RecordDict(dict(beside or {}))
        if beside is None and self.app is not None:
            record[CONFIG] = ConfigRecord({**self.app, "server-round": self.traffic.round})
        asked = down.iterations or config.get("iterations")
        self.iterations[client] = asked if isinstance(asked, int) and asked > 0 else 1
        settings = {k: v for k, v in config.items() if isinstance(v, str | int | float | bool)}
        self._put(record, client, down, settings)
        self.traffic.wire.sent(client, record)
        return record

    def _put(
        self, record: RecordDict, client: int, down: Downlink,
        settings: Mapping[str, str | int | float | bool],
    ) -> None:  # fmt: skip
        own: dict[str, str | int | float | bool | bytes] = {
            **settings, "kind": down.kind, ROUND: self.traffic.round, VERSION: self.version,
            CLIENT: client, CHANNEL: self.channel_id,
        }  # fmt: skip
        if down.kind != "model":
            own[BASE] = self.base[client]
        if self.ends and client not in self.base:
            own[ENDS] = self.ends
        if self.ties:
            own[TIED] = self.ties
        put(record, down.payload, **own, **down.settings, **down.beside)

    def scoring(
        self, client: int, settings: Mapping[str, str], beside: RecordDict, buffers: bytes
    ) -> RecordDict:
        """The content of a message for evaluation: what ``client`` lacks of the model.

        Nothing moves: the client's next message for training is what it is without this one.

        Args:
            client: its number, or its node's where none is known.
            settings: what stands beside the payload.
            beside: other records of the message, to which ours is added.
            buffers: the server's, as a payload; empty: there are none.
        """
        down = self._model_or_update(client)
        if buffers:
            down = down.with_beside(BUFFERS, buffers)
        self.traffic.scoring[client] = down
        self._put(beside, client, down, {**settings, SCORES: True})
        return beside

    def grant(self) -> list[int]:
        """Clients whose wish for the model is granted now; ``content`` is then the model."""
        wishes, self.traffic.wishes = self.traffic.wishes, []
        for client, first in [(client, self.traffic.downlinks[client]) for client in wishes]:
            self.traffic.unused.append((client, first))
            again = self._model_or_update(client)
            self.traffic.downlinks[client] = replace(
                first, payload=again.payload, kind=again.kind, spans=again.spans,
                charged=again.charged,
            )  # fmt: skip
        return wishes

    def take(self, client: int, reply: Message, late: bool = False) -> None:
        """Books one reply: a decoded update, a wish for the model, or a failure with its reason.

        A client whose update arrived whole holds the version that it was sent. Of several replies
        of a client in a round the first update counts. ``late``: an earlier round asked for it.
        """
        if client in self.traffic.uplinks:
            self.charge(client, reply)
            return
        if wants_model(reply) and client not in dict(self.traffic.unused):
            self.base.pop(client, None)
            self.traffic.wishes.append(client)
            self.traffic.wire.came(client, reply, used=False)
            return
        start = time.perf_counter()
        try:
            down = None if late else self.traffic.downlinks.get(client)
            asked = self.sent_last[client][0] if late else self.traffic.round
            ordered = down and down.uplink
            uplink = self._tied(self.reads(ordered) if ordered else self.uplink)
            came, said = uplink_of(reply, asked, uplink, self.weights, self.max_norm)
            for side in self.sides:
                came = side.read(came, said, down)
            number = asked_in(reply) if late else None
            counted = self.lost.get(client, 0)  # of a client without its memory, all are new
            lost = came.lost - counted if came.lost >= counted else came.lost
            self.traffic.uplinks[client] = replace(came, asked=number or 0, lost=lost)
            self.lost |= {client: came.lost} if came.lost != counted else {}
            self.base[client] = self.sent_last[client][1] if late else self.version
            self.traffic.failures.pop(client, None)  # an error may have come for it before
            self.traffic.wire.came(client, reply, used=True)
        except (PayloadError, ValueError) as error:
            failed = self.traffic.refused if late else self.traffic.failures
            failed[client] = str(error)
            self.charge(client, reply)
            is_last = asked_in(reply) == self.sent_last.get(client, (None,))[0] is not None
            self.traffic.dropped += [client] * (is_last and self.loses(client))
        self.traffic.decode_seconds += time.perf_counter() - start

    def loses(self, client: int) -> bool:
        """Whether a client's last update, which is not used, is lost; it is counted here then."""
        if not loses(self.uplink, self.weights):
            return False
        self.lost[client] = self.lost.get(client, 0) + 1
        return True

    def refuse(self, client: int, reply: Message, why: str) -> None:
        """Books an update that was taken as a failure: beside those of others it cannot be used."""
        came = self.traffic.uplinks.pop(client)
        del self.traffic.wire.used[client]
        self.traffic.failures[client] = why
        self.charge(client, reply)
        self.lost[client] = self.lost.get(client, 0) - came.lost  # its next message tells of them
        self.traffic.dropped += [client] * self.loses(client)

    def pass_over(self, client: int, reply: Message, lost: bool) -> None:
        """Books an update of an earlier round that is not used: in this round, or in the next one.

        ``lost``: whether nothing can take it back.
        """
        self._passed.append((client, reply, lost))
        if not self._closed:
            self._book_passed()

    def _book_passed(self) -> None:
        for client, reply, lost in self._passed:
            self.charge(client, reply)
            self.traffic.dropped += [client] * lost
        self._passed = []

    def charge(self, client: int, reply: Message) -> None:
        """Books the bits of an upload that is not used: not decodable, or of a round that is over.

        The client has sent them all the same. A reply without a payload has none.
        """
        self.traffic.wire.came(client, reply, used=False)
        if bits := payload_bits(reply):
            booked = self.traffic.failed_bits
            booked[client] = booked.get(client, 0) + bits

    def finish(self, required: int | None = None) -> dict[int, Uplink]:
        """The uplinks in client order.

        Raises ``TooFewReplies`` if fewer than ``required`` (None: all that were asked) arrived
        whole.
        """
        self._closed = True
        check_enough(self.traffic, required)
        uplinks = self.traffic.uplinks = dict(sorted(self.traffic.uplinks.items()))
        for side in self.sides:
            side.close(uplinks)
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
        downlink = self._tied(self.downlink)
        packet, self.memory = compress(downlink, delta, self.memory, seed)
        if self.version == 0:  # once a run: what follows goes by what was said to be sent
            check_decoded(downlink, packet, self.weights)
        self.weights = stepped(self.weights, self.downlink, packet.sent, self.memory)
        self._moved()
        self.last_update = Downlink(packet.payload, "update", packet.spans)
        if self.missed is not None:
            self.missed.add(self.last_update)
        self.traffic.downlink_seconds += time.perf_counter() - start

    def replace(self, weights: Mapping[str, Tensor]) -> None:
        """Sets the shared model, which will be sent whole to everybody; as ``advance``."""
        self.weights, self.missed = dict(weights), Missed(weights) if self.missed else None
        self._moved()

    def _moved(self) -> None:
        self.version, self._model, self.last_update = self.version + 1, None, None
        number, uplinks = self.traffic.round, self.traffic.uplinks
        self.applied |= {client: up.asked or number for client, up in uplinks.items()}

    def holds(self, weights: Mapping[str, Tensor]) -> bool:
        """Whether the shared model has these values."""
        mine = self.weights
        return {*mine} == {*weights} and all(torch.equal(x, weights[n]) for n, x in mine.items())

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold."""
        last = self.last_update
        values: dict[str, Any] = {
            "version": self.version,
            "round": self.traffic.round,
            "channel_id": self.channel_id,
            "update": b64encode(last.payload).decode() if last else None,
            "spans": last.spans if last else None,
            "missed": self.missed.state() if self.missed is not None else None,
        }
        if self.ties:
            values["ties"] = self.ties
        for name in _BY_CLIENT:
            values[name] = {str(client): known for client, known in getattr(self, name).items()}
        tensors = nest("weights", self.weights) | nest("downlink", self.memory)
        for place, side in enumerate(self.sides):
            memory, values[f"side {place}"] = side.state()
            tensors |= nest(f"side-{place}", memory)
        return tensors, values

    def go_on(self, life: int) -> None:
        """Tells clients, who may be ahead of what was restored, that the server was killed.

        ``life``: how often it was.
        """
        self.channel_id = self.channel_id // LIVES * LIVES + life

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        self.weights, self.memory = unnest("weights", tensors), unnest("downlink", tensors)
        self.version, self.channel_id, self._model = values["version"], values["channel_id"], None
        self.traffic = RoundTraffic(values.get("round", 0))
        for name in _BY_CLIENT:
            known = {int(client): value for client, value in values[name].items()}
            setattr(self, name, known)
        self.sent_last = {client: (number, version) for client, (number, version)
                          in self.sent_last.items()}  # fmt: skip
        if values["update"] is not None:
            self.last_update = Downlink(b64decode(values["update"]), "update", values["spans"])
        if self.missed is not None:
            self.missed.restore(values["missed"])
        for place, side in enumerate(self.sides):
            side.restore(unnest(f"side-{place}", tensors), values[f"side {place}"])
