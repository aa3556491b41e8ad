"""A compressor's memory: how its parts are named, found again, and added to an update."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from compressors.base import State, Tensors, finite
from compressors.errors import NotFinite, UpdateError


def nest(prefix: str, state: State) -> State:
    """The memory with every key under ``prefix``."""
    return {f"{prefix}/{key}": value for key, value in state.items()}


def unnest(prefix: str, state: State) -> State:
    """The part of the memory that ``nest`` put under ``prefix``."""
    start = f"{prefix}/"
    end = len(start)
    return {key[end:]: x for key, x in state.items() if key[:end] == start}


def free_prefix(prefix: str, names: Iterable[str]) -> str:
    """``prefix``, with underscores until no name begins with it and a slash.

    Example:
        >>> free_prefix("control", ["w"]), free_prefix("control", ["w", "control/w"])
        ('control', 'control_')
    """
    taken = list(names)
    while any(name.startswith(f"{prefix}/") for name in taken):
        prefix += "_"
    return prefix


def recall(
    kind: str,
    state: State,
    shapes: Mapping[str, tuple[int, ...]],
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """What ``nest(kind, ...)`` put into the memory: of ``dtype``, with these names and shapes.

    ``UpdateError`` names both where they differ: a tensor of another shape would be added to
    all entries of a row, and one of another name forgotten.
    """
    memory = unnest(kind, state)
    if memory.keys() != shapes.keys():
        raise UpdateError(
            f"the memory holds {kind} of {_listed(memory)}, the update has {_listed(shapes)}: "
            "it belongs to another model"
        )
    for name, shape in shapes.items():
        x = memory[name]
        if tuple(x.shape) != tuple(shape) or x.dtype != dtype:
            raise UpdateError(
                f"tensor {name!r}: {kind} in the memory is {x.dtype} {tuple(x.shape)}, not "
                f"{dtype} {tuple(shape)}: it belongs to another model"
            )
    return memory


def _listed(names: Iterable[str]) -> str:
    some = [repr(name) for name in names]
    return ", ".join(some[:5] + ["..."] * (len(some) > 5)) or "no tensor"


def added(update: Tensors, memory: Tensors, decay: float = 1) -> dict[str, Tensor]:
    """Update and ``decay`` times memory, tensor by tensor: new tensors, contiguous and finite.

    Raises ``NotFinite`` as ``check_sums``.
    """
    if decay == 1:
        sums = {name: (x.detach() + memory[name]).contiguous() for name, x in update.items()}
    else:
        sums = {n: (memory[n] * decay).add_(x.detach()).contiguous() for n, x in update.items()}
    check_sums(sums)
    return sums


def check_sums(tensors: Tensors) -> None:
    """Raises ``NotFinite`` with the name of the first tensor that its memory made overflow."""
    for name, x in tensors.items():
        if not finite(x):
            raise NotFinite(f"tensor {name!r} and its memory overflow float32")
