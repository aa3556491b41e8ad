"""Clients that hang, and rounds that give them up: by what has happened, never by the clock."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Message

from fedsim.engines import local
from fedsim.engines.local import LocalGrid
from strategies.channel.payload import KEY

LONG = 600.0


def asks(message: Message, client: int, round_number: int | None = None) -> bool:
    """Whether the message asks the client to train, in that round where one is given."""
    beside = message.content.config_records.get(KEY)
    if beside is None or message.metadata.dst_node_id != client + 1:
        return False
    return round_number is None or beside["round"] == round_number


def given_up(monkeypatch: pytest.MonkeyPatch, hangs: Callable[[Message], bool]) -> None:
    """A round's time is over when everybody has answered whose message does not ``hang``.

    However slow the machine is: the local engine's clock stands still until then.
    """
    clock, real = SimpleNamespace(now=0.0), LocalGrid.send_and_receive
    monkeypatch.setattr(local, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def send(self: LocalGrid, messages: Any, *, timeout: float | None = None) -> Iterator[Message]:
        asked = list(messages)
        left = sum(not hangs(message) for message in asked)
        clock.now = 0.0 if left else 2 * LONG
        for reply in real(self, asked, timeout=LONG):
            left -= 1
            clock.now = 0.0 if left else 2 * LONG
            yield reply

    monkeypatch.setattr(LocalGrid, "send_and_receive", send)
