"""Sums of values with random signs, and the way back: 32 signs of a direction are a word of noise.

Sums are float64, in 32 lanes and then over the lanes: an order that no machine changes.
"""

import numpy as np
from numba import njit

from compressors.kernels.noise import draw

_LANES = 32
_LARGEST = np.float64(np.finfo(np.float32).max)


@njit(cache=True, nogil=True, inline="always")
def _sign(word, place):
    return np.float64(1.0) - np.float64(2.0) * np.float64((word >> np.uint32(place)) & np.uint32(1))


@njit(cache=True, nogil=True)
def project(x, multipliers, offsets, out):
    """Fills ``out`` (k,) with the sums of ``x`` times the signs of each key's direction."""
    lanes = np.empty(_LANES, np.float64)
    for j in range(out.size):
        lanes[:] = 0.0
        blocks = x.size // _LANES
        for w in range(blocks):
            word = draw(multipliers[j], offsets[j], np.uint32(w))
            part = x[w * _LANES : (w + 1) * _LANES]
            for place in range(_LANES):
                lanes[place] += _sign(word, place) * np.float64(part[place])
        word = draw(multipliers[j], offsets[j], np.uint32(blocks))
        for place in range(x.size - blocks * _LANES):
            lanes[place] += _sign(word, place) * np.float64(x[blocks * _LANES + place])
        total = np.float64(0.0)
        for place in range(_LANES):
            total += lanes[place]
        out[j] = np.float32(min(max(total, -_LARGEST), _LARGEST))


@njit(cache=True, nogil=True)
def spread_directions(numbers, multipliers, offsets, factor, out):
    """Fills ``out`` with ``factor`` times the sum of the directions, each times its number."""
    lanes = np.empty(_LANES, np.float64)
    for start in range(0, out.size, _LANES):
        lanes[:] = 0.0
        for j in range(numbers.size):
            word = draw(multipliers[j], offsets[j], np.uint32(start // _LANES))
            number = np.float64(numbers[j])
            for place in range(_LANES):
                lanes[place] += _sign(word, place) * number
        for place in range(min(_LANES, out.size - start)):
            out[start + place] = np.float32(min(max(lanes[place] * factor, -_LARGEST), _LARGEST))
