"""Downlink policies: what the server sends to each client, and how its model moves by that.

A channel has one downlink policy:

* ``WholeModel``: the model, raw; it moves by exactly the global update.
* ``Updates``: the global update, compressed, to a client that holds the version before; the server
  moves by what clients decode. With ``catch_up`` a client that missed updates is sent these, where
  they are shorter than the model. Source: Sattler et al. 2018, Algorithm 1, lines 8, 9 and 19.
* ``Relayed``: the others' messages as they came; every client makes the mean itself (``relay``).
* ``Differences``: the change since the model that a client holds, of which the server keeps a copy.
  Source: Aji & Heafield 2017, section 4: deltas from the last version pulled by the client.

A client of which the server does not know what it holds is sent the whole model.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from compressors import (
    Compressor,
    PayloadError,
    Raw,
    State,
    Tensors,
    check_decoded,
    compress,
    derive,
)
from compressors.bits import SPANS, Span
from compressors.whole.memory import nest, unnest
from strategies.channel.acknowledge import read_varint, varint
from strategies.channel.directions import sent_with_model, stepped
from strategies.channel.packing import Stored
from strategies.channel.payload import TIED, tied
from strategies.channel.relay import Relay, join
from strategies.channel.traffic import Downlink, Uplinks


def join_updates(payloads: Sequence[bytes]) -> bytes:
    """Several payloads as one.

    Example:
        >>> joined = join_updates([b"ab", b"c"])
        >>> joined, split_updates(joined, 2)
        (b'\\x02ab\\x01c', [b'ab', b'c'])
    """
    return b"".join(varint(len(payload)) + payload for payload in payloads)


def split_updates(payload: bytes, count: int) -> list[bytes]:
    """The payloads that ``join_updates`` joined; ``PayloadError`` where they are not ``count``."""
    parts, place = list[bytes](), 0
    while place < len(payload):
        length, place = read_varint(payload, place)
        parts.append(payload[place : place + length])
        place += length
    if len(parts) != count or place != len(payload):
        raise PayloadError(f"{count} updates were missed and the message holds {len(parts)}")
    return parts


def join_downlinks(updates: Sequence[Downlink]) -> Downlink:
    """Several updates as one message."""
    payload = join_updates([update.payload for update in updates])
    spans = {key: sum(update.spans[key] for update in updates) for key in updates[0].spans}
    spans["header"] += 8 * (len(payload) - sum(len(update.payload) for update in updates))
    return Downlink(payload, "updates", spans)


def _packed(update: Downlink) -> dict[str, Any]:
    """An update as JSON can hold it."""
    return {"payload": b64encode(update.payload).decode(), "spans": update.spans}


def _unpacked(payload: str, spans: dict[Span, int]) -> Downlink:
    return Downlink(b64decode(payload), "update", spans)


NOTHING = Downlink(b"", "updates", dict.fromkeys(SPANS, 0))
"""To a client that holds the server's version."""


class ClientView(NamedTuple):
    """The server's knowledge of a client when it sends a message to it.

    ``number``: of the message; ``base``: the version that the client holds, -1 where that is not
    known; ``version``, ``weights``: the server's; ``model``: makes the whole model's message, with
    other tensors that the policy sends with it.
    """

    client: int
    number: int
    base: int
    version: int
    weights: Tensors
    model: Callable[..., Downlink]


