"""FedScalar's numbers: beside sums by hand, unbiased, and of the noise that theory says."""

import numpy as np
import pytest
import torch

from compressors import compress, parse
from compressors.base import tensor_seed
from compressors.kernels.noise import words
from compressors.whole.projections import Projections


def signs(seed: int, n: int) -> np.ndarray:
    """The direction (n,) of a key's seed, bit by bit."""
    noise = words(seed, np.arange(-(-n // 32)))
    return 1.0 - 2.0 * np.array([int(noise[i // 32]) >> (i % 32) & 1 for i in range(n)])


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("scaled", [True, False])
def test_numbers_and_what_they_stand_for_by_hand(n: int, k: int, scaled: bool) -> None:
    from compressors.bits import BitReader, BitWriter

    x = torch.randn(n, generator=torch.Generator().manual_seed(n))
    out = BitWriter()
    one = Projections(k, scaled)
    sent = one.write(x, out, seed=11)
    directions = np.stack([signs(tensor_seed(11, j), n) for j in range(k)])
    numbers = (directions @ x.double().numpy()).astype(np.float32)
    bits = BitReader(out.to_bytes())
    assert np.allclose(bits.float32s(k), numbers, rtol=1e-6)
    wanted = directions.T @ numbers.astype(float) / (k if scaled else k + n - 1)
    assert np.allclose(sent.values.numpy(), wanted, rtol=1e-5)
    assert torch.equal(one.read(BitReader(out.to_bytes()), x, 11), sent.values)


def test_one_number_and_a_seed_whatever_the_size() -> None:
    sizes = {
        8 * len(compress(parse("fedscalar()"), {"w": torch.randn(n)})[0].payload)
        for n in (10, 100_000)
    }
    assert len(sizes) == 1 and sizes.pop() <= 24 + 32 + 32
