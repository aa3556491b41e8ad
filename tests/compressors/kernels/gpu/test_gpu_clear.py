"""Zeros put into many tensors at once."""

import numpy as np
import pytest
import torch

from compressors.kernels.gpu.entries import ENTRIES
from compressors.kernels.gpu.join import cleared
from tests.support.gpu import DEVICE, needs_triton

pytestmark = needs_triton
RNG = np.random.default_rng(5)


def agree(sizes: list[int], counts: list[int]) -> None:
    tensors = [torch.from_numpy(RNG.normal(size=n).astype(np.float32)).to(DEVICE) for n in sizes]
    places = [
        np.sort(RNG.choice(n, k, replace=False)) if n else np.zeros(0, int)
        for n, k in zip(sizes, counts, strict=True)
    ]
    chosen = [torch.from_numpy(x.astype(np.int64)).to(DEVICE) for x in places]
    before = [x.clone() for x in tensors]
    *_, found = cleared([tensors[:1], tensors], [chosen[:1], chosen])
    for x, old, new, where in zip(tensors, before, found, chosen, strict=True):
        assert torch.equal(x, old)  # as it was
        old[where] = 0.0
        assert torch.equal(new, old)


def test_few_none_and_all() -> None:
    agree([5, 1, 0, 7, 3], [2, 1, 0, 0, 3])


@pytest.mark.parametrize("count", [ENTRIES - 1, ENTRIES, ENTRIES + 1])
def test_around_a_programs_edge(count: int) -> None:
    agree([ENTRIES + 1, 4], [count, 1])


@pytest.mark.slow
def test_two_hundred_tensors() -> None:
    sizes = RNG.integers(1, 40, 200).tolist()
    agree(sizes, [int(RNG.integers(0, n + 1)) for n in sizes])


def test_shapes_and_layouts() -> None:
    full = torch.arange(1.0, 25.0, device=DEVICE).view(2, 3, 2, 2)
    full = full.to(memory_format=torch.channels_last)
    ((found,),) = cleared([[full]], [[torch.tensor([0, 23], device=DEVICE)]])
    expected = torch.arange(1.0, 25.0, device=DEVICE).view(2, 3, 2, 2)
    expected[0, 0, 0, 0] = expected[1, 2, 1, 1] = 0.0
    assert torch.equal(found, expected)