class WholeModel:
    """The raw model to everybody; for other policies what they do where they do nothing else.

    Attributes:
        follows: whether clients keep the model and are sent updates.
        by_client: whether clients that hold the same version are sent unlike messages.
    """

    follows = False
    by_client = False

    def request(self, view: ClientView) -> Downlink:
        """The message to a client."""
        return view.model()

    def advance(self, weights: Tensors, delta: Tensors, version: int, uplinks: Uplinks) -> State:
        """The model number ``version`` moved by ``delta``, the round's global update."""
        return {name: x + delta[name] for name, x in weights.items()}

    def replaced(self, weights: Tensors) -> None:
        """The model was set anew: nothing of before leads to it."""

    def answered(self, client: int, used: bool, refused: bool) -> bool:
        """A client's message has its reply; returns whether it is unknown what the client holds.

        ``used``: its update is; ``refused``: it came, and is not.
        """
        return False

    def forget(self, client: int) -> None:
        """Notes that it is unknown what a client holds."""

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold."""
        return {}, {}

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""


class Updates(WholeModel):
    """The global update, compressed, as all clients decode it.

    Attributes:
        last: the last global update's message; None: the model was set, or has not moved.
    """

    follows = True

    def __init__(
        self, downlink: Compressor, weights: Tensors, seed: int, catch_up: bool, ties: str
    ) -> None:
        self.downlink, self.seed = downlink, seed
        self.method = tied(downlink, {TIED: ties})
        self.memory: State = self.method.init(weights)
        self.last: Downlink | None = None
        self.catch_up = catch_up
        self._missed: list[Downlink] = []  # the last, together no longer than the model as float32
        self._limit = sum(4 * x.numel() for x in weights.values())

    def request(self, view: ClientView) -> Downlink:
        """The updates since the client's version, where the server has them."""
        lacks = view.version - view.base
        if lacks == 0:
            return NOTHING
        if self.last is not None and lacks == 1:
            return self.last
        model = view.model(sent_with_model(self.downlink, self.memory, view.version))
        if view.base < 0 or lacks > len(self._missed):
            return model
        return min(join_downlinks(self._missed[-lacks:]), model, key=lambda x: len(x.payload))

    def advance(self, weights: Tensors, delta: Tensors, version: int, uplinks: Uplinks) -> State:
        seed = derive(self.seed, "downlink", version)
        packet, self.memory = compress(self.method, delta, self.memory, seed)
        if version == 0:  # once a run: what follows goes by what was said to be sent
            check_decoded(self.method, packet, weights)
        self.last = Downlink(packet.payload, "update", packet.spans)
        if self.catch_up:
            self._missed.append(self.last)
            while sum(len(update.payload) for update in self._missed) > self._limit:
                self._missed.pop(0)
        return stepped(weights, self.downlink, packet.sent, self.memory)

    def replaced(self, weights: Tensors) -> None:
        self.last, self._missed = None, []

    def state(self) -> tuple[State, dict[str, Any]]:
        last = _packed(self.last) if self.last else {}
        return nest("downlink", self.memory), {
            "update": last.get("payload"),
            "spans": last.get("spans"),
            "missed": [*map(_packed, self._missed)] if self.catch_up else None,
        }

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        self.memory = unnest("downlink", tensors)
        if values["update"] is not None:
            self.last = _unpacked(values["update"], values["spans"])
        self._missed = [_unpacked(**update) for update in values["missed"] or ()]


@dataclass(frozen=True)
class Message:
    """A client's message of a round, as the server relays it."""

    payload: bytes
    spans: dict[Span, int]
    samples: int


