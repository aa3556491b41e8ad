"""Formats of clients' residuals and optimizer state between rounds: exact, or in fewer bytes."""

import json
from functools import lru_cache

import torch
from torch import Tensor

from compressors import State, compress, decompress, parse
from compressors.whole.growth import grows
from fedsim.ground.errors import UsageError
from fedsim.settings.fields import EXACT, NEAREST

_FEWER = ("uplink/", "optimizer/")
"""What may be kept in fewer bytes: residuals and optimizer state, not the model or a message."""

_PAYLOAD, _NAMES = "kept/payload", "kept/names"
_SIGNED = "optimizer/momentum_buffer/"
_method = lru_cache(parse)


def pack(state: State, memory_as: str, seed: int = 0) -> State:
    """A client's memory as it is kept.

    Args:
        state: the memory.
        memory_as: ``float32``, as it is; ``bfloat16``, each number the nearest of 8 binary digits;
            or the text of a method, whose message the tensors become.
        seed: of the method's random choices.

    Raises ``UpdateError`` where a method cannot encode a tensor that is not finite.

    Example:
        >>> state = {"uplink/residual/w": torch.tensor([0.1]), "base/w": torch.tensor([0.1])}
        >>> pack(state, "bfloat16")
        {'uplink/residual/w': tensor([0.1001], dtype=torch.bfloat16), 'base/w': tensor([0.1000])}
        >>> [*pack(state, "cnat")]
        ['base/w', 'kept/names', 'kept/payload']
    """
    fewer = {n: x for n, x in state.items() if _fits(n, x)} if memory_as != EXACT else {}
    if memory_as == NEAREST:
        return {name: x.bfloat16() if name in fewer else x for name, x in state.items()}
    if not fewer:
        return state
    names = json.dumps([(n, [*x.shape] if n in fewer else None) for n, x in state.items()])
    payload = compress(_method(memory_as), fewer, seed=seed)[0].payload
    exact = {name: x for name, x in state.items() if name not in fewer}
    return exact | {_NAMES: _bytes(names.encode()), _PAYLOAD: _bytes(payload)}


def unpack(state: State, memory_as: str) -> State:
    """A memory that ``pack`` made, as clients take it.

    Example:
        >>> unpack(pack({"uplink/residual/w": torch.tensor([0.5])}, "cnat"), "cnat")
        {'uplink/residual/w': tensor([0.5000])}
    """
    if memory_as == NEAREST:
        return {n: x.float() if x.dtype == torch.bfloat16 else x for n, x in state.items()}
    if _PAYLOAD not in state:
        return state
    shapes = json.loads(state[_NAMES].numpy().tobytes())
    template = {name: torch.empty(shape) for name, shape in shapes if shape is not None}
    tensors = state | decompress(_method(memory_as), state[_PAYLOAD].numpy().tobytes(), template)
    return {name: tensors[name] for name, _ in shapes}


def check(state: State, memory_as: str) -> None:
    """Refuses a method with which memory grows, or squares by which optimizers divide become 0.

    Args:
        state: what a client keeps.
        memory_as: as ``pack`` takes it.
    """
    if memory_as in (EXACT, NEAREST):
        return
    fewer = {n: x for n, x in state.items() if _fits(n, x)}
    if reason := grows(_method(memory_as), fewer, around=""):
        raise UsageError(f"--memory-as is {memory_as!r}: {reason}; or give cnat or bfloat16")
    divides = [n for n in fewer if n.startswith("optimizer/") and not n.startswith(_SIGNED)]
    if not divides:
        return
    x = torch.rand(4096, generator=torch.Generator().manual_seed(0)) ** 8 + 1e-12
    x[::8] = 0
    x_hat = unpack(pack({divides[0]: x}, memory_as), memory_as)[divides[0]]
    if not torch.equal(x_hat > 0, x > 0):
        raise UsageError(
            f"--memory-as is {memory_as!r}: the optimizer keeps {divides[0].split('/')[1]}, by "
            "whose entries it may divide, and this method makes some of them 0 or less; give cnat, "
            "bfloat16, SGD (--momentum), or --stateless"
        )


def _fits(name: str, x: Tensor) -> bool:
    return name.startswith(_FEWER) and x.dtype == torch.float32 and x.dim() > 0 and x.numel() > 0


def _bytes(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

