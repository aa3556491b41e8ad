"""The server's end that passes on to each client what the others sent in the rounds before."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from compressors import State
from compressors.bits import SPANS, Span
from strategies.channel import catch_up
from strategies.channel.relay import join
from strategies.channel.server_end import ServerEnd
from strategies.channel.traffic import Downlink


@dataclass(frozen=True)
class _Message:
    payload: bytes
    spans: dict[Span, int]
    samples: int


class RelayEnd(ServerEnd):
    """``ServerEnd`` for the downlink ``Relay``; the model moves by the mean that all make.

    A client that holds the version before the server's is sent the messages of which the server
    made its last update, without its own; any other client is sent the whole model. With
    ``catch_up`` it is sent the messages of every round that it missed, where these are shorter.

    Attributes:
        by_samples: whether the mean is by samples, whose numbers then travel.
    """

    by_samples = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._rounds: list[dict[int, _Message]] = []  # by client: what made the last updates
        self._limit = sum(4 * x.numel() for x in self.weights.values())  # the model, as float32

    def _model_or_update(self, client: int) -> Downlink:
        """The others' messages of the rounds that a client lacks, else the model."""
        lacks = self.version - self.base.get(client, -1)
        missed = self._rounds[-lacks:] if 0 < lacks <= len(self._rounds) else []
        parts = [self._joined(messages, client) for messages in missed]
        payload = parts[0] if len(parts) == 1 else catch_up.join(parts)
        again = sum(client in messages for messages in missed) > 1  # it keeps its last message
        if not missed or again or (lacks > 1 and len(payload) > self._limit):
            return super()._model_or_update(client)
        others = [message.spans for messages in missed
                  for sender, message in messages.items() if sender != client]  # fmt: skip
        spans: dict[Span, int] = {name: sum(of[name] for of in others) for name in SPANS}
        spans["header"] += 8 * len(payload) - sum(spans.values())
        return Downlink(payload, "relay", spans)

    def _joined(self, messages: Mapping[int, _Message], client: int) -> bytes:
        """The messages of a round as they are sent to ``client``."""
        every, senders = list(messages.values()), list(messages)
        own = senders.index(client) if client in senders else None
        samples = [message.samples for message in every] if self.by_samples else []
        return join([message.payload for message in every], own, samples)

    def advance(self, delta: Mapping[str, Tensor]) -> None:
        """Moves the model by ``delta``, the mean of the round's updates; see ``ServerEnd``."""
        before = self._rounds if self.missed is not None else []
        self.replace({name: x + delta[name] for name, x in self.weights.items()})
        self._rounds = [*before, {
            client: _Message(up.payload, up.spans, int(up.samples))
            for client, up in self.traffic.uplinks.items()
        }]  # fmt: skip
        while len(self._rounds) > 1 and self._limit < sum(
            len(message.payload) for messages in self._rounds for message in messages.values()
        ):
            self._rounds.pop(0)

    def replace(self, weights: Mapping[str, Tensor]) -> None:
        """Sets the shared model; nothing is left to relay. See ``ServerEnd``."""
        super().replace(weights)
        self._rounds = []

    def state(self) -> tuple[State, dict[str, Any]]:
        """As of any end, with the messages of the last rounds."""
        tensors, values = super().state()
        relayed = [{str(client): vars(message) | {"payload": b64encode(message.payload).decode()}
                    for client, message in messages.items()}
                   for messages in self._rounds]  # fmt: skip
        return tensors, values | {"relayed": relayed}

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        super().restore(tensors, values)
        kept = values["relayed"]
        self._rounds = [
            {int(client): _Message(**message | {"payload": b64decode(message["payload"])})
             for client, message in messages.items()}
            for messages in (kept if isinstance(kept, list) else [kept])  # once, of one round
        ]  # fmt: skip
