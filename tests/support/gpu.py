"""The kernels for a GPU in tests: on one, or else on the CPU by Triton's interpreter."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import Packet, State, Tensors, compress, decompress, parse, segments
from compressors import device as room
from compressors.kernels.gpu.language import interpreted, present, tl
from compressors.kernels.gpu.layout import Programs, fetch, programs_of
from compressors.segments.plan import plan_of

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
needs_triton = pytest.mark.skipif(not present(), reason="triton is not installed")


@cache
def _builtins(room: Any) -> list[str]:
    return [name for name, x in inspect.getmembers(room) if tl.core.is_builtin(x)]


if present() and interpreted():
    # It looks for the language's operations again at every call of a helper, a fourth of its time.
    from triton.runtime import interpreter

    known = {"getmembers": lambda room: [(n, getattr(room, n)) for n in _builtins(room)]}
    interpreter.inspect = SimpleNamespace(**{**vars(inspect), **known})


@contextmanager
def taken() -> Iterator[None]:
    """The kernels take updates on ``DEVICE``, the CPU too."""
    room.GPU_DEVICES.add(DEVICE.type)
    segments.CPU_DEVICES.discard("cpu")
    try:
        yield
    finally:
        room.GPU_DEVICES.discard("cpu")
        segments.CPU_DEVICES.add("cpu")


def waits(monkeypatch: pytest.MonkeyPatch, *rooms: str) -> list[int]:
    """How many tensors each wait for the device brings to the host, filled as they happen.

    ``rooms``: the modules whose ``fetch`` is counted.
    """
    brought: list[int] = []

    def counted(*tensors: Tensor) -> list[np.ndarray]:
        brought.append(len(tensors))
        return fetch(*tensors)

    for room_of_fetch in rooms:
        monkeypatch.setattr(f"{room_of_fetch}.fetch", counted)
    return brought


def there(*arrays: object) -> list[Tensor]:
    """Int64 numbers on the device."""
    return [torch.as_tensor(np.asarray(a, np.int64), device=DEVICE) for a in arrays]


def joined(parts: list[np.ndarray]) -> tuple[Tensor, Programs]:
    """Float32 vectors as one on the device, and where each stands."""
    flat = torch.from_numpy(np.concatenate(parts).astype(np.float32)).to(DEVICE)
    return flat, programs_of(tuple(part.size for part in parts), DEVICE)


def looked_at(n: int, lanes: int) -> np.ndarray:
    """Which of n entries the sample of a selection looks at, where it has so many ``lanes``."""
    j = np.arange(lanes)
    return ((j << 16) + (j * 40503 & 65535)) * n // (lanes << 16)


def by_kernels(
    text: str, update: Tensors, state: State | None = None, seed: int = 0
) -> tuple[Packet, State]:
    """``compress`` on the device; fails where the method has no kernels."""
    method = parse(text)
    assert plan_of(method) is not None, f"{text} has no kernels"
    there = {name: x.to(DEVICE) for name, x in update.items()}
    with taken():
        assert room.takes(there)
        return compress(method, there, state, seed)


def same_as_host(text: str, updates: list[Tensors], seed: int = 0) -> list[Packet]:
    """The kernels' messages of a run of updates, each compared with the host's, memory too."""
    method, packets = parse(text), []
    here: State | None = None
    state: State | None = None
    for number, update in enumerate(updates):
        expected, here = compress(method, update, here, seed + number)
        found, state = by_kernels(text, update, state, seed + number)
        assert found.payload == expected.payload, text
        assert found.spans == expected.spans
        assert list(found.sent) == list(expected.sent)
        for name, one in expected.sent.items():
            assert equal_bits(found.sent[name].decoded, one.decoded), (text, name)
        assert state.keys() == here.keys()
        assert all(equal_bits(state[key], x) for key, x in here.items())
        back = received(text, found.payload, update)
        assert all(equal_bits(back[name], one.decoded) for name, one in expected.sent.items())
        packets.append(found)
    return packets


def received(text: str, payload: bytes, template: Tensors) -> dict[str, Tensor]:
    """``decompress`` on the device."""
    with taken():
        return decompress(parse(text), payload, {n: x.to(DEVICE) for n, x in template.items()})


def equal_bits(a: Tensor, b: Tensor) -> bool:
    """Equal shapes and float32 bits; minus zero is not zero."""
    return a.shape == b.shape and a.cpu().numpy().tobytes() == b.cpu().numpy().tobytes()
