"""Bytes in Flower messages: the one convention that strategies and clients share.

A message to a client holds one ``ConfigRecord`` under ``KEY`` with the payload, its
kind, and what the client needs to do its round. A reply holds such a record with its payload.
Everything that a client learns of the model, and the server of an update, is in
those bytes. A payload of more than ``LARGE`` bytes is in an array next to that record, because
Flower sends arrays in chunks and a record in one piece. Flower's own bytes around them (1.1 to
1.4 kB per message) are counted by ``framing``.
"""

import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.constant import SType
from numpy.typing import NDArray
from torch import Tensor

from compressors import Compressor, Tensors, UpdateError
from compressors.grammar import message_text
from compressors.whole.tied import Tied
from strategies.channel.framing import Travel

# Records of a message that are not the app's.
KEY = "fedsim"  # our settings, and a payload that is not large
CHUNKED = "fedsim.payload"  # a large payload
EVALUATED = "fedsim.evaluate"  # for evaluation: of which channel a client's own buffers are to be
OURS = (KEY, CHUNKED, EVALUATED)

LARGE = 4 * 2**20  # bytes
STYPE = "fedsim.bytes"  # of a large payload's array, so that nobody takes its bytes for numbers

# Settings of a message to a client.
CLIENT = "client"  # its number
ROUND = "round"  # the number of the round; in the reply, too
VERSION = "version"  # the number of the model that the client holds from now on
BASE = "base"  # with an update: the number of the model that the update is added to
TIED = "tied"  # which arrays of the model may be one: see ``tied``
SCORES = "scores"  # for evaluation: the client sends no update, and keeps its memory
ENDS = "ends"  # to a client that has sent nothing yet: what both ends have to agree about
NAMED = "arrays-key"  # the key of the model's arrays, if the strategy has another than ``ARRAYS``

# What an app finds in a message, where the strategy has no other keys.
ARRAYS = "arrays"
CONFIG = "config"  # the settings of a round

# In a reply.
WANTS = "wants"  # ``model``, without a payload: the client got an update of another model
METRICS = "metrics"
SAMPLES = "num-examples"
SENT = "sent-by-tensor"  # a metric: how many entries of each tensor travelled, in model order

# Side payloads: bytes next to a payload, each by its name. All code that writes, reads, books or
# times them loops over those that a message has; the round knows none of them.
BUFFERS = "buffers"  # both ways: tensors of the model that are not parameters (``buffers``)
ORDER = (
    "order"  # down: what this client is to do, where that moves from round to round (``orders``)
)
REPORT = "report"  # up: what the client was asked to report, as float32 numbers (``orders``)
APPLIED = "applied"  # down: which of the client's own uplinks was applied last (``acknowledge``)
OUTCOME = "fate"  # up: whether the client's last message went back or was lost (``acknowledge``)
KEYS = "keys"  # both ways: keys and shares of secure aggregation


class Charge(NamedTuple):
    """How a side payload is booked."""

    column: str  # of results, behind ``up_`` or ``down_``
    directions: tuple[Literal["up", "down"], ...]
    wire: bool  # whether it is in the columns ``wire`` and takes time on a simulated clock
    model: bool = False  # whether it is a part of the model, and free where the initial model is


CHARGES = {
    BUFFERS: Charge("buffer_bits", ("up", "down"), wire=True, model=True),
    ORDER: Charge("order_bits", ("down",), wire=True),
    REPORT: Charge("report_bits", ("up",), wire=True),
    KEYS: Charge("key_bits", ("up", "down"), wire=True),
    APPLIED: Charge("news_bits", ("down",), wire=False),
    OUTCOME: Charge("fate_bits", ("up",), wire=False),
}

USUAL = (BUFFERS, APPLIED, OUTCOME)
"""Those with a column in every channel's results, even if none travels."""

Settings = Mapping[str, Any]
"""A message's settings as a plain mapping, because every look into a record of Flower's costs
several calls of Python."""

Kind = Literal["model", "update", "updates", "relay"]
"""``model``: the payload is the whole model, raw. ``update``: what to add to the model held.
``updates``: several, of which each is added in turn (``catch_up``). ``relay``: what the others sent
(``relay``), of several rounds each behind its length."""


