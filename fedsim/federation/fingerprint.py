"""Whether an optimizer remembers anything where a client cannot keep it: in its attributes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from strategies.steps import SGD

_OF_TORCH = frozenset(vars(SGD([Parameter(torch.zeros(1))], lr=0.1)))
"""Attributes of every optimizer: its state and groups, which clients keep, and torch's hooks."""

_DEPTH = 4  # of lists in dicts in objects: what is deeper is not looked at


def attributes(optimizer: Optimizer) -> dict[str, Any]:
    """What each attribute of a user's own holds now, as values that can be compared.

    Example:
        >>> optimizer = SGD([Parameter(torch.zeros(1))], lr=0.1)
        >>> optimizer.count = [0]
        >>> attributes(optimizer)
        {'count': ('list', (0,))}
    """
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    own = {name: x for name, x in vars(optimizer).items() if name not in _OF_TORCH}
    return {name: _value(x, trained, _DEPTH) for name, x in own.items()}


def _value(x: Any, trained: set[int], depth: int) -> Any:
    """A value that is equal as long as ``x`` holds the same; weights that are trained are left out.

    A client is sent the weights in every round: an optimizer does not remember by them.
    """
    if id(x) in trained or depth == 0:
        return None
    if isinstance(x, Tensor):
        return str(x.dtype), tuple(x.shape), x.detach().cpu().contiguous().numpy().tobytes()
    if x is None or isinstance(x, bool | int | float | complex | str | bytes):
        return x
    if isinstance(x, Mapping):
        return "dict", tuple((str(k), _value(v, trained, depth - 1)) for k, v in x.items())
    if isinstance(x, list | tuple | set | frozenset):
        return type(x).__name__, tuple(_value(v, trained, depth - 1) for v in x)
    if callable(x) or not hasattr(x, "__dict__"):
        return str(type(x))
    return str(type(x)), _value(vars(x), trained, depth - 1)
