"""The server's end that passes on to each client what the others sent in the round before."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from compressors import State
from compressors.bits import Span
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
    made its last update, without its own; any other client is sent the whole model.

    Attributes:
        by_samples: whether the mean is by samples, whose numbers then travel.
    """

    by_samples = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._messages: dict[int, _Message] = {}  # by client: what made the last update

    def _model_or_update(self, client: int) -> Downlink:
        """The others' messages for a client that holds the version before, else the model."""
        if not self._messages or self.base.get(client) != self.version - 1:
            return super()._model_or_update(client)
        every, senders = list(self._messages.values()), list(self._messages)
        own = senders.index(client) if client in senders else None
        samples = [message.samples for message in every] if self.by_samples else []
        payload = join([message.payload for message in every], own, samples)
        others = [message.spans for sender, message in self._messages.items() if sender != client]
        spans: dict[Span, int] = {name: sum(of[name] for of in others) for name in every[0].spans}
        spans["header"] += 8 * len(payload) - sum(spans.values())
        return Downlink(payload, "relay", spans)

    def advance(self, delta: Mapping[str, Tensor]) -> None:
        """Moves the model by ``delta``, the mean of the round's updates; see ``ServerEnd``."""
        self.replace({name: x + delta[name] for name, x in self.weights.items()})
        self._messages = {
            client: _Message(up.payload, up.spans, int(up.samples))
            for client, up in self.traffic.uplinks.items()
        }

    def replace(self, weights: Mapping[str, Tensor]) -> None:
        """Sets the shared model; nothing is left to relay. See ``ServerEnd``."""
        super().replace(weights)
        self._messages = {}

    def state(self) -> tuple[State, dict[str, Any]]:
        """As of any end, with the messages of the last round."""
        tensors, values = super().state()
        relayed = {str(client): vars(message) | {"payload": b64encode(message.payload).decode()}
                   for client, message in self._messages.items()}  # fmt: skip
        return tensors, values | {"relayed": relayed}

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        super().restore(tensors, values)
        self._messages = {
            int(client): _Message(**message | {"payload": b64decode(message["payload"])})
            for client, message in values["relayed"].items()
        }
