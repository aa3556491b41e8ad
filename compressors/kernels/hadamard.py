"""Random signs and a fast Walsh-Hadamard transform: an orthonormal rotation of a flat vector.

A vector of n entries is cut into blocks whose sizes are powers of two, the largest first
(1000 = 512 + 256 + 128 + 64 + 32 + 8), and each is rotated by itself: y = H D x / sqrt(size),
D the signs and H the Hadamard matrix in natural order. Nothing is padded, so nothing is added
to a message; the entries in the small last blocks are spread over few others. Sums are in
float64 and rounded once; what leaves float32 saturates at its largest value, both ways.

The butterflies of a stage do not depend on each other, so their order may be chosen for the
cache.
"""

import math

import numpy as np
import torch
from numba import njit
from torch import Tensor

from compressors.kernels import noise

_CHUNK = 4096  # float64 entries that fit the first cache: stages within a chunk go together
_LARGEST = float(np.finfo(np.float32).max)


@njit(cache=True, nogil=True, inline="always")
def _four(a, b, c, d):
    """Two stages on four entries."""
    e, f, g, h = a + b, a - b, c + d, c - d
    return e + g, f + h, e - g, f - h


@njit(cache=True, nogil=True)
def _stages(x, h, end):
    """The stages from ``h`` up to but without ``end``, all powers of two."""
    while 4 * h <= end:
        for start in range(0, x.size, 4 * h):  # two stages in one pass through memory
            part = x[start : start + 4 * h]
            q0, q1, q2, q3 = part[:h], part[h : 2 * h], part[2 * h : 3 * h], part[3 * h :]
            for j in range(h):
                q0[j], q1[j], q2[j], q3[j] = _four(q0[j], q1[j], q2[j], q3[j])
        h *= 4
    if h < end:
        for start in range(0, x.size, 2 * h):
            low, high = x[start : start + h], x[start + h : start + 2 * h]
            for j in range(h):
                low[j], high[j] = low[j] + high[j], low[j] - high[j]


@njit(cache=True, nogil=True)
def _transform(x):
    """The unscaled transform of ``x`` (float64, a power of two entries), in place."""
    if x.size < 4:
        _stages(x, 1, x.size)
        return
    chunk = min(x.size, _CHUNK)
    for start in range(0, x.size, chunk):
        part = x[start : start + chunk]
        for i in range(0, chunk, 4):  # the stages between entries 1 and 2 apart
            x0, x1, x2, x3 = part[i], part[i + 1], part[i + 2], part[i + 3]
            part[i], part[i + 1], part[i + 2], part[i + 3] = _four(x0, x1, x2, x3)
        _stages(part, 4, chunk)
    _stages(x, chunk, x.size)


@njit(cache=True, nogil=True)
def _flip(x, multiplier, offset):
    """The signs of a seed, in place."""
    for i in range(x.size):
        if noise.draw(multiplier, offset, i) >> np.uint32(31):
            x[i] = -x[i]


@njit(cache=True, nogil=True)
def _rotate(x, multiplier, offset, back):
    work = x.astype(np.float64)
    if not back:
        _flip(work, multiplier, offset)
    start = 0
    while start < x.size:
        size = 1
        while 2 * size <= x.size - start:
            size *= 2
        block = work[start : start + size]
        _transform(block)
        block *= 1.0 / math.sqrt(size)
        start += size
    if back:
        _flip(work, multiplier, offset)
    out = np.empty(x.size, np.float32)
    for i in range(x.size):
        value = work[i] + 0.0  # no minus zeros
        if value > _LARGEST:
            value = _LARGEST
        elif value < -_LARGEST:
            value = -_LARGEST
        out[i] = np.float32(value)
    return out


def block_sizes(n: int) -> list[int]:
    """The powers of two that sum to ``n``, the largest first.

    Example:
        >>> block_sizes(1000)
        [512, 256, 128, 64, 32, 8]
    """
    return [1 << bit for bit in reversed(range(n.bit_length())) if n >> bit & 1]


def rotate(x: Tensor, seed: int, back: bool = False) -> Tensor:
    """The rotation that ``seed`` draws, of ``x`` (n,), float32, n >= 1; ``back``: its inverse.

    Example:
        >>> x = torch.tensor([3.0, 0.0, 0.0, 4.0])
        >>> rotate(x, 1).norm(), rotate(rotate(x, 1), 1, back=True)
        (tensor(5.), tensor([3., 0., 0., 4.]))
    """
    multiplier, offset = noise.key(seed)
    return torch.from_numpy(_rotate(x.contiguous().numpy(), multiplier, offset, back))
