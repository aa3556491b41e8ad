"""What is computed once and kept is bounded in bytes, whatever the sizes of updates are."""

import functools
import gc
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import arraycache, compress, decompress, parse
from compressors.arraycache import bytes_of, keeps_arrays
from tests.support.generators import METHODS

SIZE, SIZES = 4096, 6


def test_the_least_used_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arraycache, "_results", {})
    monkeypatch.setattr(arraycache, "MOST_BYTES", 3 * (800 + 8))
    made = []

    @keeps_arrays
    def zeros(salt: int, *, count: int = 100) -> np.ndarray:
        made.append(salt)
        return np.zeros(count)

    for salt in (1, 2, 3, 1, 4, 1, 2):  # 4 takes the place of 2, then 2 that of 3
        assert zeros(salt) is zeros(salt)
    assert made == [1, 2, 3, 4, 2]
    assert zeros(9, count=1000) is not zeros(9, count=1000)  # more than may stay
    assert zeros(1, count=50) is not zeros(1)
    assert sum(size for _, size in arraycache._results.values()) <= 3 * 808


def test_few_results_stay_even_if_they_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arraycache, "_results", {})
    one = keeps_arrays(lambda x: (x,))
    for x in range(3 * arraycache.MOST_RESULTS):
        one(x)
    assert len(arraycache._results) == arraycache.MOST_RESULTS


def held() -> dict[str, int]:
    """Bytes of arrays in every ``lru_cache`` of the package, by the function's name."""
    return {
        f"{name}.{key}": _arrays(gc.get_referents(thing), set())
        for name, module in list(sys.modules.items())
        if name.startswith("compressors.")
        for key, thing in list(vars(module).items())
        if isinstance(thing, functools._lru_cache_wrapper)
    }


def _arrays(things: Any, seen: set[int]) -> int:
    total = 0
    for thing in things:
        if id(thing) in seen or isinstance(thing, type | ModuleType) or callable(thing):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray | Tensor):
            total += bytes_of(thing) if getattr(thing, "device", "cpu") != "meta" else 0
        elif not isinstance(thing, str | int | float | bytes):
            total += _arrays(gc.get_referents(thing), seen)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_no_cache_grows_with_updates(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates of many sizes leave less than one of them behind, in each cache."""
    monkeypatch.setattr(arraycache, "_results", {})
    monkeypatch.setattr(arraycache, "MOST_BYTES", SIZE)
    compressor, before = parse(method), held()
    for i in range(SIZES):
        update = {"w": torch.arange(SIZE + 8.0 * i)}
        packet, _ = compress(compressor, update)
        decompress(compressor, packet.payload, update)
    grown = {name: size - before.get(name, 0) for name, size in held().items()}
    assert max(grown.values(), default=0) < 4 * SIZE, grown
    assert sum(size for _, size in arraycache._results.values()) <= SIZE
