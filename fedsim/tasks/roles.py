"""The signatures of a task's functions; other values in their place are refused."""

from __future__ import annotations

from inspect import signature
from typing import Any

from torch import nn
from torch.optim import Optimizer

from fedsim.ground.errors import UsageError

_TAKES: dict[str, tuple[str, ...]] = {
    "build": (),
    "load": ("folder", "download"),
    "optimizer": ("parameters",),
    "loss": ("outputs", "targets"),
    "metric": ("outputs", "targets"),
    "reported": ("mean",),
}
_SHAPES = {
    "build": "a function that makes a new model: lambda: nn.Sequential(...)",
    "optimizer": "a function that makes an optimizer: "
    "lambda parameters: torch.optim.SGD(parameters, lr=0.1)",
}

ROLES = tuple(_TAKES)
"""The fields of a task that are functions."""


def check_role(task: str, role: str, value: object, from_data: bool) -> None:
    """Refuses a value of a task's field `role` that is not a function, or takes other arguments.

    Raises:
        UsageError: the message names the task, the field, the value and what the field takes.

    Example:
        >>> check_role("mine", "load", lambda: 1, False)
        Traceback (most recent call last):
        fedsim.ground.errors.UsageError: task mine: load is called as load(folder, download), and \
<lambda> does not take that: too many positional arguments
    """
    is_instance = isinstance(value, nn.Module if role == "build" else Optimizer)
    if is_instance and role in _SHAPES:
        kind = "a model" if role == "build" else "an optimizer"
        raise UsageError(
            f"task {task}: {role} is {kind} ({type(value).__name__}); give {_SHAPES[role]}"
        )
    if not callable(value):
        shape = _SHAPES.get(role, f"a function, {role}({', '.join(_TAKES[role])})")
        raise UsageError(f"task {task}: {role} is {value!r}; give {shape}")
    if role in ("loss", "metric") and isinstance(value, type) and issubclass(value, nn.Module):
        raise UsageError(
            f"task {task}: {role} is the class {value.__name__}; give an instance: "
            f"{value.__name__}()"
        )
    takes = ("data",) if role == "build" and from_data else _TAKES[role]
    try:
        value_signature: Any = signature(value)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        value_signature.bind(*takes)
    except TypeError as error:
        name = getattr(value, "__name__", type(value).__name__)
        raise UsageError(
            f"task {task}: {role} is called as {role}({', '.join(takes)}), and {name} does not "
            f"take that: {error}"
        ) from error
