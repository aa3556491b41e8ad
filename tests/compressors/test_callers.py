"""What a caller's memory, names, numbers and modes of torch must not change, for every method."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import State, UpdateError, compress, decompress, parse, text, to_json
from compressors.base import derive
from compressors.grammar import fingerprint
from compressors.message import Upload, compress_all
from tests.support.generators import METHODS, same_bits, whole_numbers
from tests.support.looping import looped

Way = Callable[[dict[str, Tensor]], Mapping[str, Tensor]]


def update(seed: int) -> dict[str, Tensor]:
    """Matrices whose products round otherwise where they lie otherwise, and edges."""
    drawn = torch.Generator().manual_seed(seed)
    return {
        "w": torch.randn(31, 67, generator=drawn),
        "v": torch.randn(129, generator=drawn),
        "s": torch.randn((), generator=drawn),
        "none": torch.zeros(0, 4),
    }


def messages(method: Any, way: Way = dict, given: Way = dict) -> Any:
    """Three messages of a sender, whose memory goes ``way`` after each, and what they decode to."""
    state: State | None = None
    found = []
    for seed in range(3):
        packet, after = compress(method, given(update(seed)), state, seed)
        got = decompress(method, packet.payload, given(update(seed)))
        seen = [one.decoded for one in packet.sent.values()]
        kinds = [(x.dtype, x.device.type) for x in (*got.values(), *seen, *after.values())]
        found.append((packet.payload, kinds, _values(got.values()), _values(seen)))
        state = dict(way(after))
    return found, {key: x.tolist() for key, x in sorted(after.items())}


def _values(tensors: Any) -> list[bytes]:
    return [x.detach().contiguous().numpy().tobytes() for x in tensors]


def shifted(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same values, each tensor 4 bytes (of whole numbers 8) behind where torch puts it."""
    moved = {}
    for name, x in tensors.items():
        room = torch.empty(x.numel() + 1, dtype=x.dtype)
        moved[name] = room[1:].view(x.shape).copy_(x)
        assert not x.numel() or moved[name].data_ptr() % 64
    return moved


