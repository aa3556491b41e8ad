"""Random rotations: orthonormal, undone, equal in numba and torch, and what they are good for."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import compress, decompress, parse
from compressors.kernels import noise
from compressors.kernels.hadamard import block_sizes, rotate
from tests.support.generators import same_bits

SIZES = (1, 2, 3, 4, 7, 8, 12, 100, 1000, 4096, 4097, 3 * 4096 + 5, 1 << 15)
HUGE = torch.finfo(torch.float32).max


def normal(n: int, salt: int = 0) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(salt))


def matrix_of(n: int, seed: int) -> np.ndarray:
    """The rotation as a matrix, from its definition: blocks of H / sqrt(size), times signs."""
    signs = np.where(noise.words(seed, np.arange(n)) >= 1 << 31, -1.0, 1.0)
    whole, start = np.zeros((n, n)), 0
    while start < n:
        size = 1 << int(math.log2(n - start))
        block = np.ones((1, 1))
        while len(block) < size:
            block = np.block([[block, block], [block, -block]])
        whole[start : start + size, start : start + size] = block / math.sqrt(size)
        start += size
    return whole * signs


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 100])
def test_it_is_the_matrix_of_the_definition(n: int) -> None:
    """Sums are in float64 and rounded once to float32: by 2**-24 of a value of about 1."""
    found = torch.stack([rotate(one, 5) for one in torch.eye(n)], 1).numpy()
    assert np.allclose(found, matrix_of(n, 5), atol=2.0**-24)
    assert np.allclose(found @ found.T, np.eye(n), atol=1e-6)


@pytest.mark.parametrize("n", SIZES)
def test_the_norm_is_kept_and_the_way_back_is_the_inverse(n: int) -> None:
    x = normal(n)
    y = rotate(x, 3)
    assert math.isclose(float(y.double().norm()), float(x.double().norm()), rel_tol=1e-6)
    assert float((rotate(y, 3, back=True) - x).norm()) <= 1e-6 * float(x.norm())
    if n > 8:
        assert float((y - x).norm()) > 0.5 * float(x.norm())  # it does rotate


def test_blocks() -> None:
    for n in range(200):
        assert sum(block_sizes(n)) == n
        assert block_sizes(n) == sorted(set(block_sizes(n)), reverse=True)


@pytest.mark.parametrize("n", [256, 4096, 1 << 13, 1 << 15])
def test_a_column_of_the_matrix(n: int) -> None:
    """H's entry i, j is minus one to the number of bits that i and j share."""
    x = torch.zeros(n)
    x[77] = math.sqrt(n)
    shared = np.array([(i & 77).bit_count() % 2 for i in range(n)])
    sign = -1.0 if int(noise.words(4, np.array([77]))[0]) >= 1 << 31 else 1.0
    assert np.allclose(rotate(x, 4).numpy(), sign * (1 - 2.0 * shared), rtol=1e-6)


def test_what_leaves_float32_saturates() -> None:
    """Rotating what was rotated adds all of it up in one entry: 32 times HUGE / sqrt(32)."""
    x = torch.zeros(32)
    x[3] = 1.0
    worst = rotate(x, 6).sign() * HUGE
    assert float(rotate(worst, 6, back=True)[3]) == HUGE
    assert bool(torch.isfinite(rotate(torch.full((64,), HUGE), 6)).all())
    broken = torch.full((4,), math.nan)
    assert bool(torch.isnan(rotate(broken, 1)).all())  # never a number: receive refuses it


def test_tensors_and_messages_have_their_own_rotation() -> None:
    update = {"a": normal(64), "b": normal(64)}
    method = parse("rotate(topk(0.1) | float32)")
    first, again = (compress(method, update, seed=s)[0].sent for s in (1, 2))
    assert not torch.equal(first["a"].decoded, first["b"].decoded)
    assert not torch.equal(first["a"].decoded, again["a"].decoded)
    payload = compress(method, update, seed=1)[0].payload
    assert same_bits(decompress(method, payload, update), {n: x.decoded for n, x in first.items()})
