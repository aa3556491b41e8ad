"""Norms of buckets, and values as signed levels times a norm: what dithering is made of."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from compressors.kernels import dither as kernel
from compressors.kernels.noise import key
from compressors.parts import code_dtype

NORMS = ("inf", "1", "2")
"""The p of the p-norms that have loops, in the order that ``kernel.bucket_sums`` numbers them."""

_LARGEST = float(torch.finfo(torch.float32).max)


def fresh(k: int, dtype: torch.dtype) -> Tensor:
    """A CPU tensor (k,) to be filled, in memory from numpy.

    numpy asks the system for huge pages. The page faults of torch's own memory can cost more
    than all that a compiled loop then does with it.
    """
    return torch.from_numpy(np.empty(k, str(dtype).removeprefix("torch.")))


def bucket_norms(values: Tensor, norm: str, size: int) -> np.ndarray:
    """The p-norms (buckets,) of ``size`` values each, summed in float64, as float32.

    Never infinite, and never below a magnitude in the bucket (rounding keeps order).
    """
    if norm not in NORMS:
        p, x = float(norm), np.abs(values.detach().numpy().astype(np.float64))
        norms = np.zeros(-(-x.size // size))
        for b in range(norms.size):
            sizes = x[b * size : (b + 1) * size]
            top = sizes.max()
            if top > 0:  # of magnitudes over the largest one, so that no power overflows
                norms[b] = top * max(1.0, float(np.power(sizes / top, p).sum() ** (1 / p)))
        return np.minimum(norms, _LARGEST).astype(np.float32)
    sums = kernel.bucket_sums(values.numpy(), size, NORMS.index(norm))
    exact = np.sqrt(sums) if norm == "2" else sums
    return np.minimum(exact, _LARGEST).astype(np.float32)


def level_codes(
    values: Tensor, norms: np.ndarray, size: int, levels: int, natural: bool, seed: int
) -> Tensor:
    """Symbols (k,) of ``values`` (k,) on the levels times their bucket's norm."""
    codes = fresh(values.numel(), code_dtype(2 * levels + 1))
    kernel.quantize_buckets(values.numpy(), norms, size, levels, natural, *key(seed), codes.numpy())
    return codes


def values_of(codes: Tensor, norms: np.ndarray, size: int, levels: int, natural: bool) -> Tensor:
    """The float32 values (k,) that symbols mean."""
    values, table = fresh(codes.numel(), torch.float32), level_table(levels, natural)
    kernel.look_up_buckets(table, codes.numpy(), norms, size, values.numpy())
    return values


@lru_cache(maxsize=64)
def level_table(levels: int, natural: bool) -> np.ndarray:
    """The signed level of every symbol (2 levels + 1,): 0, -l_1, l_1, -l_2, ..., as float32."""
    j = np.arange(1, levels + 1, dtype=np.float64)
    above = 2.0 ** (j - levels) if natural else j / levels
    table = np.concatenate([[0.0], np.stack([-above, above], 1).ravel()])
    table = table.astype(np.float32)
    table.flags.writeable = False
    return table
