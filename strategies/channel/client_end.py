"""The client's end of the channel: from a message to the model, from an update to the reply.

The twin of ``server_end``. A client's memory between rounds is an argument and a result, as a
compressor's memory is, so a client that fails keeps the memory that it had:

* ``base/...``: the model that it holds, where the server sends updates of it, and ``version``, the
  model's number;
* ``uplink/...``: the method's memory, such as residuals;
* ``pending/...``: its last message, until the server says whether that counts (``acknowledge``).
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, RecordDict

from compressors import (
    Compressor,
    Packet,
    Raw,
    State,
    Tensors,
    check_decoded,
    compress,
    decompress,
    derive,
)
from compressors.message import Upload
from compressors.whole.feedback import EF21, holds
from compressors.whole.memory import nest, unnest
from strategies.channel import directions
from strategies.channel.acknowledge import (
    PAYLOAD_KEPT,
    Ack,
    of_channel,
    pending,
    placed,
    stored_number,
    take_ack,
    write_outcome,
)
from strategies.channel.buffers import BUFFERS_UP, from_payload
from strategies.channel.downlinks import split_updates
from strategies.channel.payload import (
    BASE,
    BUFFERS,
    ENDS,
    KEY,
    ROUND,
    SCORES,
    TIED,
    VERSION,
    WANTS,
    Settings,
    ends,
    payload_in,
    put,
    read_settings,
    tied,
)
from strategies.channel.relay import Means, Relay, includes_own

_RAW = Raw()


class NoBase(LookupError):
    """A client is sent an update of a model that it does not hold."""


@dataclass(frozen=True)
class Delivery:
    """A decoded downlink.

    ``weights``: the server's model; ``buffers``: the server's buffers, if it sent them;
    ``settings``: of the message; ``first``: whether the client remembers nothing of this channel;
    ``ack``: the method's memory, and whether the client's previous message was applied; ``base``:
    the model, with the tensors of ``directions``; ``uplink``: how the client answers; ``seed``: of
    the run; ``samples``: the client's number of training samples.
    """

    weights: State
    buffers: State
    settings: Settings
    first: bool
    ack: Ack
    base: State = field(default_factory=dict)
    uplink: Compressor = Raw()
    seed: int = 0
    samples: int = 1

    @property
    def round(self) -> int:
        """The round's number."""
        return int(self.settings["round"])


class LastModel:
    """The whole model that was sent last, decoded once for all clients that share this object.

    A round's clients receive the same bytes. Tensors that a client has changed in place are decoded
    again for the next client.
    """

    def __init__(self) -> None:
        self._last: tuple[bytes | None, State, list[Any]] = None, {}, []

    def decoded(self, method: Compressor, payload: bytes, template: Tensors) -> State:
        """The tensors in ``payload``; arguments as of ``decompress``, the template always one."""
        last_payload, model, versions = self._last  # at once: threads may share it
        if payload is not last_payload or [x._version for x in model.values()] != versions:
            self._last = None, {}, []  # room for the next
            model = decompress(method, payload, template)
            self._last = payload, model, [x._version for x in model.values()]
        return dict(model)


class Encoded(NamedTuple):
    """The result of an ``Upload``: the message, the method's memory, and how long it took."""

    packet: Packet
    state: State
    seconds: float = 0.0


Encoding = Generator[Upload, Encoded, Encoded]
"""Messages to be made out, what they became in; at the end a message, and what to remember."""


def one_by_one(encoding: Encoding) -> tuple[Packet, State]:
    """The result of an encoding; compresses each of its messages when it is requested.

    Example:
        >>> import torch
        >>> came = Delivery({}, {}, {"round": 1}, True, Ack({}))
        >>> end = ClientEnd(Raw(), Raw(), {"w": torch.zeros(2)})
        >>> len(one_by_one(end.encode(0, {"w": torch.ones(2)}, came))[0].payload)  # 3 of header
        11
    """
    try:
        upload = next(encoding)
        while True:
            upload = encoding.send(Encoded(*compress(*upload)))
    except StopIteration as done:
        packet, memory, _ = done.value
        return packet, memory


