"""Digests of messages and of the model after a round, by which a run's folder can be checked.

All are 32 hex digits of blake2b (``fedsim.ground.files.digest_of``). Reports, orders and
acknowledgements are in none of them: the model follows from the rest.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from fedsim.federation.slots import bytes_of
from fedsim.ground.files import digest_of
from strategies.channel.side_payloads import BUFFERS
from strategies.channel.traffic import Downlink, Uplink

UP, DOWN = "digest_up", "digest_down"
"""The columns of ``clients.parquet``: of the payload, with the buffers' behind it where there is
one; empty where nothing travelled, or what came is not used."""

PAYLOADS, MODEL = "digest_payloads", "digest_model"
"""The columns of ``rounds.parquet``: over the round's rows of clients, and of the model after it,
as ``model.safetensors`` would hold it."""


def of_message(message: Downlink | Uplink | None, cache: dict[tuple[int, int], str]) -> str:
    """The digest of a client's downlink, or of its used uplink; empty without a message.

    ``cache``: digests of the same traffic, to which this one is added: a payload that many clients
    receive is hashed once.
    """
    if message is None:
        return ""
    payload, buffers = message.payload, message.side_payloads.get(BUFFERS, b"")
    same = id(payload), id(buffers)
    if same not in cache:
        cache[same] = digest_of(payload + buffers)
    return cache[same]


def of_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """Over a round's rows of clients, in their order.

    Example:
        >>> of_rows([{"client": 3, "digest_down": "ab", "digest_up": ""}])
        '5a295c8a25e3bd0eab2428bb286b9c01'
    """
    lines = [f"{row['client']} {row[DOWN]} {row[UP]}" for row in rows]
    return digest_of("\n".join(lines).encode("ascii"))


def of_model(tensors: Mapping[str, Tensor]) -> str:
    """Of tensors by name, in the order of the names: of their types, shapes and values.

    Example:
        >>> import torch
        >>> a, b = torch.zeros(2), torch.ones(3)
        >>> of_model({"a": a, "b": b}) == of_model({"b": b, "a": a}) != of_model({"a": b, "b": a})
        True
    """
    lines = []
    for name, x in sorted(tensors.items()):
        lines.append(f"{name} {x.dtype} {tuple(x.shape)} {digest_of(bytes_of(x))}")
    return digest_of("\n".join(lines).encode("utf-8"))
