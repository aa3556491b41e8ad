"""How many bytes travel for a message, Flower's framing included: computed, nothing is serialized.

Flower 1.41 cuts a message into objects (the message, its RecordDict, each record, each array and
each chunk of 5 MiB), names them by their SHA-256 in a tree, sends a descriptor with the tree, and
then each object by itself. What is counted here is what Flower's own traffic counters count
(``flwr list``): descriptors and objects. HTTP's headers, TLS and requests for single objects are
in neither.
"""

import json
import os
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, cast

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, MetricRecord, RecordDict
from flwr.proto.recorddict_pb2 import SintList

_CHUNK = int(os.getenv("FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE", "5242880"))
_HASH = 66  # a SHA-256 in hexadecimal as a field: tag, length, 64 characters
_RANDOM = 11  # an id of 64 random bits as a field: tag and 9 or 10 bytes, taken as 10
_NODE = 2 + _RANDOM  # the message of a field that holds nothing else
_FIXED = 9  # a double as a field
_RUNTIME = 10  # one double of a repeated field
_EMPTY = 2  # a field that holds nothing
_SESSION = 38  # the id of an upload's session


class Travel(NamedTuple):
    """What travels for one message, in bytes, to the client and from it."""

    down: int
    up: int


class _Part(NamedTuple):
    """An object with all below it: bytes that travel, length of its tree, number of objects."""

    size: int
    tree: int
    objects: int


def to_client(content: RecordDict, kind: str = "train") -> Travel:
    """The bytes for a message of the server: the client asks for it and pulls its objects.

    Example:
        >>> to_client(RecordDict({"fedsim": ConfigRecord({"payload": bytes(1000)})}))
        Travel(down=1671, up=13)
    """
    whole, described = _message(_records(content), kind, reply=False)
    return Travel(_field(described) + _field(whole.tree) + whole.size, _NODE)


def to_server(content: RecordDict | Error, kind: str = "train") -> Travel:
    """The bytes for a reply: descriptor and objects up, the list of objects wanted down."""
    below = None if isinstance(content, Error) else _records(content)
    beside = _field(_error(content)) if isinstance(content, Error) else 0
    whole, described = _message(below, kind, reply=True, beside=beside)
    request = _NODE + _field(described) + _field(whole.tree) + _RUNTIME
    wanted = 4 + _field(_HASH + 2) + _HASH * whole.objects + _SESSION
    return Travel(wanted, request + whole.size)


def _message(
    below: _Part | None, kind: str, reply: bool, beside: int = 0
) -> tuple[_Part, int]:
    """The message's object with all below it, and the length of its descriptor."""
    about = 3 * _RANDOM + 2 + 2 * _FIXED + _field(len(kind)) + (_HASH if reply else 0)
    whole = _object("Message", [] if below is None else [below], _field(about) + beside)
    return whole, _field(about + _HASH) + (beside or _EMPTY)


def _records(content: RecordDict) -> _Part:
    seen: set[int] = set()
    below = [_record(record, seen) for record in content.values()]
    return _object("RecordDict", below, _names(content))


def _record(record: ArrayRecord | ConfigRecord | MetricRecord, seen: set[int]) -> _Part:
    if isinstance(record, ArrayRecord):
        alone = list(record.values())
        if len(alone) > 1:
            alone = list({(a.dtype, a.shape, a.stype, hash(a.data)): a for a in alone}.values())
        return _object("ArrayRecord", [_array(a, seen) for a in alone], _names(record))
    items = sum([_field(_key(k) + _field(_value(v))) for k, v in record.items()])
    return _object(type(record).__name__, [], items)


def _array(array: Array, seen: set[int]) -> _Part:
    """An array; chunks that are equal travel once."""
    data, chunks, order = memoryview(array.data), [], []
    for start in range(0, len(data), _CHUNK):
        chunk = data[start : start + _CHUNK]
        order.append(hash(chunk))
        if order.count(order[-1]) == 1:
            part = _object("ArrayChunk", [], len(chunk))
            chunks.append(_Part(0, part.tree, 0) if order[-1] in seen else part)
    unique = list(dict.fromkeys(order))
    seen.update(unique)
    about = {
        "dtype": array.dtype, "shape": array.shape, "stype": array.stype,
        "arraychunk_ids": [unique.index(one) for one in order],
    }  # fmt: skip
    return _object("Array", chunks, len(json.dumps(about)))


def _object(kind: str, below: list[_Part], body: int) -> _Part:
    """A head (kind, names of what is below, length of the body), a zero byte and the body."""
    head = len(kind) + 2 + max(0, 65 * len(below) - 1) + len(str(body))
    return _Part(
        head + 1 + body + sum(part.size for part in below),
        _HASH + sum(_field(part.tree) for part in below),
        1 + sum(part.objects for part in below),
    )


def _names(names: Iterable[str]) -> int:
    """The length of the JSON that gives each name its object."""
    lengths = [_named(name) for name in names]
    return 2 + sum(lengths) + 2 * max(0, len(lengths) - 1)


@lru_cache(maxsize=4096)
def _named(name: str) -> int:
    return len(json.dumps(name)) + 68


@lru_cache(maxsize=4096)
def _key(name: str) -> int:
    return _field(len(name.encode()))


def _value(value: object) -> int:
    """The length of a setting or metric as Flower's protocol buffers hold it."""
    if isinstance(value, float):
        return _FIXED
    if isinstance(value, bytes):
        return _field(len(value))
    if isinstance(value, bool):
        return 2
    if isinstance(value, int):
        return 1 + _zigzag(value)
    if isinstance(value, str):
        return _field(len(value.encode()))
    assert isinstance(value, list)
    return 1 + _field(_items(value))  # the tags of lists take two bytes


def _items(values: list[object]) -> int:
    if not values:
        return 0
    if isinstance(values[0], str | bytes):
        return sum(_value(value) for value in values)
    if isinstance(values[0], bool):
        return _field(len(values))
    if isinstance(values[0], float):
        return _field(8 * len(values))
    numbers = cast(list[int], values)  # a list of a ConfigRecord holds one type
    return SintList(vals=numbers).ByteSize()  # many, and compiled


def _error(error: Error) -> int:
    return 1 + _zigzag(error.code) + (_field(len(error.reason.encode())) if error.reason else 0)


def _zigzag(value: int) -> int:
    return _varint(2 * value if value >= 0 else -2 * value - 1)


def _varint(value: int) -> int:
    return 1 if value < 128 else (value.bit_length() + 6) // 7


def _field(length: int) -> int:
    """The bytes of a field that holds so many: tag, length and they."""
    return 1 + _varint(length) + length
