"""Noise from a counter: 32 random bits for (seed, index), the same on every device.

Nothing is stored and nothing is drawn in order, so the noise of an entry does not
depend on threads, chunks or devices. An index times a seed's odd multiplier plus
the seed's offset goes through a mixer of two multiplications and three shifts
(constants of Chris Wellons' search for low-bias 32-bit mixers, ``lowbias32``): two
seeds order the mixer's inputs differently, so their noise is not a permutation of
aligned blocks of each other's. numba promotes uint32 to uint64: every product is cast.

``draw`` is for compiled loops, ``words`` its twin in numpy.
"""

import numpy as np
from numba import njit

_MUL1, _MUL2 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_S16, _S15 = np.uint32(16), np.uint32(15)


def key(seed: int) -> tuple[np.uint32, np.uint32]:
    """The odd multiplier and the offset of a seed's counter."""
    mixed = ((seed + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93) & 0xFFFFFFFFFFFFFFFF
    mixed ^= mixed >> 32
    return np.uint32(mixed & 0xFFFFFFFF | 1), np.uint32(mixed >> 32)


@njit(cache=True, nogil=True, inline="always")
def draw(multiplier, offset, index):
    """32 random bits for ``index`` under a ``key``."""
    x = np.uint32(np.uint32(np.uint32(index) * multiplier) + offset)
    x = np.uint32(x ^ (x >> _S16))
    x = np.uint32(x * _MUL1)
    x = np.uint32(x ^ (x >> _S15))
    x = np.uint32(x * _MUL2)
    return np.uint32(x ^ (x >> _S16))


def words(seed: int, indices: np.ndarray) -> np.ndarray:
    """32 random bits (uint32) for each of ``indices``, any shape.

    Example:
        >>> import numpy as np
        >>> int(words(1, np.array([5]))[0]) == int(draw(*key(1), 5))
        True
    """
    multiplier, offset = key(seed)
    with np.errstate(over="ignore"):
        x = np.asarray(indices).astype(np.uint32) * multiplier + offset
        x = (x ^ (x >> _S16)) * _MUL1
        x = (x ^ (x >> _S15)) * _MUL2
    return x ^ (x >> _S16)
