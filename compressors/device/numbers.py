"""Means and norms whose float32 value is the same in whatever order the device summed.

A GPU adds in no fixed order, the compiled loops in theirs. A float64 sum of k terms of one sign
lies within k - 1 units of rounding of the true one, and two of them differ by twice that at most.
Where both ends of that interval give the same float32 number, that is the number on every
device. A sum below 2**53 units in the last place of its least term is exact in every order: so
are the means of most selections. Where neither holds, the host sums that tensor's values.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from compressors.device import takes
from compressors.kernels.gpu.join import cleared
from compressors.kernels.gpu.layout import on
from compressors.segments.plan import Number

Array: TypeAlias = Any
"""A numpy array on the host, or a tensor on the device."""

_LARGEST = float(np.finfo(np.float32).max)
_ROUNDING = 2.0**-51  # four times the unit of rounding of float64


def sum_bounds(sums: Array, counts: Array, edges: Array, power: int = 1) -> list[Array]:
    """Bounds of what other orders of summation find for ``sums`` of ``counts`` terms.

    ``edges`` are float32 bits: terms are powers of whole multiples of their unit in the last place.
    The square of a value is a multiple of the square of that unit.
    """
    xp = _library(sums)
    units = power * (xp.clip(xp.asarray(edges, dtype=xp.int64) >> 23, 1, None) - 150)
    exact = sums < (units + (53 + 1023) << 52).view(xp.float64)  # 2**53 such units
    slack = xp.where(exact, 0.0, (xp.asarray(counts, dtype=xp.float64) + 4.0) * _ROUNDING)
    return [sums * (1 - slack), sums * (1 + slack)]


def of_sums(
    number: Number, counts: Array, peaks: Array, edges: Array, sums: Array
) -> tuple[Array, Array]:
    """The number of each segment, and whether it is certain: where the arguments are.

    Sums, products, quotients and roots of float64 are rounded as IEEE 754 says, on any device.

    Args:
        number: what it is.
        counts: how many values there are; zero for none, and the number is then zero.
        peaks: largest magnitudes as IEEE bits (int32), for the norm ``"inf"``.
        edges: bounds of the least magnitudes above zero as IEEE bits (int32).
        sums: of magnitudes, or of their squares for the norm ``"2"``: float64.

    Returns:
        float32 and bool (segments,).
    """
    xp = _library(sums)
    if number.norm == "inf":
        return peaks.view(xp.float32), peaks >= 0
    ends = sum_bounds(sums, counts, edges, 2 if number.norm == "2" else 1)
    if number.norm == "mean":
        ends = [end / xp.clip(counts, 1, None) for end in ends]
    elif number.norm == "2":
        ends = [xp.sqrt(end) for end in ends]
    low, high = (xp.asarray(xp.clip(end, None, _LARGEST), dtype=xp.float32) for end in ends)
    return low, low == high


def _library(numbers: Array) -> Any:
    """numpy, or torch: what computes with the numbers where they are."""
    return torch if isinstance(numbers, Tensor) else np


def of_spreads(clip: float, counts: Array, peaks: Array, spreads: Array) -> tuple[Array, Array]:
    """The largest magnitude of each segment, cut off at ``clip`` standard deviations, and whether
    it is certain: where the arguments are.

    Two means of k values of at most m differ by 2 k u m at most (u: the unit of rounding). A
    difference to the mean is off by that and by a rounding; the former, the same for all, adds its
    square alone to the sum of squares.

    Args:
        clip: standard deviations.
        counts: how many values there are.
        peaks: largest magnitudes as IEEE bits (int32).
        spreads: sums of squares about the mean: float64.
    """
    xp = _library(spreads)
    largest = peaks.view(xp.float32)
    wide, k = (xp.asarray(x, dtype=xp.float64) for x in (largest, xp.clip(counts, 1, None)))
    single = _ROUNDING * 3 * wide
    shift = (k + 2) * _ROUNDING * wide + single
    off = k * shift**2 + 2 * xp.sqrt(spreads * k) * single + spreads * (k + 4) * _ROUNDING
    low, high = (xp.clip(spreads + side * 4 * off, 0.0, None) for side in (-1, 1))
    cuts = (xp.minimum(wide, clip * xp.sqrt(end / k)) for end in (low, high))
    ends = [xp.asarray(x, dtype=xp.float32) for x in cuts]
    constant = counts < 2  # values that are all equal are not cut off
    values = xp.where(constant, largest, ends[0])
    return values, constant | (wide == 0) | ((low > 0) & (ends[0] == ends[1]))


def stronger(sums: Array, counts: Array, edges: Array) -> tuple[Array, Array]:
    """The side (0 above zero, 1 below) with the greater mean, and whether that is certain: where
    the arguments are.

    ``sums``, ``counts`` and ``edges`` are (segments, 2), of magnitudes. A side without entries
    loses; equal means choose the side above zero.
    """
    xp = _library(sums)
    low, high = (end / xp.clip(counts, 1, None) for end in sum_bounds(sums, counts, edges))
    side = low[:, 1] > high[:, 0]
    one_sided = (counts == 0).any(1)
    side = xp.where(one_sided, (counts[:, 0] == 0) & (counts[:, 1] > 0), side)
    certain = one_sided | side | (low[:, 0] >= high[:, 1])
    return xp.asarray(side, dtype=xp.int64), certain


def masked_copies(
    groups: Sequence[Mapping[str, Tensor]], chosen: Sequence[Mapping[str, Tensor]]
) -> list[dict[str, Tensor]] | None:
    """Copies of tensors that are zero at the ``chosen`` flat positions of the same names.

    The copies of one group share memory. None where kernels do not take them: on the CPU, without
    a Triton that works, of another type than float32.
    """
    tensors = [x for one in groups for x in one.values()]
    if not takes(*groups) or any(x.dtype != torch.float32 for x in tensors):
        return None
    device = tensors[0].device
    with on(device):
        where = [
            [places[name].to(device) for name in one]
            for one, places in zip(groups, chosen, strict=True)
        ]
        counts = cleared([[*one.values()] for one in groups], where)
    return [dict(zip(one, parts, strict=True)) for one, parts in zip(groups, counts, strict=True)]
