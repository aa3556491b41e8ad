"""A message to an update on a GPU: positions are decoded by the host, symbols where the update is.

Codes of gaps have no end that is known beforehand, so that they are read one after the other, by
the compiled loops. Everything else goes up as it came: the payload once, and one kernel unpacks the
symbols of all tensors and puts their values into place, or adds them to what stands there.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from compressors.base import tensor_seed
from compressors.bits import BitReader
from compressors.device.laid import numbers_on
from compressors.device.write import on
from compressors.errors import PayloadError
from compressors.kernels.gpu.entries import Entries
from compressors.kernels.gpu.layout import fetch, layout_of, send, upload
from compressors.kernels.gpu.unpack import Packed, unpack, words_of
from compressors.segments.plan import Plan, Rules
from compressors.whole.lift import counts

_TOP_BITS = np.uint32(23)


class Parts:
    """What the host reads for one plan, of tensors that are ``like`` its own.

    Args:
        plan: whose symbols follow.
        bits: the message, which is read up to its next rule.
        like: names, shapes and the device.
        seed: of the message, for this plan.
    """

    def __init__(self, plan: Plan, bits: BitReader, like: dict[str, Tensor], seed: int) -> None:
        self.plan, self.like = plan, like
        sizes = tuple(x.numel() for x in like.values())
        self.segments = (sum(sizes),) if plan.joined else sizes
        many = len(self.segments)
        self.positions: list[np.ndarray] = []
        self.found, self.begins = np.zeros((2, many), np.int64)
        nothing = 0 if plan.way.bucket else 1  # a segment of no entries has no buckets
        self.numbers = [np.full(nothing, plan.way.known, np.float32)] * many
        for s, n in enumerate(self.segments):
            if n:
                self._read(bits, s, n, tensor_seed(seed, s))
        if plan.sides and not plan.joined:
            bits.sent |= dict(zip(self.like, self.found.tolist(), strict=True))
        elif self.positions:
            bits.sent |= counts(self.positions[0], self.like)

    def _read(self, bits: BitReader, s: int, n: int, seed: int) -> None:
        plan, count = self.plan, n
        if plan.sides:
            count = plan.pipeline.read_count(bits, n)
            with bits.span("positions"):
                found = plan.pipeline.positions.read_positions(bits, n, count, seed)
            self.positions.append(found)
        if plan.way.number is not None:
            self.numbers[s] = self._read_numbers(bits, count)
        with bits.span("values"):
            bits.need(count * plan.way.width)
            self.begins[s] = bits.position
            bits.position += count * plan.way.width
        self.found[s] = count

    def _read_numbers(self, bits: BitReader, count: int) -> np.ndarray:
        """The numbers of ``count`` entries; without buckets, one zero stands for none."""
        way = self.plan.way
        many = -(-count // way.bucket) if way.bucket else min(count, 1)
        with bits.span("side"):
            if way.powers:
                powers = bits.uints(many, 9, np.uint32) << _TOP_BITS
                found = powers.view(np.float32)
            else:
                found = bits.float32s(many)
        return found if many or way.bucket else np.zeros(1, np.float32)


def read(
    plan: Plan | Rules, bits: BitReader, like: dict[str, Tensor], seed: int
) -> dict[str, Tensor]:
    """What ``Compressor.read`` does for tensors on one device; the host waits for it once.

    Raises ``PayloadError`` where the message is cut, or decodes to NaN or infinity.
    """
    device = next(iter(like.values())).device
    if isinstance(plan, Plan):
        every = [Parts(plan, bits, like, seed)]
    else:
        rules = zip(plan.plans, (some for _, some in plan.names.parts(like)), strict=True)
        every = [
            Parts(own, bits, some, tensor_seed(seed, i))
            for i, (own, some) in enumerate(rules) if some
        ]  # fmt: skip
    with on(device):
        words = send(torch.from_numpy(words_of(bits.payload)), device)
        flats = [  # zeros where not every entry travels
            (torch.zeros if part.plan.sides else torch.empty)(
                sum(part.segments), dtype=torch.float32, device=device
            )
            for part in every
        ]
        check(every, [_put(*one, words) for one in zip(every, flats, strict=True)])
    update: dict[str, Tensor] = {}
    for part, flat in zip(every, flats, strict=True):
        ends = flat.split([x.numel() for x in part.like.values()])
        both = zip(part.like.items(), ends, strict=True)
        update |= {name: one.view(x.shape) for (name, x), one in both}
    return {name: update[name] for name in like}


def _put(part: Parts, flat: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Puts the values into ``flat``; see ``unpack``."""
    plan, way, device = part.plan, part.plan.way, flat.device
    layout = layout_of(part.segments, device)
    where = np.concatenate([np.zeros(0, np.int64), *part.positions])
    origins = np.cumsum(part.found) - part.found
    found, begins, starts, chosen = upload(device, part.found, part.begins, origins, where)
    told, most = np.concatenate(part.numbers), tuple(part.found.tolist())
    entries = Entries(
        flat, layout.tables[3], chosen if plan.sides else None, starts, found, starts, most
    )
    numbers = numbers_on(plan, told[:0], told, part.found, most, device)
    return unpack(entries, Packed(way.kind, way.width, way.alphabet, words, begins, numbers))


def check(every: Sequence[Parts], found: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Raises ``PayloadError`` for what is wrong with the symbols: the host waits for the device."""
    arrays = iter(fetch(*(x for pair in found for x in pair)))
    for part in every:
        tops, wrong = next(arrays), next(arrays)
        if (tops >= part.plan.way.alphabet).any():
            worst = int(tops.max())
            alphabet = part.plan.way.alphabet
            raise PayloadError(f"symbol {worst} is outside an alphabet of {alphabet}")
        for s in np.flatnonzero(wrong).tolist():
            what = "the update" if part.plan.joined else f"tensor {list(part.like)[s]!r}"
            raise PayloadError(f"{what} decodes to NaN or infinity")