class Relayed(WholeModel):
    """The messages of which the server made its last update, to each client without its own.

    With ``catch_up`` a client that missed rounds is sent the messages of all of them, where these
    are shorter than the model.

    Attributes:
        by_samples: whether the mean is by samples, whose numbers then travel.
    """

    follows = True
    by_client = True

    def __init__(self, weights: Tensors, catch_up: bool) -> None:
        self.catch_up, self.by_samples = catch_up, False
        self._rounds: list[dict[int, Message]] = []  # by client: what made the last updates
        self._limit = sum(4 * x.numel() for x in weights.values())  # the model, as float32

    def request(self, view: ClientView) -> Downlink:
        """The others' messages of the rounds that a client lacks, else the model."""
        lacks, client = view.version - view.base, view.client
        if lacks == 0:
            return NOTHING
        missed = self._rounds[-lacks:] if lacks <= len(self._rounds) else []
        parts = [self._joined(messages, client) for messages in missed]
        payload = parts[0] if len(parts) == 1 else join_updates(parts)
        again = sum(client in messages for messages in missed) > 1  # it keeps its last message
        if not missed or again or (lacks > 1 and len(payload) > self._limit):
            return view.model()
        others = [
            message.spans
            for messages in missed
            for sender, message in messages.items()
            if sender != client
        ]
        spans: dict[Span, int] = {name: sum(of[name] for of in others) for name in SPANS}
        spans["header"] += 8 * len(payload) - sum(spans.values())
        return Downlink(payload, "relay", spans)

    def _joined(self, messages: Mapping[int, Message], client: int) -> bytes:
        """The messages of a round as they are sent to ``client``."""
        sent, senders = list(messages.values()), list(messages)
        own_index = senders.index(client) if client in senders else None
        samples = [message.samples for message in sent] if self.by_samples else []
        return join([message.payload for message in sent], own_index, samples)

    def advance(self, weights: Tensors, delta: Tensors, version: int, uplinks: Uplinks) -> State:
        """Moved by the mean that all make of ``uplinks``."""
        self._rounds = [
            *(self._rounds if self.catch_up else []),
            {
                client: Message(up.payload, up.spans, int(up.samples))
                for client, up in uplinks.items()
            },
        ]
        while len(self._rounds) > 1 and self._limit < sum(
            len(message.payload) for messages in self._rounds for message in messages.values()
        ):
            self._rounds.pop(0)
        return super().advance(weights, delta, version, uplinks)

    def replaced(self, weights: Tensors) -> None:
        self._rounds = []

    def state(self) -> tuple[State, dict[str, Any]]:
        relayed = [
            {
                str(client): vars(message) | {"payload": b64encode(message.payload).decode()}
                for client, message in messages.items()
            }
            for messages in self._rounds
        ]
        return {}, {"relayed": relayed}

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        relayed = values["relayed"]
        self._rounds = [
            {
                int(client): Message(**message | {"payload": b64decode(message["payload"])})
                for client, message in messages.items()
            }
            for messages in (relayed if isinstance(relayed, list) else [relayed])  # once: one round
        ]


class Differences(WholeModel):
    """The change since the model that a client holds; the model moves by exactly its updates.

    The part that a lossy method omits is in the next difference, so the copies are the downlink's
    memory. A residual of the method would count that part twice, so it is not kept.
    """

    follows = True
    by_client = True

    def __init__(self, downlink: Compressor, seed: int) -> None:
        self.downlink, self.seed = downlink, seed
        self._copies: dict[int, Tensors] = {}
        self._sent_copies: dict[int, Tensors] = {}  # to clients that have not answered yet
        self._checked = False

    def request(self, view: ClientView) -> Downlink:
        """The difference to the client's copy; at first, the model."""
        client, copy = view.client, self._copies.get(view.client)
        if copy is None:
            self._sent_copies[client] = view.weights
            return view.model()
        delta = {name: x - copy[name] for name, x in view.weights.items()}
        seed = derive(self.seed, "downlink", client, view.number)
        packet, _ = compress(self.downlink, delta, None, seed)
        if not self._checked:
            check_decoded(self.downlink, packet, view.weights)
            self._checked = True
        self._sent_copies[client] = {n: x + packet.sent[n].decoded for n, x in copy.items()}
        return Downlink(packet.payload, "update", packet.spans)

    def answered(self, client: int, used: bool, refused: bool) -> bool:
        """A refused client went on to what it was given, unlike after an error."""
        copy = self._sent_copies.pop(client)
        if used:
            self._copies[client] = copy
        elif refused:
            self.forget(client)
        return refused

    def forget(self, client: int) -> None:
        self._copies.pop(client, None)

    def state(self) -> tuple[State, dict[str, Any]]:
        stored = Stored(())
        values = {"copies": stored.pack([self._copies, self._sent_copies])}
        return nest("copies", stored.tensors), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        stored = Stored((), unnest("copies", tensors))
        self._copies, self._sent_copies = stored.unpack(values["copies"])


def policy_of(
    downlink: Compressor, weights: Tensors, seed: int, catch_up: bool, ties: str
) -> WholeModel:
    """The policy of a downlink; the arguments are those of the policies.

    Example:
        >>> from compressors import sbc
        >>> downlinks = Raw(), sbc(0.1), Relay()
        >>> [type(policy_of(down, {}, 0, False, "")).__name__ for down in downlinks]
        ['WholeModel', 'Updates', 'Relayed']
    """
    if isinstance(downlink, Raw):
        return WholeModel()
    if isinstance(downlink, Relay):
        return Relayed(weights, catch_up)
    return Updates(downlink, weights, seed, catch_up, ties)