def ends(uplink: Compressor, downlink: Compressor, model: Tensors, buffers: Iterable[str]) -> str:
    """The text by which both ends of a channel compare their settings.

    The ``model`` is described by its number of entries and a digest of its names and shapes.

    Example:
        >>> from compressors import Raw, sbc
        >>> ends(Raw(), Raw(), {"w": torch.zeros(2, 3)}, ["mean", "var"])
        'uplink raw, downlink raw, model of 6 entries (w 2x3; 523b), buffers mean var'
    """
    listed = " ".join(sorted(buffers)) or "none"
    arrays = [f"{name} {'x'.join(map(str, x.shape))}".strip() for name, x in model.items()]
    first = arrays[0] if arrays else "no array"
    digest = f"{zlib.crc32(','.join(arrays).encode()):08x}"[:4]
    count = sum(x.numel() for x in model.values())
    model_text = f"model of {count} entries ({first}; {digest})"
    both = f"uplink {message_text(uplink)}, downlink {message_text(downlink)}"
    return f"{both}, {model_text}, buffers {listed}"


def tied(method: Compressor, settings: Mapping[str, object]) -> Compressor:
    """The method as both ends use it in a channel with these ``settings``.

    Example:
        >>> from compressors import Raw
        >>> tied(Raw(), {TIED: "0 3, 0 5"}).pairs, tied(Raw(), {})
        (((0, 3), (0, 5)), Raw())
    """
    pairs = settings.get(TIED)
    if not pairs:
        return method
    numbers = [[int(place) for place in pair.split()] for pair in str(pairs).split(",")]
    return Tied(method, tuple((first, other) for first, other in numbers))


def put(record: RecordDict, payload: bytes, **settings: str | int | float | bool | bytes) -> None:
    """Adds ``payload`` and ``settings`` to ``record``."""
    if len(payload) <= LARGE:
        record[KEY] = ConfigRecord({"payload": payload, **settings})
        return
    record[KEY] = ConfigRecord({"bytes": len(payload), **settings})
    record[CHUNKED] = ArrayRecord({"payload": Array("uint8", (len(payload),), STYPE, payload)})


@dataclass
class Draft:
    """A payload with settings, written once and copied for every client that is sent the same.

    ``travels``: what such a message takes with its framing, by the bits of the client's number.

    Example:
        >>> draft, records = Draft(), [RecordDict(), RecordDict()]
        >>> for client, record in enumerate(records):
        ...     draft.put(record, client, b"model", {CLIENT: client, ROUND: 1})
        >>> [get(record)[1][CLIENT] for record in records]
        [0, 1]
    """

    content: RecordDict = field(default_factory=RecordDict)
    payload: bytes = b""
    settings: Settings = field(default_factory=dict)
    travels: dict[int, Travel] = field(default_factory=dict)

    def put(self, record: RecordDict, client: int, payload: bytes, settings: Settings) -> None:
        """Adds ``payload`` and ``settings`` to ``record``; ``CLIENT`` in them becomes ``client``.

        The last content is taken again where the payload is that one and all settings but
        ``CLIENT`` are equal.
        """
        same = {**settings, CLIENT: 0}
        if payload is not self.payload or same != self.settings or not self.content:
            self.content, self.payload, self.settings = RecordDict(), payload, same
            self.travels = {}
            put(self.content, payload, **same)
        for name, part in self.content.items():
            record[name] = copied = part.copy()
            if isinstance(copied, ConfigRecord):
                copied[CLIENT] = client


def get(record: RecordDict) -> tuple[bytes, Settings]:
    """The payload and the settings of a message; ``ValueError`` where there is no payload."""
    settings = read_settings(record)
    return payload_in(record, settings), settings


def payload_in(record: RecordDict, settings: Settings) -> bytes:
    """The payload of a message with these ``settings``; ``ValueError`` where there is none."""
    payload = settings.get("payload")
    if payload is None:
        chunked = record.get(CHUNKED)
        if isinstance(chunked, ArrayRecord) and "payload" in chunked:
            payload = chunked["payload"].data
    if not settings or not isinstance(payload, bytes):
        raise ValueError(f"the message holds no payload under {KEY!r}")
    return payload


def read_settings(record: RecordDict) -> Settings:
    """The settings of a message or a reply, none where there is no such record of settings."""
    config = record.get(KEY)  # and not one of Flower's views, which copy all records
    return dict(config.items()) if isinstance(config, ConfigRecord) else {}


