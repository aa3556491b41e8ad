"""Contents of a user's objects, except parameters and buffers, as values that can be compared."""

import itertools
import math
import random
from collections import deque
from collections.abc import Mapping, Set
from contextlib import suppress
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from strategies.client_optimizers import SGD

Contents = dict[str, Any]
"""By the words for a place, such as ``model: attribute 'calls'``: what is there."""

_OF_TORCH = frozenset(vars(SGD([Parameter(torch.zeros(1))], lr=0.1)))
"""Attributes of every optimizer: its state and groups, which clients keep, and torch's hooks."""

_OF_MODULES = frozenset(vars(nn.Module()))
_NO_VALUES = (FunctionType, BuiltinFunctionType, ModuleType, type)
_CALL = "__call__"
_DEPTH = 24  # of lists in dicts in objects: what is deeper is not looked at
_LONG = 10_000  # of a longer list the beginning is looked at
_LARGE = 2**24  # of a larger tensor the sum is looked at


def attributes(optimizer: Optimizer) -> Contents:
    """What each attribute of a user's own optimizer holds now.

    Example:
        >>> optimizer = SGD([Parameter(torch.zeros(1))], lr=0.1)
        >>> optimizer.count = [0]
        >>> attributes(optimizer)
        {'count': ('list', 1, (0,))}
    """
    leave = {id(x) for x in (optimizer, optimizer.state, optimizer.param_groups)}
    leave |= {id(p) for group in optimizer.param_groups for p in group["params"]}
    values = {name: x for name, x in vars(optimizer).items() if name not in _OF_TORCH}
    values |= {n: [*x.values()] for n, x in vars(optimizer).items() if n.endswith("_hooks") and x}
    return {name: contents(x, leave) for name, x in values.items()}


def model_contents(model: nn.Module) -> Contents:
    """A model's contents except trained parameters and buffers: attributes and frozen weights."""
    ids = {id(p) for p in model.parameters() if p.requires_grad} | {id(x) for x in model.buffers()}
    return _of_modules("model", model, ids)


def of_function(role: str, x: Any) -> Contents:
    """What a task's function holds: attributes of an object, variables of a function.

    Example:
        >>> calls = []
        >>> of_function("loss", lambda: calls.append(1))
        {"loss: variable 'calls'": ('list', 0, ())}
    """
    if isinstance(x, partial):
        return of_function(role, x.func) | {f"{role}: arguments": contents([x.args, x.keywords])}
    if isinstance(x, MethodType):
        return of_function(role, x.__self__)
    if isinstance(x, nn.Module):
        return _of_modules(role, x, set())
    if isinstance(x, FunctionType):
        return _named(role, "variable", _variables(x))
    values = {**_class(type(x)), **(vars(x) if hasattr(x, "__dict__") else {})}
    inside = _named(role, "variable", _variables(getattr(type(x), _CALL, None)))
    return _named(role, "attribute", values) | inside


def _of_modules(role: str, model: nn.Module, leave: Set[int]) -> Contents:
    """``leave``: ids of parameters and buffers that each client has of its own."""
    contents_of: Contents = {}
    for path, module in model.named_modules():
        where = f"{role}, layer {path!r} ({type(module).__name__})" if path else role
        values = {name: x for name, x in vars(module).items() if name not in _OF_MODULES}
        values |= {**_class(type(module)), **dict(module.named_parameters(recurse=False))}
        values |= dict(module.named_buffers(recurse=False))
        registered = {name: x for name, x in vars(module).items() if "_hooks" in name and x}
        hooks = {name: [*x.values()] for name, x in registered.items() if isinstance(x, Mapping)}
        variables = _variables(type(module).forward)
        contents_of |= _named(where, "attribute", values, leave)
        contents_of |= _named(where, "hook", hooks, leave)
        contents_of |= _named(where, "variable", variables, leave)
    return contents_of


def _named(where: str, kind: str, holding: Contents, leave: Set[int] = frozenset()) -> Contents:
    items = holding.items()
    return {f"{where}: {kind} {n!r}": contents(x, leave) for n, x in items if id(x) not in leave}


