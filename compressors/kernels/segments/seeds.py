"""The seeds of segments in compiled loops: twins of ``base.tensor_seed`` and ``noise.key``."""

import numpy as np
from numba import njit

ROUND = 2  # see ``whole.pipeline``

_1, _31, _32 = np.uint64(1), np.uint64(31), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_C, _D = np.uint64(0x94D049BB133111EB), np.uint64(0xD6E8FEB86659FD93)


@njit(cache=True, nogil=True)
def derived(seed, ordinal):
    """``base.tensor_seed``, as uint64."""
    mixed = (np.uint64(seed) + _1) * _A + (np.uint64(ordinal) + _1) * _B
    return ((mixed ^ (mixed >> _31)) * _C) >> _32


@njit(cache=True, nogil=True)
def of_segment(seed, s):
    """The seed of what is drawn to round the values of segment ``s``."""
    return derived(derived(seed, s), ROUND)


@njit(cache=True, nogil=True)
def key_of(seed):
    """``noise.key``: the multiplier and the offset of a seed's counter, uint32."""
    mixed = (np.uint64(seed) + _1) * _A
    mixed = (mixed ^ (mixed >> _32)) * _D
    mixed ^= mixed >> _32
    return np.uint32((mixed & _LOW) | _1), np.uint32(mixed >> _32)