@dataclass(frozen=True)
class ClientEnd:
    """The client's end of a compressed channel to the server.

    Args:
        uplink: how the client encodes its updates.
        downlink: how the server encodes the global update.
        template: the model's parameters: names, shapes and devices; values are not read.
        buffers: the other arrays of the model that travel, in the same form.
        seed: for methods with random choices.
        before: how the client encoded its last message, where it did otherwise.
        means: of relayed messages that clients in the same place have made.
        last_model: that such clients have decoded.

    Example:
        >>> import torch
        >>> end = ClientEnd(Raw(), Raw(), {"w": torch.zeros(2)})
        >>> came = Delivery({}, {}, {"round": 1}, True, Ack({}))
        >>> next(end.encode(0, {"w": torch.ones(2)}, came)).update
        {'w': tensor([1., 1.])}
    """

    uplink: Compressor
    downlink: Compressor
    template: Tensors
    buffers: Tensors = field(default_factory=dict)
    seed: int = 0
    before: Compressor | None = None
    means: Means = field(default_factory=Means)
    last_model: LastModel = field(default_factory=LastModel)

    @cached_property
    def keeps(self) -> bool:
        """Whether a client keeps its payload: a memory may take it back, or a relay needs it."""
        return isinstance(self.downlink, Relay) or holds(self.uplink, self.template)

    def decode(
        self,
        content: RecordDict,
        memory: State | None,
        samples: int = 1,
        settings: Settings | None = None,
    ) -> Delivery:
        """Decodes a message to a client with this ``memory`` (None: its first message).

        A memory of another server or run is not read: the message counts as the first, too.

        Args:
            content: of the message.
            memory: the client's.
            samples: the client's number of training samples.
            settings: of the message, where they were read before.

        Raises ``NoBase`` where the message is an update of another model than the client holds: see
        ``ask_for_model``; ``OutOfOrder`` where the client has answered that round or a later one;
        ``ValueError`` where there is no payload, or the server has another uplink, downlink or
        other buffers; and ``PayloadError`` where a payload is damaged.
        """
        settings = read_settings(content) if settings is None else settings
        payload = payload_in(content, settings)
        if ENDS in settings:
            self._check_ends(str(settings[ENDS]))
        channel_memory = of_channel(memory or {}, settings)
        if SCORES in settings:
            ack = Ack({})
        else:
            ack = take_ack(self.before or self.uplink, settings, channel_memory, self.template)
        if settings["kind"] == "model":
            raw = tied(_RAW, settings) if TIED in settings else _RAW
            decoded = partial(self.last_model.decoded, raw, payload)
            if isinstance(self.downlink, EF21):
                base = directions.received(decoded, self.template, int(settings.get(VERSION, 0)))
            else:
                base = decoded(self.template)
        elif settings["kind"] == "relay":
            base = self._relayed(payload, settings, channel_memory, ack)
        else:
            base = self._updated(payload, settings, channel_memory)
        weights = {name: base[name] for name in self.template}
        has_buffers = BUFFERS in settings or BUFFERS_UP in settings
        buffers = from_payload(settings, self.buffers) if has_buffers else {}
        first = not channel_memory
        return Delivery(
            weights, buffers, settings, first, ack, base, self.uplink, self.seed, samples
        )

    def _check_ends(self, theirs: str) -> None:
        """Raises ``ValueError`` where the server's end of the channel is another one."""
        expected = ends(self.uplink, self.downlink, self.template, self.buffers)
        if theirs != expected:
            raise ValueError(
                f"the two ends differ: the strategy has {theirs}; client_mod has {expected}: "
                "give both the same (model: client_mod(template=...) has names and shapes of "
                "what start() is given; buffers: Compressed(buffers=Buffers(...)) and "
                "client_mod(buffers=...))"
            )

    def _updated(self, payload: bytes, settings: Settings, memory: State) -> State:
        """The model that the client holds, and what it lacks of the updates that came."""
        first, last = int(settings[BASE]), int(settings[VERSION])
        updates = (
            [payload] if settings["kind"] == "update" else split_updates(payload, last - first)
        )
        version = memory.get(VERSION)
        base_version = first if version is None else min(max(int(version), first), last)
        weights, steps = _base(memory, base_version), updates[base_version - first :]
        for step in steps:
            update = decompress(tied(self.downlink, settings), step, self.template)
            weights = directions.moved(weights, update)
        return placed(weights, self.template)

    def _relayed(self, payload: bytes, settings: Settings, memory: State, ack: Ack) -> State:
        """The model after the round before, which the client makes of all that was sent since its
        own."""
        first, last = int(settings[BASE]), int(settings[VERSION])
        rounds = [payload] if last == first + 1 else split_updates(payload, last - first)
        held = min(max(int(memory.get(VERSION, first)), first), last)
        base = {name: x.cpu() for name, x in _base(memory, held).items()}
        own_payload = memory[PAYLOAD_KEPT].numpy().tobytes() if PAYLOAD_KEPT in memory else b""
        for messages in rounds[held - first :]:  # it has made the models of those before
            if includes_own(messages) and not (ack.applied and PAYLOAD_KEPT in memory):
                raise NoBase("the client does not hold what it sent in a round before")
            moved = self.means.of(messages, own_payload, self.uplink, self.template)
            base = {name: x + moved[name] for name, x in base.items()}
        return placed(base, self.template)

    def encode(self, client: int | str, update: Tensors, delivery: Delivery) -> Encoding:
        """The message that carries ``update``, and what the client remembers from now on.

        Whoever drives the encoding makes the messages that it yields, those of several clients
        together.
        """
        before = delivery.ack.uplink or None
        seed = derive(self.seed, "uplink", client, int(delivery.settings[ROUND]))
        uplink = self.uplink
        if TIED in delivery.settings:
            uplink = tied(uplink, delivery.settings)
        packet, after, seconds = yield Upload(uplink, update, before, seed)
        memory = nest("uplink", after)
        memory |= pending(packet.payload, delivery.settings, delivery.ack, self.keeps)
        if not isinstance(self.downlink, Raw):  # else the model is what is sent
            memory |= nest("base", delivery.base)
            memory[VERSION] = stored_number(VERSION, int(delivery.settings[VERSION]))
        return Encoded(packet, memory, seconds)

    def reply(
        self,
        content: RecordDict,
        packet: Packet,
        delivery: Delivery,
        side_payloads: Mapping[str, bytes],
    ) -> None:
        """Puts the message into a reply's ``content``, with its ``side_payloads``.

        A client's first message is decoded and compared with what it was said to hold; later
        messages are taken on trust.
        """
        if delivery.first:
            check_decoded(tied(self.uplink, delivery.settings), packet, self.template)
        ack = delivery.ack
        outcome = write_outcome(ack) if ack.lost or ack.returned else {}
        put(
            content,
            packet.payload,
            round=int(delivery.settings[ROUND]),
            **side_payloads,
            **outcome,
        )


def _base(memory: State, version: int) -> State:
    """The model that the client holds; ``NoBase`` where that is not this ``version``."""
    base = unnest("base", memory)
    stored_version = memory.get(VERSION)  # memories of before have no number
    if not base or (stored_version is not None and int(stored_version) != version):
        raise NoBase(f"the client does not hold version {version} of the model")
    return base


def ask_for_model() -> RecordDict:
    """The content of the reply of a client that raised ``NoBase``: the whole model, please."""
    return RecordDict({KEY: ConfigRecord({WANTS: "model"})})
