"""A matrix from its factors, added up in one fixed order: the same floats on every device.

A linear algebra library orders its sums by size, alignment and number of threads. What a
sender believes and what a receiver computes must be equal to the bit, so here entry (i, j)
is p[0, i] q[0, j] + p[1, i] q[1, j] + ..., each product and each sum rounded once.
"""

import numpy as np
import torch
from numba import njit
from torch import Tensor


@njit(cache=True, nogil=True)
def _product(p, q, out):
    for i in range(out.shape[0]):
        row = out[i]
        first = p[0, i]
        for j in range(row.size):
            row[j] = first * q[0, j]
        for k in range(1, p.shape[0]):
            factor = p[k, i]
            for j in range(row.size):
                row[j] += factor * q[k, j]


def product(p: Tensor, q: Tensor) -> Tensor:
    """The float32 matrix (n, m) of factors ``p`` (r, n) and ``q`` (r, m), float32, r >= 1.

    Example:
        >>> product(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([[3., 4.],
                [6., 8.]])
    """
    out = np.empty((p.shape[1], q.shape[1]), np.float32)
    _product(p.numpy(), q.numpy(), out)
    return torch.from_numpy(out)
