"""Norms of buckets, and values as signed levels times a norm: what dithering is made of.

CPU tensors go through compiled loops, tensors elsewhere through torch: equal symbols.
"""

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


def on_cpu(x: Tensor) -> bool:
    """Whether compiled loops can take ``x``."""
    return x.device.type == "cpu"


def fresh(k: int, dtype: torch.dtype) -> Tensor:
    """A CPU tensor (k,) to be filled, in memory from numpy.

    numpy asks the system for huge pages. The page faults of torch's own memory can cost more
    than all that a compiled loop then does with it.
    """
    return torch.from_numpy(np.empty(k, str(dtype).removeprefix("torch.")))


def nothing(template: Tensor, dtype: torch.dtype) -> Tensor:
    """An empty tensor (0,) on the device of ``template``."""
    return torch.zeros(0, dtype=dtype, device=template.device)


def bucket_norms(values: Tensor, norm: str, size: int) -> np.ndarray:
    """The p-norms (buckets,) of ``size`` values each, summed in float64, as float32.

    Never infinite, and never below a magnitude in the bucket (rounding keeps order).
    """
    if norm not in NORMS:
        p, x = float(norm), np.abs(values.detach().cpu().numpy().astype(np.float64))
        norms = np.zeros(-(-x.size // size))
        for b in range(norms.size):
            sizes = x[b * size : (b + 1) * size]
            top = sizes.max()
            if top > 0:  # of magnitudes over the largest one, so that no power overflows
                norms[b] = top * max(1.0, float(np.power(sizes / top, p).sum() ** (1 / p)))
        return np.minimum(norms, _LARGEST).astype(np.float32)
    if on_cpu(values):
        sums = kernel.bucket_sums(values.numpy(), size, NORMS.index(norm))
    else:  # the order of a sum may differ (in float64)
        wide = values.new_zeros(-(-values.numel() // size) * size, dtype=torch.float64)
        wide[: values.numel()] = values.abs()
        wide = wide.view(-1, size)
        wide = wide.amax(1) if norm == "inf" else (wide if norm == "1" else wide.square()).sum(1)
        sums = wide.cpu().numpy()
    exact = np.sqrt(sums) if norm == "2" else sums
    return np.minimum(exact, _LARGEST).astype(np.float32)


def level_codes(
    values: Tensor, norms: np.ndarray, size: int, levels: int, natural: bool, seed: int
) -> Tensor:
    """Symbols (k,) of ``values`` (k,) on the levels times their bucket's norm."""
    dtype = code_dtype(2 * levels + 1)
    if on_cpu(values):
        codes = fresh(values.numel(), dtype)
        kernel.quantize_buckets(
            values.numpy(), norms, size, levels, natural, *key(seed), codes.numpy()
        )
        return codes
    each = _spread(norms, size, values)
    return kernel.symbols_torch(values, each, levels, natural, seed).to(dtype)


def values_of(
    codes: Tensor, norms: np.ndarray | None, size: int, levels: int, natural: bool
) -> Tensor:
    """The float32 values (k,) that symbols mean."""
    if norms is None:
        return nothing(codes, torch.float32)
    table = level_table(levels, natural)
    if on_cpu(codes):
        values = fresh(codes.numel(), torch.float32)
        kernel.look_up_buckets(table, codes.numpy(), norms, size, values.numpy())
        return values
    picked = torch.tensor(table, device=codes.device)[codes.to(torch.int64)]
    return picked * _spread(norms, size, codes)


def _spread(norms: np.ndarray, size: int, template: Tensor) -> Tensor:
    """One norm per value, on the device of ``template``."""
    each = torch.from_numpy(norms).to(template.device)
    if norms.size == 1:
        return each
    return each.repeat_interleave(size)[: template.numel()]


@lru_cache(maxsize=64)
def level_table(levels: int, natural: bool) -> np.ndarray:
    """The signed level of every symbol (2 levels + 1,): 0, -l_1, l_1, -l_2, ..., as float32."""
    j = np.arange(1, levels + 1, dtype=np.float64)
    above = 2.0 ** (j - levels) if natural else j / levels
    table = np.concatenate([[0.0], np.stack([-above, above], 1).ravel()])
    table = table.astype(np.float32)
    table.flags.writeable = False
    return table
