"""What a caller hands over, looked at once where it comes in: an error is a line that names it."""

from collections.abc import Mapping
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from compressors.base import State, Tensors, finite
from compressors.errors import NotFinite, PayloadError, UpdateError
from compressors.printing import plain_text, shown

PLAIN = (Tensor, Parameter)
"""Classes of tensors whose values lie where they say; a DTensor holds a part of them."""

_ALIGNED = 64
"""Bytes: how torch aligns the memory that it takes. Products of matrices round by alignment."""


def check_method(method: Any) -> None:
    """``ValueError``, which says how to make a compressor of ``method``, unless it is one."""
    if isinstance(method, type) or not (hasattr(method, "init") and hasattr(method, "write")):
        cure = ""
        if isinstance(method, str):
            cure = f": parse({method[:60]!r}) makes one"
        elif hasattr(method, "write") and not isinstance(method, type):
            cure = f": per_tensor({shown(method)}) is one"
        raise ValueError(f"a compressor is needed, not {shown(method)}{cure}")


def update_of(update: Any) -> Tensors:
    """``update`` with views that a kernel cannot read made plain; ``UpdateError`` for no update.

    An update is a mapping of names to dense float32 tensors that have values. bfloat16 tensors are
    taken too: every one of their values is a float32 number.
    """
    tensors = _named(update, "an update", UpdateError)
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            cure = ": torch.from_numpy makes a tensor of it" if isinstance(x, np.ndarray) else ""
            raise UpdateError(f"tensor {name!r} is {_kind(x)}, not a tensor{cure}")
        if type(x) not in PLAIN:
            raise UpdateError(
                f"tensor {name!r} is of the subclass {type(x).__name__}: updates are plain tensors "
                "(full_tensor() makes one of a DTensor)"
            )
        if x.layout != torch.strided or x.is_nested:
            layout = "nested" if x.is_nested else x.layout
            raise UpdateError(f"tensor {name!r} is {layout}: updates are dense (Tensor.to_dense)")
        if x.dtype not in (torch.float32, torch.bfloat16):
            raise UpdateError(f"tensor {name!r} is {x.dtype}: updates are float32")
        if x.is_meta:
            raise UpdateError(f"tensor {name!r} is on the device meta: it has no values")
    if not any(x.is_neg() or x.dtype != torch.float32 for x in tensors.values()):
        return tensors
    return {name: x.resolve_neg().to(torch.float32) for name, x in tensors.items()}


def check_finite(update: Tensors) -> None:
    """``NotFinite``, which names the first tensor that holds NaN or infinity."""
    for name, x in update.items():
        if not finite(x):
            raise NotFinite(f"tensor {name!r} holds NaN or infinity: no message can carry it")


def template_of(template: Any) -> dict[str, Tensor]:
    """``template`` as dense float32, values unread; ``ValueError`` for no template."""
    tensors = _named(template, "template", ValueError)
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise ValueError(
                f"template: {name!r} is {_kind(x)}: give a tensor of the update's shape"
            )
        if x.is_meta:
            raise ValueError(
                f"template: {name!r} is on the device meta: no values can be put there"
            )
    return {
        name: x
        if type(x) in PLAIN and x.dtype == torch.float32 and x.layout == torch.strided
        else torch.empty(x.shape, dtype=torch.float32, device=x.device)
        for name, x in tensors.items()
    }


def state_of(memory: Any) -> State:
    """``memory``, contiguous; ``UpdateError`` unless it is a memory: names to tensors."""
    if not isinstance(memory, Mapping):
        raise UpdateError(f"a memory is what compress returned, or None, not {_kind(memory)}")
    state = {}
    for key, x in _named(memory, "a memory", UpdateError).items():
        if type(x) not in PLAIN or x.layout != torch.strided:
            raise UpdateError(f"the memory's {key!r} is {_kind(x)}, not a dense tensor")
        plain = x.is_contiguous() and not x.is_neg()
        state[key] = x if plain else x.detach().resolve_neg().contiguous()
    return state


def aligned(state: State) -> State:
    """The memory, each tensor of it where torch would have put it.

    What was read from a file or made by numpy may lie anywhere, and the last bits of a product of
    matrices depend on where.
    """
    return {key: x.clone() if x.data_ptr() % _ALIGNED else x for key, x in state.items()}


def payload_of(payload: Any) -> bytes:
    """The bytes of any buffer; ``PayloadError`` for what is not one."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    cure = ": its payload is" if hasattr(payload, "payload") else ""
    raise PayloadError(f"a payload is bytes, not {_kind(payload)}{cure}")


def seed_of(seed: Any) -> int:
    """Any whole number as 32 bits; ``ValueError`` for what is not one."""
    try:
        return index(seed) & 0xFFFFFFFF
    except TypeError:
        raise ValueError(f"seed is {shown(seed)}: give a whole number") from None


def _named(tensors: Any, what: str, error: type[ValueError]) -> Mapping[str, Any]:
    """``tensors`` by plain texts; ``error`` unless it is a mapping whose keys are texts."""
    if not isinstance(tensors, Mapping):
        cure = ": dict(...) makes one of pairs" if hasattr(tensors, "__next__") else ""
        raise error(f"{what} is a dict of names to tensors, not {_kind(tensors)}{cure}")
    for name in tensors:
        if not isinstance(name, str):
            raise error(f"{what}: the name {shown(name)} is {_kind(name)}: names are texts")
    named = _by_plain_names(tensors)
    if len(named) != len(tensors):
        raise error(f"{what}: two names are the same text")
    return named


def _by_plain_names(tensors: Mapping[str, Any]) -> Mapping[str, Any]:
    """``tensors`` with texts in the place of texts of a subclass, which may print otherwise."""
    if all(type(name) is str for name in tensors):
        return tensors
    return {plain_text(name): x for name, x in tensors.items()}


def _kind(thing: Any) -> str:
    """What a thing is, in a few words."""
    if thing is None:
        return "None"
    if isinstance(thing, Tensor):
        kind = "tensor" if type(thing) in PLAIN else type(thing).__name__
        return f"a {kind} {tuple(thing.shape)}"
    if isinstance(thing, np.ndarray):
        return f"a numpy array {thing.shape} of {thing.dtype}"
    name = type(thing).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
