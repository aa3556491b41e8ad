"""A message to an update on a GPU: positions are decoded by the host, symbols where the update is.

Codes of gaps have no end that is known beforehand, so that they are read one after the other, by
the compiled loops. Everything else goes up as it came: the payload once, and one kernel unpacks the
symbols of all tensors and puts their values into place.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.base import Received
from compressors.device.layout import numbers_of, numbers_on, uploaded
from compressors.kernels.gpu.entries import Entries
from compressors.kernels.gpu.layout import cut, fetch, on, programs_of, send
from compressors.kernels.gpu.unpack import Packed, unpack_symbols, words_of
from compressors.kernels.segments.choose import SIZE
from compressors.segments import layout, read
from compressors.segments.layout import Part
from compressors.segments.read import Headers


def decode_on_device(
    compressor: Any, payload: bytes, template: dict[str, Tensor]
) -> Received | None:
    """What a payload says, for tensors on one device; the host waits for it once.

    None where it is not as it should be: the general way names what is wrong.
    """
    shapes = tuple(x.shape for x in template.values())
    form = layout.layout_of(compressor, tuple(template), shapes)
    if form is None or not payload.startswith(form.header):
        return None
    books = np.zeros(4, np.int64)
    walked = read.parse_parts(form, payload, books)
    if walked is None:
        return None
    device = next(iter(template.values())).device
    both = list(zip(form.parts, walked, strict=True))
    with on(device):
        words = send(torch.from_numpy(words_of(payload)), device)
        flats = [  # zeros where not every entry travels
            (torch.zeros if part.plan.sides else torch.empty)(
                part.total, dtype=torch.float32, device=device
            )
            for part in form.parts
        ]
        looks = [_put(*one, flat, words) for one, flat in zip(both, flats, strict=True)]
        arrays = iter(fetch(*(x for pair in looks for x in pair)))
    for part in form.parts:
        peaks, wrong = next(arrays), next(arrays)
        if (peaks >= part.alphabet).any() or wrong.any():
            return None
    update: dict[str, Tensor] = {}
    for part, flat in zip(form.parts, flats, strict=True):
        update |= zip(part.names, cut(flat, [shape for _, shape, *_ in part.cuts]), strict=True)
    update = {name: update[name] for name in template}
    return read.join_parts(form, payload, books, update, walked)


def _put(part: Part, one: Headers, flat: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Puts the values into ``flat``; see ``unpack``."""
    plan, scheme, device = part.plan, part.plan.scheme, flat.device
    where = np.zeros(0, np.int64) if one.positions is None else one.positions
    where = where[: int(one.counts.sum())] if plan.sides else where
    origins = np.cumsum(one.counts) - one.counts
    capacities = tuple(one.counts.tolist())
    decoded = one.numbers
    if scheme.bucket:
        decoded = decoded[: int((-(-one.counts // scheme.bucket)).sum())]
    tensors = uploaded(
        device,
        numbers_of(plan, decoded, one.counts, capacities)
        | {
            "counts": one.counts,
            "bit_offsets": one.bit_offsets,
            "starts": origins,
            "chosen": where,
        },
    )
    segments = programs_of(tuple(part.table[SIZE].tolist()), device).tables[3]
    chosen, starts = tensors["chosen"] if plan.sides else None, tensors["starts"]
    entries = Entries(flat, segments, chosen, starts, tensors["counts"], starts, capacities)
    numbers = numbers_on(plan, tensors)
    offsets = tensors["bit_offsets"]
    packed = Packed(scheme.kind, scheme.width, scheme.alphabet, words, offsets, numbers)
    return unpack_symbols(entries, packed)
