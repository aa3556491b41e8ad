"""The bytes of a round's messages by client, with framing."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode

from strategies.channel.framing import Travel, to_client, to_server


def _add(booked: dict[int, Travel], client: int, travel: Travel) -> None:
    before = booked.get(client, Travel(0, 0))
    booked[client] = Travel(before.down + travel.down, before.up + travel.up)


def _sum(*parts: dict[int, Travel]) -> Travel:
    travels = [travel for part in parts for travel in part.values()]
    return Travel(sum(t.down for t in travels), sum(t.up for t in travels))


_NOT_SENT = (ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
"""Errors that the server's side makes of a client that is gone: nothing of them travels."""


def of_reply(reply: Message) -> Travel:
    """The bytes of a reply, and of the answer to it."""
    if reply.has_error() and reply.error.code in _NOT_SENT:
        return Travel(0, 0)
    kind = reply.metadata.message_type
    return to_server(reply.error if reply.has_error() else reply.content, kind)


@dataclass
class Wire:
    """Bytes by client, both ways for every message: what carries it, and what asks or answers.

    ``requests``: messages to clients; ``used``, ``unused``: their replies, a failure's among those
    that are not used; ``evaluation``: messages for evaluation and their replies.
    """

    requests: dict[int, Travel] = field(default_factory=dict)
    used: dict[int, Travel] = field(default_factory=dict)
    unused: dict[int, Travel] = field(default_factory=dict)
    evaluation: dict[int, Travel] = field(default_factory=dict)

    def book_request(self, client: int, content: RecordDict) -> None:
        """Books a message to a client."""
        _add(self.requests, client, to_client(content))

    def book_reply(self, client: int, reply: Message, used: bool) -> None:
        """Books a reply."""
        _add(self.used if used else self.unused, client, of_reply(reply))

    def book_side(self, client: int, travel: Travel, used: bool) -> None:
        """Books messages outside of request and reply, without framing."""
        _add(self.used if used else self.unused, client, travel)

    def add(self, key: int, client: int, other: "Wire") -> None:
        """Books what ``other`` has of a client, under another key."""
        for booked, theirs in ((self.requests, other.requests), (self.used, other.used),
                             (self.unused, other.unused)):  # fmt: skip
            if client in theirs:
                _add(booked, key, theirs[client])

    def evaluating(self, messages: Iterable[Message]) -> list[Message]:
        """Books messages for evaluation, which share their contents; returns them."""
        sizes: dict[int, Travel] = {}
        messages = list(messages)
        for message in messages:
            key = id(message.content)
            if key not in sizes:
                sizes[key] = to_client(message.content, message.metadata.message_type)
            _add(self.evaluation, message.metadata.dst_node_id, sizes[key])
        return messages

    def evaluated(self, replies: Iterable[Message]) -> list[Message]:
        """Books the replies to them; returns them."""
        replies = list(replies)
        for reply in replies:
            _add(self.evaluation, reply.metadata.src_node_id, of_reply(reply))
        return replies

    def up(self, client: int) -> int:
        """The bytes from a client whose reply is used: the reply, and the call for the message."""
        request = self.requests.get(client, Travel(0, 0))  # of a late one: in another round
        return self.used[client].up + request.up if client in self.used else 0

    def down(self, client: int) -> int:
        """The bytes to a client: the message, and the answer to its reply, where that is used."""
        nothing = Travel(0, 0)
        return self.requests.get(client, nothing).down + self.used.get(client, nothing).down

    def total(self) -> Travel:
        """All that travelled."""
        return _sum(self.requests, self.used, self.unused, self.evaluation)

    def trained(self) -> Travel:
        """What travelled for training."""
        return _sum(self.requests, self.used, self.unused)

    def scored(self) -> Travel:
        """What travelled for evaluation."""
        return _sum(self.evaluation)
