"""The bytes of messages with Flower's framing, by client, computed without serializing anything.

Flower 1.41 cuts a message into objects (the message, its RecordDict, each record, each array and
each chunk of 5 MiB), names them by their SHA-256 in a tree, sends a descriptor with the tree, and
then each object by itself. This module counts descriptors and objects, as Flower's own traffic
counters do (``flwr list``). Neither counts HTTP's headers, TLS and requests for single objects.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

_CHUNK = int(os.getenv("FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE", "5242880"))
_HASH = 66  # a SHA-256 in hexadecimal as a field: tag, length, 64 characters
_RANDOM = 11  # an id of 64 random bits as a field: tag and 9 or 10 bytes, taken as 10
_NODE = 2 + _RANDOM  # the message of a field that holds nothing else
_FIXED = 9  # a double as a field
_RUNTIME = 10  # one double of a repeated field
_EMPTY = 2  # a field that holds nothing
_SESSION = 38  # the id of an upload's session
_SHORT = 32  # whole numbers of a list that are counted one by one; numpy takes longer to begin
_SEVENS = 1 << np.arange(7, 64, 7, dtype=np.uint64)  # from which on a number takes a byte more


class Travel(NamedTuple):
    """The bytes of one exchange: to the client and from it."""

    down: int
    up: int


NO_TRAVEL = Travel(0, 0)  # of a client that was sent nothing, or whose reply is not used


class _Part(NamedTuple):
    """An object with all below it: bytes that travel, length of its tree, number of objects."""

    size: int
    tree: int
    objects: int


class _Inside(NamedTuple):
    """What the length of a message follows from: the records' names and sizes; or an error's."""

    names: tuple[str, ...] = ()
    records: tuple[_Part, ...] = ()
    error: int = 0


def to_client(content: RecordDict, kind: str = "train") -> Travel:
    """The bytes for a message of the server: the client asks for it and pulls its objects.

    Example:
        >>> from flwr.app import ConfigRecord
        >>> to_client(RecordDict({"fedsim": ConfigRecord({"payload": bytes(1000)})}))
        Travel(down=1671, up=13)
    """
    return _to_client(_inside(content), kind)


def to_server(content: RecordDict | Error, kind: str = "train") -> Travel:
    """The bytes for a reply: descriptor and objects up, the list of objects wanted down."""
    return _to_server(_inside(content), kind)


@lru_cache(maxsize=4096)  # most messages of a run have one of a few lengths
def _to_client(inside: _Inside, kind: str) -> Travel:
    root, described = _message(inside, kind, reply=False)
    return Travel(_field(described) + _field(root.tree) + root.size, _NODE)


@lru_cache(maxsize=4096)
def _to_server(inside: _Inside, kind: str) -> Travel:
    root, described = _message(inside, kind, reply=True)
    request = _NODE + _field(described) + _field(root.tree) + _RUNTIME
    object_list = 4 + _field(_HASH + 2) + _HASH * root.objects + _SESSION
    return Travel(object_list, request + root.size)


def _message(inside: _Inside, kind: str, reply: bool) -> tuple[_Part, int]:
    """The message's object with all below it, and the length of its descriptor."""
    error = inside.error
    below = [] if error else [_object("RecordDict", inside.records, _names(inside.names))]
    about = 3 * _RANDOM + 2 + 2 * _FIXED + _field(len(kind)) + (_HASH if reply else 0)
    root = _object("Message", below, _field(about) + error)
    return root, _field(about + _HASH) + (error or _EMPTY)


def _inside(content: RecordDict | Error) -> _Inside:
    if isinstance(content, Error):
        text = content.reason.strip().splitlines()[-1] if content.reason else ""  # no traceback
        reason = _field(len(text.encode())) if text else 0
        return _Inside(error=_field(_scalar(content.code) + reason))
    records, sent_chunks = list[_Part](), set[int]()
    for record in content.values():
        if isinstance(record, ArrayRecord):
            unique_arrays = list(record.values())
            if len(unique_arrays) > 1:
                keys = [(a.dtype, a.shape, a.stype, hash(a.data)) for a in unique_arrays]
                unique_arrays = list(dict(zip(keys, unique_arrays, strict=True)).values())
            arrays = [_array(array, sent_chunks) for array in unique_arrays]
            records.append(_object("ArrayRecord", arrays, _names(record)))
        else:
            size = 0
            value: Any
            for name, value in record.items():
                if type(value) is bytes:
                    length = _field(len(value))
                elif type(value) is float:
                    length = _FIXED
                else:  # most of these were met before
                    length = _list(value) if isinstance(value, list) else _scalar(value)
                size += _item(name, length)
            records.append(_record(type(record).__name__, size))
    return _Inside(tuple(content.keys()), tuple(records))


@lru_cache(maxsize=4096)
def _item(name: str, value: int) -> int:
    """The bytes of a name and of its value, which takes so many."""
    return _field(_named(name)[1] + _field(value))


@lru_cache(maxsize=4096)
def _record(kind: str, items: int) -> _Part:
    """A record without arrays, whose items take so many bytes."""
    return _object(kind, (), items)


