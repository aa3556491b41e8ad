"""Noise from a counter: one stream in numpy and numba, and it looks like noise."""

import numpy as np
import pytest
from numba import njit

from compressors.kernels import noise


@njit(nogil=True)
def compiled(multiplier, offset, n):
    found = np.empty(n, np.uint32)
    for i in range(n):
        found[i] = noise.draw(multiplier, offset, np.uint64(i))
    return found


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_both_twins_agree(seed: int) -> None:
    plain = noise.words(seed, np.arange(1000))
    assert np.array_equal(plain, compiled(*noise.key(seed), 1000))


GOLDEN = [3056227401, 3582268347, 174675103, 2216398307]


def test_golden_words() -> None:
    """Written down once: messages in store depend on them."""
    assert noise.words(20180522, np.arange(4)).tolist() == GOLDEN


def test_bits_are_fair_and_streams_are_apart() -> None:
    """2**20 words: each bit's share of ones is 1/2 with standard deviation 2**-11; 6 of them.

    Two streams differ in about half of all bits; so do neighbours in one stream.
    """
    a, b = noise.words(3, np.arange(1 << 20)), noise.words(4, np.arange(1 << 20))
    for x in (a, b, a ^ b, a[1:] ^ a[:-1]):
        shares = [float(((x >> bit) & 1).mean()) for bit in range(32)]
        assert max(abs(share - 0.5) for share in shares) < 6 * 2.0**-11
    assert not np.array_equal(np.sort(a), np.sort(b))