def strided(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same values, every second entry of a larger tensor, column by column."""
    return {
        n: x.T.repeat_interleave(2, 0)[::2].T
        if x.dim() == 2
        else x.repeat_interleave(2)[::2]
        if x.dim() == 1
        else x
        for n, x in tensors.items()
    }


WAYS: dict[str, tuple[Way, Way]] = {
    "memory shifted": (shifted, dict),
    "memory strided": (strided, dict),
    "memory turned round": (lambda state: dict(reversed(state.items())), dict),
    "update shifted": (dict, shifted),
    "update strided": (dict, strided),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_where_memory_and_update_lie_changes_nothing(method: str) -> None:
    """A product of matrices may round by the alignment of its factors."""
    compressor = parse(method)
    right = messages(compressor)
    for title, ways in WAYS.items():
        assert messages(compressor, *ways) == right, title


@contextmanager
def dtype(kind: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(kind)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "default dtype float64": lambda: dtype(torch.float64),
    "default dtype bfloat16": lambda: dtype(torch.bfloat16),
    "default device meta": lambda: torch.device("meta"),  # a GPU fails at the same places
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode,
}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_no_mode_of_torch_changes_a_message(method: str) -> None:
    compressor = parse(method)
    updates = [update(seed) for seed in range(3)]
    right = _in_mode(compressor, updates, torch.enable_grad)
    for title, mode in MODES.items():
        assert _in_mode(compressor, updates, mode) == right, title


def _in_mode(
    compressor: Any, updates: list[dict[str, Tensor]], mode: Callable[[], AbstractContextManager]
) -> Any:
    state, found = None, []
    with mode():
        for seed, given in enumerate(updates):
            packet, state = compress(compressor, given, state, seed)
            got = decompress(compressor, packet.payload, given)
            seen = [one.decoded for one in packet.sent.values()]
            tensors = (*got.values(), *seen, *state.values())
            kinds = [(x.dtype, x.device.type, tuple(x.shape)) for x in tensors]
            assert all(x.device.type == "cpu" for x in tensors)
            found.append((packet.payload, kinds, _values(tensors)))
    return found


class Odd(str):
    """A text that prints as another."""

    def __repr__(self) -> str:
        return "odd"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "odd"


class Whole(int):
    def __repr__(self) -> str:
        return "whole"

    __str__ = __repr__


class Real(float):
    def __repr__(self) -> str:
        return "real"

    __str__ = __repr__


NAMES = (
    "", "/", "w", "residual/w", "residual", "inner", "inner/residual/w", "0/w", "0/residual/w",
    "q/w", "momentum/w", "messages", "turn/turn", "a\nb", "\0", "\ud800", "x" * 300,
)  # fmt: skip
"""Texts that a tensor may have as its name; some look as keys of a memory do."""


@pytest.mark.parametrize("method", [m for m in METHODS if "by_name" not in m])
def test_a_tensors_name_is_any_text(method: str) -> None:
    """Bytes but the fingerprint are those of plain names, and so are the memory's values."""
    compressor, memories, payloads = parse(method), [], []
    for names in ([f"t{i:02}" for i in range(len(NAMES))], NAMES):
        state: State | None = None
        for seed in range(2):
            given = {n: whole_numbers(12, seed + i).view(4, 3) for i, n in enumerate(names)}
            packet, state = compress(compressor, given, state, seed)
            got = decompress(compressor, packet.payload, given)
            assert same_bits(got, {name: x.decoded for name, x in packet.sent.items()})
        payloads.append(packet.payload[3:])
        memories.append(sorted(map(str, (x.tolist() for x in state.values()))))
    assert payloads[0] == payloads[1] and memories[0] == memories[1]


@pytest.mark.parametrize("kind", [Odd, np.str_, lambda name: StrEnum("Name", {"ONE": name}).ONE])
@pytest.mark.parametrize("method", ["raw", "sbc(0.5)", "randk(0.5) | float32", "powersgd(1)"])
def test_only_the_text_of_a_name_counts(method: str, kind: Callable[[str], str]) -> None:
    """Whichever comes first in a process: what is remembered of one is that of the other."""
    compressor, x = parse(method), torch.arange(12.0).view(3, 4)
    for first in (True, False):
        name = f"of {kind} {first}"
        packets, states = {}, {}
        for odd in (first, not first):
            given = {kind(name) if odd else name: x}
            packets[odd], states[odd] = compress(compressor, given, None, 1)
            assert {type(key) for key in (*packets[odd].sent, *states[odd])} == {str}
            assert decompress(compressor, packets[odd].payload, given).keys() == {name}
            (together,) = compress_all([Upload(compressor, given, None, 1)])
            assert together[0].payload == packets[odd].payload
            again = compress(compressor, given, {kind(k): v for k, v in states[odd].items()}, 2)[0]
            packets[odd] = packets[odd].payload, again.payload
        assert packets[True] == packets[False] and states[True].keys() == states[False].keys()
    assert fingerprint(compressor, {kind("only"): x}) == fingerprint(compressor, {"only": x})


def test_a_seed_follows_from_texts_and_numbers() -> None:
    right = derive(3, "client", 7)
    assert right == derive(np.int64(3), Odd("client"), Whole(7))
    assert right == derive(3, np.str_("client"), np.uint8(7))
    assert right == derive(3, StrEnum("Name", {"ONE": "client"}).ONE, 7)


def other(thing: Any, kinds: Mapping[type, Callable[[Any], Any]]) -> Any:
    """An equal part, made from settings of other types."""
    if isinstance(thing, tuple):
        return tuple(other(one, kinds) for one in thing)
    if is_dataclass(thing):
        settings = {f.name: other(getattr(thing, f.name), kinds) for f in fields(thing) if f.init}
        return type(thing)(**settings)
    return kinds.get(type(thing), lambda same: same)(thing)


KINDS: dict[str, dict[type, Callable[[Any], Any]]] = {
    "numpy": {int: np.int64, float: np.float64, bool: np.bool_, str: np.str_},
    "subclasses": {int: Whole, float: Real, str: Odd},
    "whole": {float: lambda x: int(x) if x.is_integer() else x},
}


@pytest.mark.parametrize("method", METHODS)
@looped("kind", KINDS)
def test_only_the_value_of_a_setting_counts(method: str, kind: str) -> None:
    right = parse(method)
    made = other(right, KINDS[kind])
    assert made == right and text(made) == text(right)
    assert json.dumps(to_json(made)) == json.dumps(to_json(right))
    assert repr(made) == repr(right)


def test_a_large_step_has_one_text() -> None:
    assert text(parse("sign(1000000000000000)")) == text(parse("sign(1e15)"))


class Sharded(Tensor):
    """A tensor whose values do not lie where it says, as those of a DTensor."""


@pytest.mark.parametrize("method", ["raw", "sbc(0.5)", "qsgd(3)", "flat(topk(0.5) | float32)"])
def test_a_subclass_of_tensor_is_refused_by_name(method: str) -> None:
    compressor = parse(method)
    odd = torch.ones(4).as_subclass(Sharded)
    with pytest.raises(UpdateError, match=r"tensor 'layer\.w' is of the subclass Sharded"):
        compress(compressor, {"v": torch.ones(2), "layer.w": odd})
    (found,) = compress_all([Upload(compressor, {"layer.w": odd})])
    assert isinstance(found, UpdateError) and "'layer.w'" in str(found)
    packet, state = compress(compressor, {"w": torch.ones(4)})
    got = decompress(compressor, packet.payload, {"w": odd})["w"]
    assert type(got) is Tensor and got.tolist() == packet.sent["w"].decoded.tolist()
    for key in state:
        with pytest.raises(UpdateError, match=f"the memory's '{key}' is a Sharded"):
            compress(compressor, {"w": torch.ones(4)}, state | {key: odd})