def _array(array: Array, sent_chunks: set[int]) -> _Part:
    """An array; chunks that are equal travel once."""
    data, chunks, order = memoryview(array.data), [], []
    for start in range(0, len(data), _CHUNK):
        chunk = data[start : start + _CHUNK]
        order.append(hash(chunk))
        if order.count(order[-1]) == 1:
            part = _object("ArrayChunk", [], len(chunk))
            chunks.append(_Part(0, part.tree, 0) if order[-1] in sent_chunks else part)
    unique = list(dict.fromkeys(order))
    sent_chunks.update(unique)
    about = {
        "dtype": array.dtype,
        "shape": array.shape,
        "stype": array.stype,
        "arraychunk_ids": [unique.index(chunk) for chunk in order],
    }
    return _object("Array", chunks, len(json.dumps(about)))


def _object(kind: str, below: Sequence[_Part], body: int) -> _Part:
    """A head (kind, names of what is below, length of the body), a zero byte and the body."""
    head = len(kind) + 2 + max(0, 65 * len(below) - 1) + len(str(body))
    return _Part(
        head + 1 + body + sum(part.size for part in below),
        _HASH + sum(_field(part.tree) for part in below),
        1 + sum(part.objects for part in below),
    )


def _names(names: Iterable[str]) -> int:
    """The length of the JSON that gives each name its object."""
    lengths = [_named(name)[0] for name in names]
    return 2 + sum(lengths) + 2 * max(0, len(lengths) - 1)


@lru_cache(maxsize=4096)
def _named(name: str) -> tuple[int, int]:
    """The lengths of a name: in JSON, with the object that it names; and as a field."""
    return len(json.dumps(name)) + 68, _field(len(name.encode()))


def _list(value: list[Any]) -> int:
    """The length of a list as Flower's protocol buffers hold it."""
    first = value[0] if value else 0  # a list of a ConfigRecord holds one type
    if isinstance(first, str | bytes):
        length = sum(_field(len(x.encode() if isinstance(x, str) else x)) for x in value)
    elif isinstance(first, bool):
        length = _field(len(value))
    elif isinstance(first, float):
        length = _field(8 * len(value))
    elif len(value) <= _SHORT:
        length = _field(sum([_scalar(x) - 1 for x in value])) if value else 0  # without tags
    else:
        x = np.asarray(value, dtype=np.int64)
        zigzags = ((x << 1) ^ (x >> 63)).view(np.uint64)
        further = int(_SEVENS.searchsorted(zigzags, side="right").sum())  # bytes beyond one each
        length = _field(len(value) + further)
    return 1 + _field(length)  # the tags of lists take two bytes


@lru_cache(maxsize=4096, typed=True)
def _scalar(value: object) -> int:
    """The same of a number or a text."""
    if isinstance(value, float):
        return _FIXED
    if isinstance(value, bool):
        return 2
    if isinstance(value, int):  # a tag, and 7 bits per byte of its zigzag
        zigzag = 2 * value if value >= 0 else -2 * value - 1
        return 1 + max(1, (zigzag.bit_length() + 6) // 7)
    assert isinstance(value, str | bytes)
    return _field(len(value.encode() if isinstance(value, str) else value))


@lru_cache(maxsize=4096)
def _field(length: int) -> int:
    """The bytes of a field that holds so many: tag, length and they."""
    return length + (2 if length < 128 else 1 + (length.bit_length() + 6) // 7)


def book(booked: dict[int, Travel], client: int, travel: Travel) -> None:
    """Adds what has travelled for a client to a table of ``Wire``."""
    before = booked.get(client)
    if before is not None:
        travel = Travel(before.down + travel.down, before.up + travel.up)
    booked[client] = travel


def _sum(*parts: dict[int, Travel]) -> Travel:
    travels = [travel for part in parts for travel in part.values()]
    return Travel(sum([t.down for t in travels]), sum([t.up for t in travels]))


_NOT_SENT = (ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
"""Errors that the server's side makes of a client that is gone: nothing of them travels."""


def of_reply(reply: Message) -> Travel:
    """The bytes of a reply, and of the answer to it."""
    kind = reply.metadata.message_type
    if not reply.has_error():
        return to_server(reply.content, kind)
    return NO_TRAVEL if reply.error.code in _NOT_SENT else to_server(reply.error, kind)


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

    def add(self, key: int, client: int, other: "Wire") -> None:
        """Books what ``other`` has of a client, under another key."""
        for booked, theirs in (
            (self.requests, other.requests),
            (self.used, other.used),
            (self.unused, other.unused),
        ):
            if client in theirs:
                book(booked, key, theirs[client])

    def evaluating(self, messages: Iterable[Message]) -> list[Message]:
        """Books messages for evaluation, which share their contents; returns them."""
        sizes: dict[int, Travel] = {}
        messages = list(messages)
        for message in messages:
            key = id(message.content)
            if key not in sizes:
                sizes[key] = to_client(message.content, message.metadata.message_type)
            book(self.evaluation, message.metadata.dst_node_id, sizes[key])
        return messages

    def evaluated(self, replies: Iterable[Message]) -> list[Message]:
        """Books the replies to them; returns them."""
        replies = list(replies)
        for reply in replies:
            book(self.evaluation, reply.metadata.src_node_id, of_reply(reply))
        return replies

    def total(self) -> Travel:
        """All that travelled."""
        return _sum(self.requests, self.used, self.unused, self.evaluation)

    def trained(self) -> Travel:
        """What travelled for training."""
        return _sum(self.requests, self.used, self.unused)

    def scored(self) -> Travel:
        """What travelled for evaluation."""
        return _sum(self.evaluation)
