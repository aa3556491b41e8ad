"""Bytes in Flower messages: the one convention that strategies and clients share.

A message to a client holds one ``ConfigRecord`` under ``KEY`` with the payload, its
kind, and what the client needs to do its round. A reply holds such a record with its payload.
Everything that a client learns of the model, and the server of an update, is in
those bytes. Flower's own framing (1.0 to 1.2 kB per message) is not counted.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from torch import Tensor

from compressors import UpdateError

KEY = "fedsim"
METRICS = "metrics"
SAMPLES = "num-examples"
SENT = "sent-by-tensor"
"""Beside a client's other metrics: how many entries of each tensor travelled, in model order."""

Kind = Literal["model", "update"]
"""``model``: the payload is the whole model, raw. ``update``: what to add to the model held."""


def put(record: RecordDict, payload: bytes, **settings: str | int | float | bool | bytes) -> None:
    """Adds ``payload`` and ``settings`` to ``record``."""
    record[KEY] = ConfigRecord({"payload": payload, **settings})


def get(record: RecordDict) -> tuple[bytes, ConfigRecord]:
    """The payload and the settings beside it; ``ValueError`` where there is none."""
    beside = record.config_records.get(KEY)
    payload = beside.get("payload") if beside is not None else None
    if beside is None or not isinstance(payload, bytes):
        raise ValueError(f"the message holds no payload under {KEY!r}")
    return payload, beside


def payload_bits(message: Message) -> int:
    """The bits of a message's payloads, that of the buffers too; 0 where there is none."""
    if not message.has_content():
        return 0
    record = message.content.config_records.get(KEY) or ConfigRecord()
    return 8 * sum(len(value) for value in record.values() if isinstance(value, bytes))


def to_tensors(arrays: ArrayRecord) -> dict[str, Tensor]:
    """The arrays of a Flower record as float32 tensors, copied."""
    return {n: torch.from_numpy(np.array(a.numpy(), np.float32)) for n, a in arrays.items()}


def to_parameters(arrays: ArrayRecord) -> dict[str, Tensor]:
    """``to_tensors`` of a model's parameters; ``UpdateError`` names an array that is not floats.

    A count is not a parameter. Where there is a count (BatchNorm's, in a ``state_dict``), there are
    statistics beside it, which in an update would be sparsified and quantized with it.
    """
    for name, array in arrays.items():
        if not is_float(array):
            raise UpdateError(
                f"array {name!r} is {array.dtype}: a model's parameters are floats. Buffers, such "
                "as BatchNorm's statistics, are not part of an update: name them to client_mod "
                "(buffers=), start with the parameters alone, and give the strategy Buffers"
            )
    return to_tensors(arrays)


def is_float(array: Array) -> bool:
    """Whether an array holds floats."""
    return np.issubdtype(np.dtype(array.dtype), np.floating)


def to_arrays(tensors: Mapping[str, Tensor]) -> ArrayRecord:
    """A Flower record of the tensors, in order."""
    return ArrayRecord(
        {n: Array(x.detach().cpu().contiguous().numpy()) for n, x in tensors.items()}
    )
