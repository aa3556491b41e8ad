"""One pass for an update beside the way that asks part by part: the same messages, or a failure."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors import Packet, PayloadError, State, Tensors, compress, parse, segments
from compressors.message import Received, receive
from compressors.segments.write import HostMessage

TEXTS = (
    "raw",
    "float32",
    "sbc(0.01)",
    "stc(0.1)",
    "gradient_dropping(0.05)",
    "gradient_dropping(0.1, scope=model)",
    "topk(0.1) | cnat",
    "ef(topk(0.1) | cnat(8) | golomb(0.02))",
    "topk(1) | float32",
    "cnat",
    "ef(cnat)",
    "cnat(6, 3)",
    "ef(cnat(rounding=nearest))",
    "qsgd(7)",
    "qsgd(127, 64)",
    "dither(300, inf)",
    "dither(5, 1, natural)",
    "topk(0.2) | dither(7, 2, standard, 16, cnat) | golomb",
    "ef(topk(0.1) | shrink(qsgd(7, 8)) | golomb)",
    "shrink(cnat)",
    "sign(0.5)",
    "ef_sign()",
    "terngrad",
    "terngrad(none)",
    "one_sided(0.3) | float32",
    "flat(one_sided(0.2) | mean)",
    "fedpaq(3)",
    "ef(flat(topk(0.02) | cnat))",
    "by_name('size<10', raw, 't*', ef(cnat(8)), '*', sbc(0.1))",
    "ef(by_name('w', one_sided(0.05) | mean, '*', cnat))",
)
"""Every kind of symbol, with and without memory, for each tensor, for all as one, and by rules."""


@contextmanager
def part_by_part() -> Iterator[None]:
    """Inside, no update goes in one pass."""
    segments.CPU_DEVICES.discard("cpu")
    try:
        yield
    finally:
        segments.CPU_DEVICES.add("cpu")


def is_one_pass(packet: Packet) -> bool:
    """Whether a message was made in one pass."""
    return isinstance(packet, HostMessage)


def both_ways(text: str, updates: list[Tensors], seed: int = 0) -> list[Packet]:
    """The messages of a run of updates, each compared with what the parts say, memory too."""
    method, packets = parse(text), []
    here: State | None = None
    there: State | None = None
    for number, update in enumerate(updates):
        packet, here = compress(method, update, here, seed + number)
        with part_by_part():
            expected, there = compress(method, update, there, seed + number)
        whole = any(x.numel() for x in update.values())
        assert is_one_pass(packet) == whole and not is_one_pass(expected), text
        assert packet.payload == expected.payload, text
        assert packet.spans == expected.spans and list(packet.spans) == list(expected.spans)
        assert packet.counts == expected.counts and list(packet.counts) == list(update)
        assert list(packet.sent) == list(expected.sent)
        for name, one in expected.sent.items():
            mine = packet.sent[name]
            assert equal(mine.decoded, one.decoded) and mine.count == one.count, (text, name)
            if isinstance(one.indices, Tensor):
                assert equal(mine.indices, one.indices) and equal(mine.values, one.values)
            else:
                assert mine.indices is one.indices
        assert packet.indices.keys() == expected.indices.keys(), text
        assert all(equal(packet.indices[name], x) for name, x in expected.indices.items())
        assert list(here) == list(there)
        assert all(equal(here[key], x) for key, x in there.items())
        template = {name: torch.empty_like(x) for name, x in update.items()}
        assert read_alike(text, packet.payload, template) is not None
        packets.append(packet)
    return packets


def read_alike(text: str, payload: bytes, template: Tensors) -> Received | None:
    """What a payload says, or None where it is refused: in the same words both ways."""
    mine, theirs = _tried(lambda: receive(parse(text), payload, template)), None
    with part_by_part():
        theirs = _tried(lambda: receive(parse(text), payload, template))
    if isinstance(theirs, str) or isinstance(mine, str):
        assert mine == theirs, text
        return None
    assert list(mine.update) == list(theirs.update)
    assert all(equal(mine.update[name], x) for name, x in theirs.update.items())
    assert mine.spans == theirs.spans and mine.sent == theirs.sent
    found: Received = mine
    return found


def _tried(read: Callable[[], Received]) -> Any:
    try:
        return read()
    except PayloadError as error:
        return str(error)


def equal(a: Any, b: Any) -> bool:
    """Equal shapes, dtypes and bits; minus zero is not zero."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    here, there = (x.detach().contiguous().numpy().tobytes() for x in (a, b))
    return bool(here == there)


def drawn(rng: np.random.Generator, sizes: list[int], kind: str) -> dict[str, Tensor]:
    """An update of tensors of these sizes whose values are of a kind: see ``KINDS``."""
    update = {}
    for i, n in enumerate(sizes):
        x = rng.normal(size=n) * 10.0 ** rng.integers(-3, 3)
        if kind == "ties":
            x = np.round(x)
        elif kind == "few":
            x = x * (rng.random(n) < 0.003)
        elif kind == "one side":
            x = -np.abs(x)
        elif kind == "zeros" and i % 2:
            x = x * 0.0 * rng.choice([-1, 1], n)
        elif kind == "wide":
            x = np.sign(x) * 2.0 ** rng.integers(-149, 120, n)
        update[("w", "t", "b", "none")[i % 4] + str(i) * (i > 3)] = torch.from_numpy(
            x.astype(np.float32)
        )
    return update


KINDS = ("normal", "ties", "few", "one side", "zeros", "wide")
"""Values: as they come, with many ties, with few that are not zero, of one sign, with tensors of
zeros of either sign among them, and over all exponents."""
