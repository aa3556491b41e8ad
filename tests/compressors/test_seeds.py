"""Methods that need a seed to be read: it travels once, and gives each tensor its own."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from compressors import compress, derive, parse
from tests.support.generators import whole_numbers

SEEDED = {
    "per_tensor": "randk(0.5) | float32",
    "flat": "flat(randk(0.5) | float32)",
    "ef": "ef(randk(0.5, false) | float32)",
    "by_name": "by_name('a', raw, 'b', randk(0.5) | float32, '*', flat(randk(0.5) | float32))",
}
seeded = pytest.mark.parametrize("kind", SEEDED)


def three_equal_tensors() -> dict[str, Tensor]:
    return {name: whole_numbers(64, 1) for name in "abc"}


@seeded
@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**40 + 5, -1])
def test_the_seed_travels_once(kind: str, seed: int) -> None:
    """It is in the four bytes behind version and fingerprint."""
    packet, _ = compress(parse(SEEDED[kind]), three_equal_tensors(), seed=seed)
    assert int.from_bytes(packet.payload[3:7], "big") == seed % 2**32
    values = packet.spans["values"]
    assert packet.spans == {"header": 56, "positions": 0, "values": values, "side": 0}


@seeded
def test_tensors_get_different_seeds(kind: str) -> None:
    method = parse(SEEDED[kind])
    sent = compress(method, three_equal_tensors(), seed=3)[0].sent
    chosen = [tuple(one.indices.tolist()) for one in sent.values() if one.count == 32]
    assert len(set(chosen)) == len(chosen)
    again = compress(method, three_equal_tensors(), seed=4)[0].sent
    assert not torch.equal(sent["c"].indices, again["c"].indices)


def test_methods_without_a_seed_carry_none() -> None:
    method, update = parse("topk(0.2) | float32"), {"w": whole_numbers(64, 1)}
    assert not method.needs_seed
    assert len({compress(method, update, seed=seed)[0].payload for seed in range(5)}) == 1
    assert parse(SEEDED["by_name"]).needs_seed


@given(st.integers(), st.lists(st.integers() | st.text(max_size=5), max_size=3))
def test_derived_seeds(seed: int, path: list[Any]) -> None:
    assert 0 <= derive(seed, *path) < 2**32
    assert derive(seed, *path) == derive(seed, *path)
    assert derive(seed, *path) != derive(seed + 1, *path)


def test_derived_seeds_are_what_they_were() -> None:
    """Runs of the past stay repeatable, and the two ends agree whatever their version."""
    assert derive(0) == 872845860
    assert derive(1, "client", 3) == 758103990
    assert derive(2**32 - 1, 0) == 965943893
