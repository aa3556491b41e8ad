"""Methods that need a seed to be read: it travels once, and gives each tensor its own."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from compressors import (
    BitReader,
    BitWriter,
    ByName,
    Compressor,
    ErrorFeedback,
    Flat,
    PerTensor,
    Raw,
    Row,
    SentTensor,
    catalogue,
    compress,
    decompress,
    derive,
    explain,
    parse,
)
from compressors.base import tensor_seed
from tests.support.generators import same_bits, whole_numbers


@dataclass(frozen=True)
class RandomHalf:
    """A toy that needs its seed: half of the entries as float32, drawn from the seed."""

    needs_seed = True

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        indices = self.positions(x.numel(), seed)
        kept = torch.zeros_like(x.reshape(-1))
        kept[indices] = x.reshape(-1)[indices]
        with out.span("values"):
            out.float32s(kept[indices].numpy())
        return SentTensor(kept[indices], indices, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        indices = self.positions(template.numel(), seed)
        kept = torch.zeros(template.numel())
        with bits.span("values"):
            kept[indices] = torch.from_numpy(bits.float32s(indices.numel()))
        return kept.view(template.shape)

    @staticmethod
    def positions(n: int, seed: int) -> Tensor:
        chosen = np.random.default_rng(seed).choice(n, n // 2, replace=False)
        return torch.from_numpy(np.sort(chosen))


SEEDED: dict[str, Compressor] = {
    "per_tensor": PerTensor(RandomHalf()),
    "flat": Flat(RandomHalf()),
    "ef": ErrorFeedback(PerTensor(RandomHalf())),
    "by_name": ByName((("a", Raw()), ("b", PerTensor(RandomHalf())), ("*", Flat(RandomHalf())))),
}
seeded = pytest.mark.parametrize("kind", SEEDED)


@pytest.fixture(autouse=True)
def _toy_in_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("random_half", "codec", RandomHalf, "a toy", "this test", "")
    monkeypatch.setitem(catalogue.CATALOGUE, row.name, row)


def three_equal_tensors() -> dict[str, Tensor]:
    return {name: whole_numbers(64, 1) for name in "abc"}


@seeded
@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**40 + 5, -1])
def test_the_seed_travels(kind: str, seed: int) -> None:
    """The receiver is told nothing; the seed is in the payload's first 56 bits, once."""
    update = three_equal_tensors()
    packet, _ = compress(SEEDED[kind], update, seed=seed)
    assert int.from_bytes(packet.payload[3:7], "big") == seed % 2**32
    got = decompress(SEEDED[kind], packet.payload, update)
    assert same_bits(got, {name: one.decoded for name, one in packet.sent.items()})
    values = packet.spans["values"]
    assert packet.spans == {"header": 56, "positions": 0, "values": values, "side": 0}
    assert explain(SEEDED[kind], packet.payload, update) == packet.spans


@seeded
def test_tensors_get_different_seeds(kind: str) -> None:
    sent = compress(SEEDED[kind], three_equal_tensors(), seed=3)[0].sent
    chosen = [tuple(one.indices.tolist()) for one in sent.values() if one.count == 32]
    assert len(set(chosen)) == len(chosen)
    again = compress(SEEDED[kind], three_equal_tensors(), seed=4)[0].sent
    assert not torch.equal(sent["c"].indices, again["c"].indices)


def test_the_ordinal_fixes_a_tensors_seed() -> None:
    """Names may be anything; the place in the update counts, as docs/design.md says."""
    sent = compress(SEEDED["per_tensor"], three_equal_tensors(), seed=9)[0].sent
    for i, one in enumerate(sent.values()):
        assert torch.equal(one.indices, RandomHalf.positions(64, tensor_seed(9, i)))


def test_methods_without_a_seed_carry_none() -> None:
    method, update = parse("topk(0.2) | float32"), {"w": whole_numbers(64, 1)}
    assert not method.needs_seed
    assert len({compress(method, update, seed=seed)[0].payload for seed in range(5)}) == 1
    assert ByName((("a", Raw()), ("*", SEEDED["flat"]))).needs_seed


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
