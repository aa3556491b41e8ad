"""What messages of one method and of tensors of the same sizes have in common, on their device.

It follows from the sizes, so that it is made once for many messages.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.arraycache import keeps_arrays
from compressors.coders.golomb import Golomb, rice_parameter
from compressors.kernels.gpu.codes import Numbers
from compressors.kernels.gpu.entries import Buckets, Entries, buckets_of
from compressors.kernels.gpu.layout import Programs, programs_of, upload
from compressors.quantize.levels import level_table
from compressors.segments.plan import Plan

_rice_parameter = lru_cache(maxsize=1 << 16)(rice_parameter)


def bases_of(capacities: tuple[int, ...], bucket: int | None) -> np.ndarray:
    """The first number of each segment of up to ``capacities`` entries: int64 (segments,)."""
    many = -(-np.asarray(capacities, np.int64) // (bucket or 1 << 62))
    bases: np.ndarray = np.cumsum(many) - many
    return bases


def numbers_of(
    plan: Plan, numbers: np.ndarray, counts: np.ndarray, capacities: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """The unit of the symbols of a message that is read, as ``numbers_on`` takes it.

    Args:
        plan: the method.
        numbers: that of each segment or bucket: float32.
        counts: how many entries each segment sends: int64 (segments,).
        capacities: upper bounds of ``counts``, from which the buckets follow.
    """
    scheme = plan.scheme
    named = {"bases": bases_of(capacities, scheme.bucket), "exact": numbers}
    if scheme.factor is not None:
        named["factors"] = scheme.factors(counts)
    if scheme.table is not None:
        named["table"] = level_table(*scheme.table)
    return named


def numbers_on(plan: Plan, tensors: dict[str, Tensor]) -> Numbers:
    """The same on the device."""
    exact = tensors["exact"]
    decoded, table = tensors.get("decoded", exact), tensors.get("table", exact)
    bucket, factors = plan.scheme.bucket or 0, tensors.get("factors")
    return Numbers(exact, decoded, tensors["bases"], bucket, factors, table)


def uploaded(device: torch.device, named: dict[str, np.ndarray]) -> dict[str, Tensor]:
    """``upload`` by name."""
    return dict(zip(named, upload(device, *named.values()), strict=True))


@dataclass(frozen=True, eq=False)
class Frame:
    """Messages of one plan and of updates of the same sizes: all but their values.

    Args:
        plan: the method.
        many: how many messages.
        tensors: the tensors of all messages, one after the other.
        layout: the segments of all messages: these tensors, or the whole of each message.
        nominal_counts: how many entries each segment is to send: int64 (segments,).
        base: where its symbols and values start: int64 (segments,).
        buckets: of what the segments send at most, where buckets have numbers.
        words: words of 32 bits that a message takes at most.
        tables: on the device. ``nominal_counts`` and ``base`` as above; ``least`` (segments, 33):
            the fewest entries whose remainders have at most so many bits; ``owner``, ``rank``: of
            each number its segment and its place among those of the segment; ``bases``: the first
            number of each; ``ends`` of tensors in a message that is one vector; ``table`` of
            levels.
    """

    plan: Plan
    many: int
    tensors: Programs
    layout: Programs
    nominal_counts: np.ndarray
    base: np.ndarray
    buckets: Buckets | None
    words: int
    tables: dict[str, Tensor]

    @property
    def capacities(self) -> tuple[int, ...]:
        """How many entries each segment sends at most."""
        return tuple(self.nominal_counts.tolist())

    @property
    def numbers(self) -> int:
        """How many numbers exists are."""
        return len(self.nominal_counts if self.buckets is None else self.buckets.segment)

    def entries(
        self, flat: Tensor, chosen: Tensor | None, origins: Tensor, counts: Tensor
    ) -> Entries:
        """The entries of a vector that are sent: see ``Entries``."""
        starts, base = self.layout.tables[3], self.tables["base"]
        return Entries(flat, starts, chosen, origins, counts, base, self.capacities)


@keeps_arrays
def frame_of(plan: Plan, sizes: tuple[int, ...], many: int, device: torch.device) -> Frame:
    """The frame of so ``many`` messages of tensors of ``sizes`` entries.

    Example:
        >>> from compressors import parse
        >>> from compressors.segments.plan import plan_of
        >>> one = frame_of(plan_of(parse("topk(0.5) | float32")), (4, 6), 2, torch.device("cpu"))
        >>> one.nominal_counts, one.tables["least"][0, :3]
        (array([2, 3, 2, 3]), tensor([2, 1, 1]))
    """
    scheme = plan.scheme
    tensors = programs_of(sizes * many, device)
    layout = programs_of((sum(sizes),) * many, device) if plan.joined else tensors
    entries = np.asarray(layout.sizes, np.int64)
    entry_counts = entries
    if plan.sides:
        count = plan.pipeline.sparsify.count
        entry_counts = np.array([count(n) if n else 0 for n in layout.sizes], np.int64)
    base = np.cumsum(entry_counts) - entry_counts
    buckets = None
    if scheme.bucket is not None:
        buckets = buckets_of(tuple(entry_counts.tolist()), scheme.bucket, device)
    owner = np.arange(len(entry_counts)) if buckets is None else buckets.segment
    arrays = {
        "nominal_counts": entry_counts,
        "base": base,
        "owner": owner,
        "rank": 0 * owner if buckets is None else buckets.rank,
        "bases": bases_of(tuple(entry_counts.tolist()), scheme.bucket),
    }
    least = _least(plan, entries, entry_counts)
    if plan.sides:
        arrays["least"] = least
    if plan.joined and plan.sides:
        arrays["ends"] = np.cumsum(sizes)
    if scheme.table is not None:
        arrays["table"] = level_table(*scheme.table)
    room = _room(plan, entries, entry_counts, least).reshape(many, -1).sum(1).max()
    return Frame(
        plan=plan,
        many=many,
        tensors=tensors,
        layout=layout,
        nominal_counts=entry_counts,
        base=base,
        buckets=buckets,
        words=-(-int(room) // 32),
        tables=uploaded(device, arrays),
    )


def _least(plan: Plan, sizes: np.ndarray, entry_counts: np.ndarray) -> np.ndarray:
    """The fewest entries whose gaps have at most 0, 1, ... 32 low bits: int64 (segments, 33).

    One more than ``entry_counts`` where that many have more.
    """
    low, limits = np.arange(33), np.zeros((len(sizes), 33), np.int64)
    positions: Any = plan.pipeline.positions
    if not plan.sides or not isinstance(positions, Golomb):
        return limits
    if positions.p is not None:
        return np.where(low < _rice_parameter(positions.p), entry_counts[:, None] + 1, 1)
    limits_of: dict[tuple[int, int], np.ndarray] = {}
    for s, pair in enumerate(zip(sizes.tolist(), entry_counts.tolist(), strict=True)):
        if pair not in limits_of:
            limits_of[pair] = np.array([_fewest(*pair, bits) for bits in low.tolist()])
        limits[s] = limits_of[pair]
    return limits


def _fewest(size: int, largest: int, bits: int) -> int:
    """The fewest of ``size`` entries whose gaps have at most so many low bits."""
    below, reached = 0, largest + 1
    while reached - below > 1:
        middle = (below + reached) // 2
        if _rice_parameter(middle / size) <= bits:
            reached = middle
        else:
            below = middle
    return reached


def _room(plan: Plan, sizes: np.ndarray, entry_counts: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Bits that a segment takes at most: int64 (segments,)."""
    scheme = plan.scheme
    numbers = -(-entry_counts // (scheme.bucket or 1 << 62)) * scheme.number_bits
    bits = numbers + entry_counts * scheme.width
    if not plan.sides:
        return bits
    head = 2 * np.array([int(k + 1).bit_length() for k in entry_counts], np.int64)
    # The largest of the counts with the same low bits takes the most bits.
    before = np.concatenate([entry_counts[:, None] + 1, least], 1)
    codes = np.zeros_like(entry_counts)
    for low in range(33):
        largest = np.minimum(before[:, low] - 1, entry_counts)
        exists = (largest > 0) & (least[:, low] <= largest)
        codes = np.maximum(codes, np.where(exists, largest * (1 + low) + (sizes >> low), 0))
    return bits + head + codes