def settings_in(record: RecordDict) -> Settings:
    """The settings of a message to a client; of a model in parts, those of the first part."""
    config = record.get(f"{KEY}/0" if f"{KEY}/0" in record else KEY)
    if not isinstance(config, ConfigRecord) or not config:
        raise KeyError(KEY)
    return dict(config.items())


def payload_bits(message: Message) -> int:
    """The bits of a message's payload and of its charged side payloads; 0 if it has none."""
    if not message.has_content():
        return 0
    settings = read_settings(message.content)
    names = ["payload", *(name for name, charge in CHARGES.items() if charge.wire)]
    parts = [part for name in names if isinstance(part := settings.get(name), bytes)]
    large = message.content.get(CHUNKED)
    arrays = large.values() if isinstance(large, ArrayRecord) else ()
    return 8 * (sum(map(len, parts)) + sum(len(array.data) for array in arrays))


def check_names(setting: str, names: Collection[str], record: ArrayRecord) -> None:
    """Raises ``ValueError`` where ``setting`` names arrays that the ``record`` lacks."""
    if unknown := [name for name in names if name not in record]:
        raise ValueError(f"{setting} names {', '.join(unknown)}: the model has no such array")


def to_tensors(arrays: ArrayRecord) -> dict[str, Tensor]:
    """The arrays of a Flower record as float32 tensors, copied."""
    return {n: torch.from_numpy(np.array(a.numpy(), np.float32)) for n, a in arrays.items()}


def to_state(arrays: ArrayRecord) -> dict[str, Tensor]:
    """The arrays of a Flower record as tensors of the same dtypes, copied."""
    return {name: torch.from_numpy(np.array(a.numpy())) for name, a in arrays.items()}


def to_parameters(arrays: ArrayRecord) -> dict[str, Tensor]:
    """``to_tensors`` of a model's parameters; ``UpdateError`` names an array that is not floats.

    A count is not a parameter. A ``state_dict`` with a count (BatchNorm's) also has statistics,
    which would be sparsified and quantized if they were in an update.
    """
    for name, array in arrays.items():
        if not is_float(array):
            raise UpdateError(
                f"array {name!r} is {array.dtype}: a model's parameters are floats. Buffers, such "
                "as BatchNorm's statistics, are not part of an update: name them at both ends, "
                "client_mod(..., buffers=dict(model.named_buffers())) and Compressed(..., "
                "buffers=Buffers(dict(model.named_buffers())))"
            )
    return to_tensors(arrays)


def is_float(array: Array) -> bool:
    """Whether an array holds floats."""
    return np.issubdtype(np.dtype(array.dtype), np.floating)


class LazyArray(Array):
    """An array of numbers that is serialized only when its bytes are read.

    The server hands decoded models to a strategy, which reads numbers. For a large model, bytes
    that are never read would cost as much as all else that the server does.

    Args:
        x: the numbers, which must not be changed afterwards.

    Example:
        >>> x = torch.arange(3.0)
        >>> LazyArray(x) == LazyArray(x), LazyArray(x).data == Array(x.numpy()).data
        (True, True)
    """

    def __init__(self, x: Tensor) -> None:
        self._numbers = x.detach().cpu().contiguous().numpy()
        self.dtype, self.shape = str(self._numbers.dtype), tuple(self._numbers.shape)
        self.stype = SType.NUMPY

    @property
    def data(self) -> bytes:  # type: ignore[override]
        """The numbers as Flower serializes them."""
        return Array(self._numbers).data

    def numpy(self) -> NDArray[Any]:
        """A copy of the numbers, as of any array."""
        return self._numbers.copy()


def lazy_arrays(tensors: Tensors) -> ArrayRecord:
    """``to_arrays`` for a reader on this machine: see ``LazyArray``."""
    record = ArrayRecord()
    for name, x in tensors.items():
        record[name] = LazyArray(x)  # given a mapping, a record copies every array's bytes
    return record


def as_dtype(x: Tensor, dtype: str) -> Array:
    """A Flower array of the tensor in the type that an app gave its own.

    Example:
        >>> as_dtype(torch.ones(2), "float64").dtype
        'float64'
    """
    return Array(x.detach().cpu().contiguous().numpy().astype(dtype, copy=False))


def to_arrays(tensors: Tensors) -> ArrayRecord:
    """A Flower record of the tensors, in order."""
    return ArrayRecord(
        {n: Array(x.detach().cpu().contiguous().numpy()) for n, x in tensors.items()}
    )
