"""The server's model, and what clients are sent of it (docs/protocol.md)."""

from typing import Any

import numpy as np

from tests.support.twin.client import Client
from tests.support.twin.messages import HEADER, Message, Method, whole

LENGTH = 8  # bits that say how long an update is, where a message holds several


class Downlink:
    """The model, its versions, and the updates that made them."""

    def __init__(self, settings: dict[str, Any], model: np.ndarray, tensors: list[int]) -> None:
        text = settings.get("downlink") or "raw"
        self.raw = text == "raw"
        self.method = Method.of(text, None)
        self.catch_up = settings.get("catch_up", False)
        self.model, self.tensors = model, tensors
        self.residual = np.zeros(len(model))
        self.updates: list[Message] = []  # version v is made by updates[v - 1]

    @property
    def version(self) -> int:
        return len(self.updates)

    def move(self, change: np.ndarray) -> None:
        """The model moves by what clients will decode of a change."""
        message = self.method.encode(change + self.residual, self.tensors)
        if self.method.around == "ef":
            self.residual = change + self.residual - message.seen
        self.updates.append(message)
        self.model = self.model + message.seen

    def bits(self, client: Client) -> tuple[int, int]:
        """Of what a client is sent now: all, and without headers."""
        if self.version == 0:
            return 0, 0
        dense = 32 * len(self.model)
        model = whole(HEADER + dense), dense
        if self.raw or client.holds is None:
            return model
        missed = self.updates[client.holds :]
        if len(missed) <= 1:
            return sum(m.wire for m in missed), sum(m.content for m in missed)
        wire = sum(LENGTH + m.wire for m in missed)
        if self.catch_up and wire < model[0]:
            return wire, sum(m.content for m in missed)
        return model
