"""An update and its residual as one vector, checked for NaN on the way; zeros where it was sent."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from compressors.kernels.gpu.entries import ENTRIES, lanes
from compressors.kernels.gpu.language import constexpr, jit, launch, tl
from compressors.kernels.gpu.layout import PROGRAM_BLOCK, Programs, cut, programs_of, upload

NOT_FINITE, OVERFLOWS = 1, 2


@jit
def _join(
    segment, first, sizes, starts, updates, residuals, flat, bad, KEPT: constexpr, BLOCK: constexpr
):
    s = tl.load(segment + tl.program_id(0))
    i = tl.load(first + tl.program_id(0)) + tl.arange(0, BLOCK)
    inside = i < tl.load(sizes + s)
    x = tl.load(tl.load(updates + s).to(tl.pointer_type(tl.float32)) + i, mask=inside, other=0.0)
    exponent = x.to(tl.int32, bitcast=True) & 0x7F800000
    worst = tl.max((exponent == 0x7F800000).to(tl.int32), 0)
    if KEPT:
        memory = tl.load(residuals + s).to(tl.pointer_type(tl.float32))
        x = x + tl.load(memory + i, mask=inside, other=0.0)
        exponent = x.to(tl.int32, bitcast=True) & 0x7F800000
        worst |= 2 * tl.max((exponent == 0x7F800000).to(tl.int32), 0)
    tl.store(flat + tl.load(starts + s) + i, x, mask=inside)
    tl.atomic_or(bad + s, worst, mask=worst > 0)


def addresses(tensors: Sequence[Tensor]) -> np.ndarray:
    """Where contiguous tensors lie in memory: int64 (tensors,)."""
    return np.array([x.data_ptr() for x in tensors], np.int64)


def join(updates: Tensor, residuals: Tensor | None, layout: Programs) -> tuple[Tensor, Tensor]:
    """The sums of tensors and what was their residual, one after the other, and what is wrong.

    Args:
        updates: the ``addresses`` of contiguous float32 tensors of the sizes of ``layout``, on its
            device.
        residuals: of as many of the same sizes, or None for nothing.
        layout: the segments.

    Returns:
        The vector (entries,) float32, and per segment int32 flags: ``NOT_FINITE`` where a tensor
        holds NaN or infinity, ``OVERFLOWS`` where its sum does. In one pass over both.
    """
    device = layout.first_block.device
    flat = torch.empty(layout.total, dtype=torch.float32, device=device)
    bad = torch.zeros(len(layout.sizes), dtype=torch.int32, device=device)
    launch(
        _join,
        layout.blocks,
        *layout.tables,
        updates,
        updates if residuals is None else residuals,
        flat,
        bad,
        KEPT=residuals is not None,
        BLOCK=PROGRAM_BLOCK,
    )
    return flat, bad


@jit
def _clear(segment, first, sizes, chosen, targets, LANES: constexpr):
    s, i, inside = lanes(segment, first, sizes, LANES)
    places = tl.load(chosen + s).to(tl.pointer_type(tl.int64))
    place = tl.load(places + i, mask=inside, other=0)
    target = tl.load(targets + s).to(tl.pointer_type(tl.float32))
    tl.store(target + place, 0.0, mask=inside)


def cleared(
    groups: Sequence[Sequence[Tensor]], chosen: Sequence[Sequence[Tensor]]
) -> list[list[Tensor]]:
    """Copies of tensors with zeros at the ``chosen`` entries: one launch, and a copy per group.

    Args:
        groups: float32 tensors on one device; the copies of one group share memory.
        chosen: of each, flat positions (k,), int64, on the same device.
    """
    flats = [[x if x.ndim == 1 else x.reshape(-1) for x in tensors] for tensors in groups]
    parts = [
        cut(torch.cat(flat), [x.shape for x in tensors]) if tensors else []
        for flat, tensors in zip(flats, groups, strict=True)
    ]
    indices = [where.contiguous() for one in chosen for where in one]
    device = indices[0].device
    layout = programs_of(tuple(where.numel() for where in indices), device, ENTRIES)
    targets = [part for one in parts for part in one]
    pointers = [addresses(many) for many in (indices, targets)]
    launch(
        _clear, layout.blocks, *layout.tables[:3], *upload(device, *pointers), LANES=layout.block
    )
    return parts
