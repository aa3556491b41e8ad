"""Arrays that are computed once and kept for the next message, up to so many bytes together."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

MOST_BYTES = 1 << 25
MOST_BYTES_OF_GPU = 1 << 31
MOST_RESULTS = 1 << 8

_results: dict[Hashable, tuple[Any, int]] = {}
"""By function and arguments what it returned, and its bytes; what was used last is last."""

_on_gpu: dict[Hashable, tuple[Any, int]] = {}
"""The same, of results with a tensor in a GPU's memory."""


def keeps_arrays(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, whose latest results are kept: ``lru_cache`` with a limit in bytes.

    The limit, ``MOST_BYTES`` of results and of arguments, is that of all such functions together;
    results in a GPU's memory have ``MOST_BYTES_OF_GPU``. A larger result is not kept. No lock is
    held, so that a process may be forked at any time; threads that meet may compute a result twice.

    Example:
        >>> zeros = keeps_arrays(np.zeros)
        >>> zeros(3) is zeros(3), zeros(MOST_BYTES) is zeros(MOST_BYTES)
        (True, False)
    """

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        key = function, arguments, *sorted(named.items())
        for cache in (_results, _on_gpu):
            if (entry := cache.pop(key, None)) is not None:
                cache[key] = entry
                return cast(R, entry[0])
        result = function(*arguments, **named)
        size, gpu = bytes_of((result, arguments)), on_gpu(result)
        cache, capacity = (_on_gpu, MOST_BYTES_OF_GPU) if gpu else (_results, MOST_BYTES)
        if size <= capacity:
            _make_room(cache, capacity - size)
            cache[key] = result, size
        return result

    return call


def forget() -> None:
    """Drops every result that is kept."""
    _results.clear()
    _on_gpu.clear()


def _make_room(cache: dict[Hashable, tuple[Any, int]], capacity: int) -> None:
    """Forgets the results that were not used for longest, until ``capacity`` bytes are left."""
    results = list(cache.items())
    held = sum(size for _, (_, size) in results)
    for left, (key, (_, size)) in zip(range(len(results), 0, -1), results, strict=True):
        if held <= capacity and left < MOST_RESULTS:
            return
        cache.pop(key, None)
        held -= size


def _leaves(thing: Any) -> Iterator[Any]:
    """What is in a thing's tuples, dicts and dataclasses."""
    if isinstance(thing, tuple | dict):
        for part in thing.values() if isinstance(thing, dict) else thing:
            yield from _leaves(part)
    elif is_dataclass(thing):
        for field in fields(thing):
            yield from _leaves(getattr(thing, field.name))
    else:
        yield thing


def on_gpu(thing: Any) -> bool:
    """Whether a tensor in a thing lies in a GPU's memory."""
    return any(isinstance(leaf, Tensor) and leaf.is_cuda for leaf in _leaves(thing))


def bytes_of(thing: Any) -> int:
    """Bytes of the arrays in a thing, and of the numbers in its tuples.

    Example:
        >>> bytes_of((np.zeros(3), (1, 2)))
        40
    """
    return sum(
        leaf.nbytes if isinstance(leaf, np.ndarray | Tensor) else 8 * isinstance(leaf, int)
        for leaf in _leaves(thing)
    )
