"""Zeros where something was sent, in many tensors at once."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from compressors.kernels.gpu.entries import ENTRIES, lanes
from compressors.kernels.gpu.language import constexpr, jit, launch, tl
from compressors.kernels.gpu.layout import cut, programs_of, upload


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
    pointers = [np.array([x.data_ptr() for x in many]) for many in (indices, targets)]
    launch(_clear, layout.blocks, *layout.tables[:3], *upload(device, *pointers),
           LANES=layout.block)  # fmt: skip
    return parts
