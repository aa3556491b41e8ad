"""Extremes and sums of the entries that are sent, segment by segment.

The twins are ``compressors.kernels.dither`` (``bucket_sums``, ``variance``). Sums are taken in no
fixed order; ``compressors.device.numbers`` knows which of them are certain all the same.
"""

import torch
from torch import Tensor

from compressors.kernels.gpu.entries import Entries, lanes, place_of
from compressors.kernels.gpu.language import constexpr, jit, launch, tl
from compressors.kernels.gpu.layout import Programs

MAGNITUDES, SQUARES, SIGNED, ABOUT = range(4)
"""What is summed: magnitudes, squares, the values themselves, or squares about a center."""


@jit
def _measure(
    segment,
    first,
    counts,
    origins,
    starts,
    chosen,
    flat,
    centers,
    peaks,
    edges,
    sums,
    CHOSEN: constexpr,
    WHAT: constexpr,
    LANES: constexpr,
):
    s, i, inside = lanes(segment, first, counts, LANES)
    place = place_of(chosen, origins, s, i, inside, CHOSEN)
    x = tl.load(flat + tl.load(starts + s) + place, mask=inside, other=0.0)
    key = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    tl.atomic_max(peaks + s, tl.max(key, 0), sem="relaxed")
    tl.atomic_min(edges + s, tl.min(tl.where(key > 0, key, 0x7FFFFFFF), 0), sem="relaxed")
    size = x.to(tl.float64)
    if WHAT == 0:
        size = tl.abs(size)
    elif WHAT == 3:
        size = tl.where(inside, size - tl.load(centers + s), 0.0)
    if WHAT == 1 or WHAT == 3:
        size = size * size
    tl.atomic_add(sums + s, tl.sum(size, 0), sem="relaxed")


def measure(
    entries: Entries, what: int, layout: Programs | None = None, centers: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The extremes of each segment's magnitudes, and a sum over its entries.

    Args:
        entries: what is measured.
        what: what is summed: one of the numbers above.
        layout: its programs; None: as many as ``entries`` has.
        centers: float64 (segments,), for ``ABOUT``.

    Returns:
        The largest, and the least above zero (2**31 - 1 where there is none), as IEEE bits: int32
        (segments,). The sum in no fixed order: float64 (segments,).
    """
    device, many = entries.flat.device, len(entries.capacities)
    layout = layout or entries.layout()
    peaks = torch.zeros(many, dtype=torch.int32, device=device)
    edges = torch.full_like(peaks, 0x7FFFFFFF)
    sums = torch.zeros(many, dtype=torch.float64, device=device)
    launch(
        _measure,
        layout.blocks,
        *entries.arguments(layout),
        sums if centers is None else centers,
        peaks,
        edges,
        sums,
        WHAT=what,
        CHOSEN=entries.chosen is not None,
        LANES=layout.block,
    )
    return peaks, edges, sums


def about_mean(entries: Entries) -> tuple[Tensor, Tensor]:
    """The largest magnitude of each segment, and the sum of squares about its mean.

    Returns:
        IEEE bits, int32 (segments,); float64 (segments,). Nothing waits for the host in between.
    """
    peaks, _, sums = measure(entries, SIGNED)
    centers = sums / entries.counts.clamp(min=1)
    return peaks, measure(entries, ABOUT, centers=centers)[2]
