"""Clients that hang, and rounds that give them up: by what has happened, never by the clock."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from flwr.app import Message

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
    """The time of a round of the local engine is over before the reply to a message that ``hangs``.

    It comes when the next messages have left.
    """
    send, pull, late, in_time = LocalGrid.send_and_receive, LocalGrid.pull_messages, [], []

    def sent(self: LocalGrid, messages: Any, *, timeout: float | None = None) -> Iterator[Message]:
        in_time.extend(late)
        late.clear()
        asked = list(messages)
        for reply in send(self, asked, timeout=timeout):
            (message,) = (m for m in asked if m.metadata.dst_node_id == reply.metadata.src_node_id)
            if hangs(message):
                late.append(reply)
            else:
                yield reply

    def pulled(self: LocalGrid, message_ids: Iterable[str]) -> Iterable[Message]:
        ids = {*message_ids}
        come = [reply for reply in in_time if reply.metadata.reply_to_message_id in ids]
        for reply in come:
            in_time.remove(reply)
        return [*come, *pull(self, ids)]

    monkeypatch.setattr(LocalGrid, "send_and_receive", sent)
    monkeypatch.setattr(LocalGrid, "pull_messages", pulled)