def _class(kind: type) -> Contents:
    """Attributes of a user's class that are values."""
    if kind.__module__.partition(".")[0] in ("torch", "builtins", "fedsim"):
        return {}
    values = (bool, int, float, complex, str, list, dict, set, Tensor, np.ndarray, itertools.count)
    attributes_of = vars(kind).items()
    return {name: x for name, x in attributes_of if name[:2] != "__" and isinstance(x, values)}


def _variables(function: Any) -> Contents:
    """What a function holds in attributes and defaults, and names of its closure and its file."""
    if not isinstance(function, FunctionType) or function.__module__.startswith("torch"):
        return {}
    variables, code = dict(vars(function)), function.__code__
    if function.__defaults__ or function.__kwdefaults__:
        variables["defaults"] = [function.__defaults__, function.__kwdefaults__]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is not set yet
            variables |= {name: cell.cell_contents} if name != "__class__" else {}
    for name in code.co_names:
        x = function.__globals__.get(name)
        called = isinstance(x, FunctionType) and x.__globals__ is function.__globals__
        if called or not (x is None or isinstance(x, _NO_VALUES)):
            variables[name] = x
    return variables


def contents(x: Any, leave: Set[int] = frozenset()) -> Any:
    """A value that is equal (``same``) as long as ``x`` holds the same.

    ``leave``: ids of objects that are left out: a client is sent weights, and does not remember by
    them.
    """
    return _value(x, leave, {}, _DEPTH)


def _value(x: Any, leave: Set[int], visited: dict[int, Any], depth: int) -> Any:
    if id(x) in leave or depth == 0:
        return None
    if isinstance(x, Tensor):
        if x.numel() > _LARGE:
            return str(x.dtype), tuple(x.shape), float(x.detach().sum())
        return x.detach().clone()
    if x is None or isinstance(x, bool | int | float | complex | str | bytes):
        return x
    if id(x) in visited:
        return "again"
    visited[id(x)] = x  # which keeps it: another object would take its id
    inside = partial(_value, leave=leave, visited=visited, depth=depth - 1)
    if isinstance(x, np.ndarray):
        return str(x.dtype), x.shape, x.tobytes()
    if isinstance(x, Mapping):
        items = itertools.islice(x.items(), _LONG)
        return "dict", len(x), tuple((str(k), inside(v)) for k, v in items)
    if isinstance(x, list | tuple | set | frozenset | deque):
        return type(x).__name__, len(x), tuple(map(inside, itertools.islice(x, _LONG)))
    if isinstance(x, FunctionType):
        return "function", inside(_variables(x))
    if isinstance(x, partial):
        return "partial", inside(x.func), inside(x.args), inside(x.keywords)
    if isinstance(x, MethodType):
        return "method", inside(x.__self__)
    if isinstance(x, Generator):
        return x.get_state()
    if isinstance(x, np.random.Generator):
        return "generator", inside(x.bit_generator.state)
    if isinstance(x, random.Random | np.random.RandomState):
        state = x.getstate() if isinstance(x, random.Random) else x.get_state()
        return "generator", inside(state)
    if isinstance(x, itertools.count):
        return repr(x)
    if type(x).__module__.startswith(("torch._", "torch.fx", "torch.jit")):
        return str(type(x))
    if isinstance(x, type | ModuleType):
        return str(x)
    return str(type(x)), inside(_attributes(x))


def _attributes(x: Any) -> Contents:
    """An object's attributes, those of ``__slots__`` too."""
    slots = [name for kind in type(x).__mro__ for name in vars(kind).get("__slots__", ())]
    names = [name for name in slots if isinstance(name, str) and hasattr(x, name)]
    return {name: getattr(x, name) for name in names} | (vars(x) if hasattr(x, "__dict__") else {})


def same(one: Any, other: Any, near: float = 1e-5) -> bool:
    """Whether two contents are equal, to rounding.

    Example:
        >>> same(("list", 1, (1.0,)), ("list", 1, (1.0000001,))), same(1, 2)
        (True, False)
    """
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if torch.equal(one, other):
            return True
        if not one.is_floating_point():
            return False
        a, b = one.double().cpu().nan_to_num(), other.double().cpu().nan_to_num()
        return float((a - b).norm()) <= near * float(a.norm()) + 1e-12
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=near) or (one != one and other != other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(x, other[n], near) for n, x in one.items())
    if isinstance(one, tuple) and isinstance(other, tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(same(a, b, near) for a, b in pairs)
    return type(one) is type(other) and bool(one == other)
