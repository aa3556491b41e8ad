"""A message to an update on a GPU: positions are decoded by the host, symbols where the update is.

Codes of gaps have no end that is known beforehand, so that they are read one after the other, by
the compiled loops. Everything else goes up as it came: the payload once, and one kernel unpacks the
symbols of all tensors and puts their values into place.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.device.laid import numbers_of, numbers_on, uploaded
from compressors.kernels.gpu.entries import Entries
from compressors.kernels.gpu.layout import cut, fetch, layout_of, on, send
from compressors.kernels.gpu.unpack import Packed, unpack, words_of
from compressors.kernels.segments.choose import SIZE
from compressors.segments import layout, read
from compressors.segments.layout import Part
from compressors.segments.read import Read, Walked


def decode(compressor: Any, payload: bytes, like: dict[str, Tensor]) -> Read | None:
    """What a payload says, for tensors on one device; the host waits for it once.

    None where it is not as it should be: the general way names what is wrong.
    """
    shapes = tuple(x.shape for x in like.values())
    laid = layout.layout_of(compressor, tuple(like), shapes)
    if laid is None or not payload.startswith(laid.header):
        return None
    books = np.zeros(4, np.int64)
    walked = read.walk(laid, payload, books)
    if walked is None:
        return None
    device = next(iter(like.values())).device
    both = list(zip(laid.parts, walked, strict=True))
    with on(device):
        words = send(torch.from_numpy(words_of(payload)), device)
        flats = [  # zeros where not every entry travels
            (torch.zeros if part.plan.sides else torch.empty)(
                part.total, dtype=torch.float32, device=device
            )
            for part in laid.parts
        ]
        looks = [_put(*one, flat, words) for one, flat in zip(both, flats, strict=True)]
        arrays = iter(fetch(*(x for pair in looks for x in pair)))
    for part in laid.parts:
        tops, wrong = next(arrays), next(arrays)
        if (tops >= part.alphabet).any() or wrong.any():
            return None
    update: dict[str, Tensor] = {}
    for part, flat in zip(laid.parts, flats, strict=True):
        update |= zip(part.names, cut(flat, [shape for _, shape, *_ in part.cuts]), strict=True)
    return read.told(laid, payload, books, update, walked)


def _put(part: Part, one: Walked, flat: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Puts the values into ``flat``; see ``unpack``."""
    plan, way, device = part.plan, part.plan.way, flat.device
    where = np.zeros(0, np.int64) if one.positions is None else one.positions
    where = where[: int(one.found.sum())] if plan.sides else where
    origins = np.cumsum(one.found) - one.found
    most = tuple(one.found.tolist())
    told = one.numbers[: int((-(-one.found // way.bucket)).sum())] if way.bucket else one.numbers
    there = uploaded(device, numbers_of(plan, told, told, one.found, most) | {
        "found": one.found, "begins": one.begins, "starts": origins, "chosen": where,
    })  # fmt: skip
    segments = layout_of(tuple(part.table[SIZE].tolist()), device).tables[3]
    chosen, starts = there["chosen"] if plan.sides else None, there["starts"]
    entries = Entries(flat, segments, chosen, starts, there["found"], starts, most)
    numbers = numbers_on(plan, there)
    packed = Packed(way.kind, way.width, way.alphabet, words, there["begins"], numbers)
    return unpack(entries, packed)
