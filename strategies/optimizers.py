"""An optimizer's memory as a flat mapping of names to tensors, so that it can travel and wait.

It has everything in the ``state_dict`` except the parameters and the learning rate, which the run
sets: a parameter's state under ``kind/parameter``, and changes in a group of parameters under
``group#0/key``. A Python number becomes a tensor without dimensions, which its key marks.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from compressors import State

GroupSettings = list[dict[str, Any]]
"""The entries of every group of parameters, except the parameters and the learning rate."""

_GROUP = "group#"
_NUMBER = "number#"
_SET = ("params", "lr", "initial_lr")  # by the run
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}


def settings_of(optimizer: Optimizer) -> GroupSettings:
    """What the groups of a new optimizer hold: what it was made with, copied."""
    return [
        {key: deepcopy(value) for key, value in group.items() if key not in _SET}
        for group in optimizer.param_groups
    ]


def optimizer_state(
    optimizer: Optimizer, parameters: Mapping[str, Parameter], initial_settings: GroupSettings
) -> State:
    """What ``optimizer`` remembers as tensors by name; tensors are not copied.

    Args:
        optimizer: of ``parameters``.
        parameters: by name.
        initial_settings: its settings when it was new; only what differs from them is kept.

    Raises ``ValueError``, naming it, for what is neither a dense tensor nor a number (None, a text,
    a list), and for what is kept under anything but a parameter.
    """
    state: State = {}
    for name, p in parameters.items():
        for kind, value in optimizer.state.get(p, {}).items():
            tag, tensor = _tensor(value, f"state[parameter {name!r}][{kind!r}]")
            if not isinstance(kind, str) or "/" in kind or "#" in kind:
                raise ValueError(f"state[parameter][{kind!r}] is not a name without '/' and '#'")
            state[f"{tag}{kind}/{name}"] = tensor
    trained = set(parameters.values())
    for holder in optimizer.state:
        if holder not in trained:
            raise ValueError(f"state[{holder!r}] is kept for no parameter")
    for number, (group, fresh) in enumerate(
        zip(optimizer.param_groups, initial_settings, strict=True)
    ):
        for key, value in group.items():
            if key not in _SET and not (key in fresh and _equal(value, fresh[key])):
                tag, tensor = _tensor(value, f"param_groups[{number}][{key!r}]")
                state[f"{_GROUP}{number}/{tag}{key}"] = tensor
    return state


def load_optimizer_state(
    optimizer: Optimizer,
    parameters: Mapping[str, Parameter],
    state: State,
    initial_settings: GroupSettings,
) -> None:
    """Puts back what ``optimizer_state`` returned, copying: steps work in place, states may not.

    Groups have their ``initial_settings``, except for settings in ``state``. With an empty state
    the rest of the optimizer stays as it was made: Adagrad begins with sums.
    """
    for group, fresh in zip(optimizer.param_groups, initial_settings, strict=True):
        for key in [key for key in group if key not in _SET and key not in fresh]:
            del group[key]
        group.update({k: x if type(x) in _NUMBERS else deepcopy(x) for k, x in fresh.items()})
    if not state:
        return
    optimizer.state.clear()
    copies, copied = list[Tensor](), list[Tensor]()
    for key, value in state.items():
        first, name = key.split("/", 1)
        kind = first.removeprefix(_NUMBER)
        if first.startswith(_GROUP):
            entry = name.removeprefix(_NUMBER)
            held: Any = value.item() if entry != name else value.clone()
            optimizer.param_groups[int(first.removeprefix(_GROUP))][entry] = held
        elif kind != first:
            optimizer.state[parameters[name]][kind] = value.item()
        else:
            p = parameters[name]  # a copy where it is, laid out so; counts are left in place
            if value.shape == p.shape:
                copies.append(torch.empty_like(p, dtype=value.dtype, requires_grad=False))
                copied.append(value)
                optimizer.state[p][kind] = copies[-1]
            else:
                copy = value.to(p.device, copy=True) if value.dim() else value.clone()
                optimizer.state[p][kind] = copy
    if copies:
        torch._foreach_copy_(copies, copied)


def _tensor(value: Any, where: str) -> tuple[str, Tensor]:
    """A value as a tensor, and what its key begins with."""
    if isinstance(value, Tensor):
        if value.layout != torch.strided:
            raise ValueError(f"{where} is a sparse tensor; what is kept is dense")
        return "", value
    dtype = _NUMBERS.get(type(value))
    if dtype is None or (dtype == torch.int64 and not -(2**63) <= int(value) < 2**63):
        raise ValueError(
            f"{where} is {value!r:.40}, which is neither a tensor nor a number of 64 bits"
        )
    return _NUMBER, torch.tensor(value, dtype=dtype, device="cpu")


def _equal(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and bool(one == other)
