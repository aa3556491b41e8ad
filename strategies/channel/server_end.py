"""The server's end of the channel: which model each client is sent, and what its reply says.

The twin of ``client_end``. The server's model changes by exactly what its clients decode, so that
all who follow hold the same weights bit for bit. Every model has a version, a number. The downlink
policy (``downlinks``) says what a client is sent that holds some version. A client that does not
hold what the server believes (it was restarted) asks for the whole model, and is sent it in the
same round.

Clients are asked a round at a time (``begin``, ``take``, ``finish``), or one at a time (``ask``,
``arrive``). Then every message is a round of its own: its number (``round``, on the wire) counts
the messages to its client, 1, 2, ...; the acknowledgement and the seeds of random methods go by it.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from flwr.app import ConfigRecord, Message, RecordDict

from compressors import Compressor, PayloadError, Raw, State, Tensors, compress
from compressors.whole.feedback import loses
from compressors.whole.memory import nest, unnest
from strategies.channel.acknowledge import CHANNEL, LIVES, write_applied
from strategies.channel.downlinks import ClientView, WholeModel, policy_of
from strategies.channel.framing import Travel, Wire, book, of_reply, to_client
from strategies.channel.orders import Side
from strategies.channel.packing import Stored
from strategies.channel.payload import (
    APPLIED,
    BASE,
    BUFFERS,
    CLIENT,
    CONFIG,
    ENDS,
    ROUND,
    SCORES,
    TIED,
    USUAL,
    VERSION,
    WANTS,
    Draft,
    payload_bits,
    tied,
)
from strategies.channel.replies import answered_round, check_enough, reply_settings, uplink_of
from strategies.channel.traffic import Arrival, Downlink, Request, RoundTraffic, Uplink

_BY_CLIENT = ("base", "sent_last", "iterations", "applied", "lost")
"""What an end knows of each client, as attributes."""

KINDS = (Arrival, Request, RoundTraffic, Downlink, Uplink, Wire, Travel)
"""What a checkpoint holds of messages that have no reply yet."""

OVERDUE = "its update came after the deadline"

_GONE = "the client does not hold the model that the server believes"


Late = Callable[["ServerEnd", int, Message, bool], bool]
"""The policy for a client's reply with an update of an earlier round, or one after its deadline: it
decides, before the client is asked anew, and returns whether it has. If not, it is called again.
The last argument: whether a round has its replies and has not moved the model yet."""


class ServerEnd:
    """The server's end of a compressed channel to every client.

    Args:
        uplink: how clients encode their updates.
        downlink: how the server encodes the global update.
        weights: the initial model, known to all; float32 tensors by name.
        seed: for methods with random choices.
        sides: the side payloads of models and updates, such as ``Buffers``.
        catch_up: whether a client that missed updates is sent these, where they are shorter.
        max_norm: the greatest L2 norm of an update, decoded: one above is not used; None: any.
        ties: which arrays may be one, as in messages' settings (``payload.tied``); empty: none.
        policy: of the downlink; None: the usual one (``downlinks.policy_of``).

    Attributes:
        in_flight: by client, its request, where clients are asked one at a time.
        count: by client, how many messages it was sent in this way.
        reads: the method by which the algorithm reads messages of an ordered method
            (``Algorithm.reads``).
        ends: the settings that must be equal at both ends, sent with the first message of Flower's
            own loop; empty: another loop.

    Example:
        >>> import torch
        >>> end = ServerEnd(Raw(), Raw(), {"w": torch.zeros(2)})
        >>> _ = end.ask(3, ConfigRecord())
        >>> end.in_flight[3].version, end.in_flight[3].traffic.round
        (0, 1)
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor,
        weights: Tensors,
        seed: int = 0,
        sides: Sequence[Side] = (),
        catch_up: bool = False,
        max_norm: float | None = None,
        ties: str = "",
        policy: WholeModel | None = None,
    ) -> None:
        self.uplink, self.downlink, self.seed, self.ties = uplink, downlink, seed, ties
        self.reads: Callable[[Compressor], Compressor] = lambda method: method
        self.sides, self.max_norm, self.ends = tuple(sides), max_norm, ""
        self.weights = {name: x.detach().clone() for name, x in weights.items()}
        self.policy = policy or policy_of(downlink, self.weights, seed, catch_up, ties)
        self.version = 0
        self.base: dict[int, int] = {}  # client -> version of the model it holds
        self.sent_last: dict[int, tuple[int, int]] = {}  # client -> round, version
        self.iterations: dict[int, int] = {}  # client -> how many it was asked for last
        self.applied: dict[int, int] = {}  # client -> round of its last update that was applied
        self.lost: dict[int, int] = {}  # client -> its lost updates that are counted, as it counts
        self.channel_id = LIVES * (2**23 + secrets.randbits(23))  # clients may know another server
        self.in_flight: dict[int, Request] = {}
        self.count: dict[int, int] = {}
        self.traffic = RoundTraffic(0)
        self._model: Downlink | None = None
        self._passed: list[tuple[int, Message, bool]] = []  # late, and whether it is lost
        self._closed = True  # whether the round has its replies
        self._draft = Draft()
        self.app: ConfigRecord | None = None  # what Flower's loop tells apps; None: another loop

    @property
    def follows(self) -> bool:
        """Whether clients keep the model and are sent updates (never with a raw downlink)."""
        return self.policy.follows

    def ask(self, client: int, config: ConfigRecord) -> RecordDict:
        """The content of the next message to ``client``, who has answered all before it."""
        number = self.count[client] = self.count.get(client, 0) + 1
        traffic = self.begin(number, [client])
        content = self.content(client, config)
        self.in_flight[client] = Request(traffic, self.version, self.weights)
        return content

    def arrive(self, client: int, reply: Message, late: Late | None = None) -> Arrival:
        """Books the reply of ``client`` to its last message.

        An update counts as applied when the server has accepted it: from then on only the server
        decides when it moves the model.

        ``late``: the policy for one that came after its deadline; None: it is accepted.
        """
        request = self.in_flight.pop(client)
        self.traffic, self._closed = request.traffic, False  # what comes is booked at once
        if late is None:
            self.take(client, reply)
        else:
            late(self, client, reply, True)
            request.traffic.failures[client] = OVERDUE
        if request.traffic.wishes:
            request.traffic.wishes.clear()
            request.traffic.failures[client] = _GONE
        uplink = request.traffic.uplinks.get(client)
        if uplink is not None:
            self.base[client] = request.version  # the model may have moved since
            self.applied[client] = request.traffic.round
        used, has_content = uplink is not None, reply.has_content()
        if self.policy.answered(client, used, has_content and not used):
            self.base.pop(client, None)
        return Arrival(client, request, self.version - request.version, uplink)

    def begin(
        self, round_number: int, clients: Iterable[int], out: Mapping[int, str] | None = None
    ) -> RoundTraffic:
        """Starts a round: decides what each of ``clients`` is sent.

        ``out``: clients of the cohort that are sent nothing, with the reason.
        """
        start = time.perf_counter()
        downs, sent = {}, dict[tuple[int, int], Downlink]()
        for client in clients:
            same = _, applied = self.base.get(client, -1), self.applied.get(client, 0)
            if same not in sent or self.policy.by_client:  # most clients are sent the same
                acknowledged = write_applied(round_number, applied)
                sent[same] = self.lacks(client).with_side_payload(APPLIED, acknowledged)
            downs[client] = sent[same]
        for side in self.sides:
            downs = side.write(round_number, downs)
        names = dict.fromkeys([*USUAL, *(name for side in self.sides for name in side.names)])
        self.traffic = RoundTraffic(
            round_number, downs, failures=dict(out or {}), side_names=tuple(names)
        )
        self.traffic.downlink_seconds = time.perf_counter() - start
        self._closed = False
        if self._passed:
            self._book_passed()
        return self.traffic

    def lacks(self, client: int) -> Downlink:
        """What the downlink policy sends a client of the model now; nothing moves."""
        number, base = self.count.get(client, 0), self.base.get(client, -1)
        view = ClientView(client, number, base, self.version, self.weights, self._whole_model)
        return self.policy.request(view)

    def _whole_model(self, others: Tensors | None = None) -> Downlink:
        """The whole model, raw, with ``others``; the initial one is not charged."""
        if self._model is None:
            weights = {**self.weights, **(others or {})}
            packet, _ = compress(tied(Raw(), {TIED: self.ties}), weights)
            self._model = Downlink(packet.payload, "model", packet.spans, self.version > 0)
        return self._model

    def content(
        self, client: int, config: Mapping[str, Any], others: RecordDict | None = None
    ) -> RecordDict:
        """The content of the message to ``client``: our record, with the settings of ``config``.

        ``others``: other records of the message, which come first; None: in Flower's loop the
        settings of ``app``, in a record of their own, whose keys cannot be taken for ours.
        """
        down = self.traffic.downlinks[client]
        self.sent_last[client] = self.traffic.round, self.version
        record = RecordDict(dict(others or {}))
        if others is None and self.app is not None:
            record[CONFIG] = ConfigRecord({**self.app, "server-round": self.traffic.round})
        settings = {k: v for k, v in config.items() if isinstance(v, str | int | float | bool)}
        steps = down.iterations or settings.get("iterations")
        self.iterations[client] = steps if isinstance(steps, int) and steps > 0 else 1
        self._put(record, client, down, settings)
        travels, bits = self._draft.travels, client.bit_length()
        if others is not None or self.app is not None:  # and so other records
            travels = {}
        if bits not in travels:  # nothing else of the message differs between clients
            travels[bits] = to_client(record)
        book(self.traffic.wire.requests, client, travels[bits])
        return record

    def _put(
        self,
        record: RecordDict,
        client: int,
        down: Downlink,
        settings: Mapping[str, str | int | float | bool],
    ) -> None:
        fields: dict[str, str | int | float | bool | bytes] = {
            **settings,
            "kind": down.kind,
            ROUND: self.traffic.round,
            VERSION: self.version,
            CLIENT: client,
            CHANNEL: self.channel_id,
        }
        if down.kind != "model":
            fields[BASE] = self.base[client]
        if self.ends and client not in self.base:
            fields[ENDS] = self.ends
        if self.ties:
            fields[TIED] = self.ties
        self._draft.put(
            record, client, down.payload, {**fields, **down.settings, **down.side_payloads}
        )

    def scoring(
        self, client: int, settings: Mapping[str, str], others: RecordDict, buffers: bytes
    ) -> RecordDict:
        """The content of a message for evaluation: what ``client`` lacks of the model.

        Nothing moves: the client's next message for training is what it is without this one.
        ``client`` is its number, or its node's where none is known; ``buffers``: the server's, as a
        payload; empty: there are none.
        """
        down = self.lacks(client)
        if buffers:
            down = down.with_side_payload(BUFFERS, buffers)
        self.traffic.scoring[client] = down
        self._put(others, client, down, {**settings, SCORES: True})
        return others

    def grant(self) -> list[int]:
        """Clients whose wish for the model is granted now; ``content`` is then the model."""
        wishes, self.traffic.wishes = self.traffic.wishes, []
        for client, first in [(client, self.traffic.downlinks[client]) for client in wishes]:
            self.traffic.unused.append((client, first))
            again = self.lacks(client)
            self.traffic.downlinks[client] = replace(
                first,
                payload=again.payload,
                kind=again.kind,
                spans=again.spans,
                charged=again.charged,
            )
        return wishes

    def take(self, client: int, reply: Message, late: bool = False) -> None:
        """Books one reply: a decoded update, a wish for the model, or a failure with its reason.

        A client whose update arrived whole holds the version that it was sent. Of several replies
        of a client in a round the first update counts. ``late``: an earlier round asked for it.
        """
        if client in self.traffic.uplinks:
            self.charge(client, reply)
            return
        settings = reply_settings(reply)
        if settings.get(WANTS) == "model" and client not in dict(self.traffic.unused):
            self.base.pop(client, None)
            self.traffic.wishes.append(client)
            book(self.traffic.wire.unused, client, of_reply(reply))
            return
        start = time.perf_counter()
        try:
            down = None if late else self.traffic.downlinks.get(client)
            round_number = self.sent_last[client][0] if late else self.traffic.round
            ordered = down and down.uplink
            uplink = self.reads(ordered) if ordered else self.uplink
            uplink = tied(uplink, {TIED: self.ties})
            up = uplink_of(reply, settings, round_number, uplink, self.weights, self.max_norm)
            for side in self.sides:
                up = side.read(up, settings, down)
            number = answered_round(reply) if late else None
            counted = self.lost.get(client, 0)  # of a client without its memory, all are new
            self.lost |= {client: up.lost} if up.lost != counted else {}
            lost = up.lost - counted if up.lost >= counted else up.lost
            if number or lost != up.lost:
                up = replace(up, earlier_round=number or 0, lost=lost)
            self.traffic.uplinks[client] = up
            self.base[client] = self.sent_last[client][1] if late else self.version
            self.traffic.failures.pop(client, None)  # an error may have come for it before
            book(self.traffic.wire.used, client, of_reply(reply))
        except (PayloadError, ValueError) as error:
            failed = self.traffic.refused if late else self.traffic.failures
            failed[client] = str(error)
            trace = (reply.error.reason or "") if reply.has_error() else ""
            if "\n" in trace:
                self.traffic.traces[client] = trace
            self.charge(client, reply)
            is_last = answered_round(reply) == self.sent_last.get(client, (None,))[0] is not None
            self.traffic.dropped += [client] * (is_last and self.loses(client))
        self.traffic.decode_seconds += time.perf_counter() - start

    def loses(self, client: int) -> bool:
        """Whether a client's last update, which is not used, is lost; it is counted here then."""
        if not loses(self.uplink, self.weights):
            return False
        self.lost[client] = self.lost.get(client, 0) + 1
        return True

    def refuse(self, client: int, reply: Message, reason: str) -> None:
        """Books an accepted update as a failure: it cannot be averaged with the others."""
        up = self.traffic.uplinks.pop(client)
        del self.traffic.wire.used[client]
        self.traffic.failures[client] = reason
        self.charge(client, reply)
        self.lost[client] = self.lost.get(client, 0) - up.lost  # its next message counts them
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
        book(self.traffic.wire.unused, client, of_reply(reply))
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
        self.traffic.uplinks = dict(sorted(self.traffic.uplinks.items()))
        for side in self.sides:
            side.close(self.traffic)
        return self.traffic.uplinks

    def advance(self, delta: Tensors) -> None:
        """Moves the shared model by what receivers will decode of ``delta``.

        With the model every update of the round counts as applied.
        """
        start = time.perf_counter()
        uplinks = self.traffic.uplinks
        self.weights = self.policy.advance(self.weights, delta, self.version, uplinks)
        self._moved()
        self.traffic.downlink_seconds += time.perf_counter() - start

    def replace(self, weights: Tensors) -> None:
        """Sets the shared model, which will be sent whole to everybody; as ``advance``."""
        self.weights = dict(weights)
        self.policy.replaced(weights)
        self._moved()

    def _moved(self) -> None:
        self.version, self._model = self.version + 1, None
        number, uplinks = self.traffic.round, self.traffic.uplinks
        self.applied |= {client: up.earlier_round or number for client, up in uplinks.items()}

    def forget(self, client: int) -> None:
        """Notes that it is unknown what a client holds: it is sent the whole model next."""
        self.policy.forget(client)
        self.base.pop(client, None)

    def holds(self, weights: Tensors) -> bool:
        """Whether the shared model has these values."""
        shared = self.weights
        return {*shared} == {*weights} and all(
            torch.equal(x, weights[n]) for n, x in shared.items()
        )

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold."""
        moved, values = self.policy.state()
        values |= {
            "version": self.version,
            "round": self.traffic.round,
            "channel_id": self.channel_id,
        }
        if self.ties:
            values["ties"] = self.ties
        for name in _BY_CLIENT:
            values[name] = {str(client): value for client, value in getattr(self, name).items()}
        tensors = nest("weights", self.weights) | moved
        if self.count:
            stored = Stored(KINDS)
            in_flight = {client: _without_method(client, x) for client, x in self.in_flight.items()}
            values |= {"count": stored.pack(self.count), "asked": stored.pack(in_flight)}
            tensors |= nest("asked", stored.tensors)
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
        self.weights = unnest("weights", tensors)
        self.policy.restore(tensors, values)
        self.version, self.channel_id, self._model = values["version"], values["channel_id"], None
        self.traffic = RoundTraffic(values.get("round", 0))
        for name in _BY_CLIENT:
            by_client = {int(client): value for client, value in values[name].items()}
            setattr(self, name, by_client)
        self.sent_last = {
            client: (number, version) for client, (number, version) in self.sent_last.items()
        }
        for place, side in enumerate(self.sides):
            side.restore(unnest(f"side-{place}", tensors), values[f"side {place}"])
        if "asked" in values:
            stored = Stored(KINDS, unnest("asked", tensors))
            self.count = stored.unpack(values["count"])
            self.in_flight = stored.unpack(values["asked"])
        for client, request in self.in_flight.items():
            downs = request.traffic.downlinks
            for side in self.sides:
                downs[client] = side.again(downs[client])


def _without_method(client: int, request: Request) -> Request:
    """The message, whose order names the method, without it."""
    down = request.traffic.downlinks[client]
    if down.uplink is None:
        return request
    traffic = replace(request.traffic, downlinks={client: replace(down, uplink=None)})
    return replace(request, traffic=traffic)
