"""The bits of a message of an update on a GPU, laid out and written where the update lies."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.base import tensor_seed
from compressors.bits import Span
from compressors.coders.golomb import Golomb, rice_parameter
from compressors.device.chosen import Choice, Waiting
from compressors.kernels import noise
from compressors.kernels.gpu import codes
from compressors.kernels.gpu.codes import Numbers
from compressors.kernels.gpu.layout import padded, upload
from compressors.kernels.gpu.stream import Rice, put_fields, put_plane, stream
from compressors.quantize.dither import rounded
from compressors.quantize.levels import level_table
from compressors.segments.plan import Plan
from compressors.whole.pipeline import ROUND

_rice_parameter = lru_cache(maxsize=4096)(rice_parameter)


class Shared(NamedTuple):
    """The numbers that segments, or buckets, have beside their symbols, on the host.

    Args:
        told: as the receiver knows them: float32 (numbers,).
        segment: whose each is: int64 (numbers,).
        rank: its place among those of its segment: int64 (numbers,).
        travels: whether it is sent: a segment, or a bucket, of no entries sends none.
    """

    told: np.ndarray
    segment: np.ndarray
    rank: np.ndarray
    travels: np.ndarray


def quantized(plan: Plan, choice: Choice, seed: int) -> tuple[Tensor, Tensor, Shared]:
    """Symbols, their values and numbers; the vector becomes the residual where one is kept."""
    way, device, many = plan.way, choice.entries.flat.device, len(choice.found)
    known = np.full(many, way.known, np.float32) if choice.numbers is None else choice.numbers
    seeds = [tensor_seed(tensor_seed(seed, s), ROUND) for s in range(many)]
    shared = _shared(plan, choice, known.astype(np.float32), seeds)
    keys = np.zeros((2, many), np.int64)
    if way.kind.random:
        keys = np.array([noise.key(one) for one in seeds], np.int64).T
    (keys_there,) = upload(device, keys)
    numbers = numbers_on(plan, known, shared.told, choice.found, choice.entries.most, device)
    symbols, values = codes.quantize(choice.entries, way.kind, numbers, keys_there, plan.keeps)
    return symbols, values, shared


def _shared(plan: Plan, choice: Choice, known: np.ndarray, seeds: list[int]) -> Shared:
    many, buckets = len(choice.found), choice.buckets
    if buckets is None:
        segment, rank, counts = np.arange(many), np.zeros(many, np.int64), choice.found
    else:
        segment, rank = buckets.segment, buckets.rank
        counts = buckets.counts(choice.found)
    travels = (counts > 0) & (choice.numbers is not None)
    if not plan.way.powers:
        return Shared(known, segment, rank, travels)
    told = known.copy()
    for s in np.unique(segment[travels]).tolist():
        own = travels & (segment == s) if buckets is None else _run(buckets.bases, s, travels)
        told[own] = rounded(known[own], seeds[s])
    return Shared(told, segment, rank, travels)


def _run(bases: np.ndarray, s: int, travels: np.ndarray) -> slice:
    """The buckets of segment ``s`` that travel: the first ones."""
    start = int(bases[s])
    stop = int(bases[s + 1]) if s + 1 < len(bases) else len(travels)
    return slice(start, start + int(travels[start:stop].sum()))


def numbers_on(
    plan: Plan, exact: np.ndarray, told: np.ndarray, found: np.ndarray, most: tuple[int, ...],
    device: torch.device,
) -> Numbers:  # fmt: skip
    """What symbols are multiples of, on the device: in one copy.

    Args:
        plan: the method.
        exact: the number of each segment or bucket: float32.
        told: the same as the receiver knows it.
        found: how many entries each segment sends: int64 (segments,).
        most: upper bounds of ``found``, from which the buckets follow.
        device: where.
    """
    way = plan.way
    levels = np.zeros(1, np.float32) if way.table is None else level_table(*way.table)
    factors = np.zeros(1) if way.factor is None else [way.factor(int(k)) for k in found]
    parts = [np.asarray(x, np.float32) for x in (exact, told, factors, levels)]
    many = -(-np.asarray(most, np.int64) // (way.bucket or 1 << 62))
    bases = np.cumsum(many) - many
    flat = padded(parts)
    bits, bases_there = upload(device, np.concatenate(flat).view(np.int32), bases)
    cut = bits.to(torch.int32).view(torch.float32).split([x.size for x in flat])
    floats = [there[: x.size] for there, x in zip(cut, parts, strict=True)]
    there = None if way.factor is None else floats[2]
    return Numbers(floats[0], floats[1], bases_there, way.bucket or 0, there, floats[3])


class Laid(NamedTuple):
    """What was laid out of one message: its words on the host, their bits and their account."""

    words: np.ndarray
    bits: int
    spans: dict[Span, int]
    more: list[np.ndarray]


def lay(
    plan: Plan, choice: Choice, symbols: Tensor, shared: Shared, more: tuple[Tensor, ...]
) -> Waiting[Laid]:
    """The finished stream and its account; waits once, for ``more`` as well."""
    entries, device, way = choice.entries, choice.entries.flat.device, plan.way
    head, head_bits = _heads(plan, choice)
    sides = np.bincount(shared.segment, shared.travels, len(head)).astype(np.int64)
    side_bits, value_bits = sides * way.number_bits, choice.found * way.width
    low, most_bits = _remainders(plan, choice)
    sent = np.flatnonzero(shared.travels)
    number = shared.told.astype(np.float32).view(np.uint32)[sent].astype(np.int64)
    number = number >> 23 if way.powers else number
    there = upload(device, low, head, head_bits, side_bits, value_bits, shared.segment[sent],
                   shared.rank[sent] * way.number_bits, number)  # fmt: skip
    low_there, head_there, head_room, side_room, value_room, owner, ahead, numbers = there
    position_bits, code = torch.zeros_like(low_there), None
    if plan.sides and entries.chosen is not None:
        code = Rice(entries.chosen, entries.origins, entries.found, low_there, entries.most)
        position_bits = code.bits
    total = head_room + position_bits + side_room + value_room
    begins = torch.cumsum(total, 0) - total
    known = int(head_bits.sum() + side_bits.sum() + value_bits.sum())
    words = stream(known + most_bits, device)
    places = begins + head_room
    widths = torch.cat([head_room, torch.full_like(numbers, way.number_bits)])
    put_fields(words, torch.cat([begins, (places + position_bits)[owner] + ahead]),
               torch.cat([head_there, numbers]), widths)  # fmt: skip
    if code is not None:
        code.write(words, places)
    _planes(plan, choice, symbols, words, places + position_bits + side_room)
    finished, lengths, *found = yield (words, position_bits, *more)
    positions = int(lengths.sum())
    spans: dict[Span, int] = {
        "header": int(head_bits.sum()), "positions": positions,
        "values": int(value_bits.sum()), "side": int(side_bits.sum()),
    }  # fmt: skip
    return Laid(finished, known + positions, spans, found)


def _heads(plan: Plan, choice: Choice) -> tuple[np.ndarray, np.ndarray]:
    """How many entries each segment says that it sends, and in how many bits."""
    nominal, found = choice.nominal, choice.found
    if not plan.sides:
        return np.zeros_like(found), np.zeros_like(found)
    as_told = [(1, 1) if k == n else (k + 1, 2 * (k + 1).bit_length())
               for k, n in zip(found.tolist(), nominal.tolist(), strict=True)]  # fmt: skip
    head, bits = np.array(as_told, np.int64).T
    return head, np.where(nominal > 0, bits, 0)


def _remainders(plan: Plan, choice: Choice) -> tuple[np.ndarray, int]:
    """The low bits of each segment's gaps, and an upper bound of all bits of positions."""
    positions, found, sizes = plan.pipeline.positions, choice.found, choice.sizes
    low = np.zeros_like(found)
    if not plan.sides or not isinstance(positions, Golomb):
        return low, 0
    for s in np.flatnonzero(found).tolist():
        density = int(found[s]) / int(sizes[s]) if positions.p is None else positions.p
        low[s] = _rice_parameter(density)
    return low, int((found * (1 + low) + (sizes >> low)).sum())


def _planes(plan: Plan, choice: Choice, symbols: Tensor, words: Tensor, begins: Tensor) -> None:
    """Symbols of up to a byte, or of 32 bits, in one plane; others in two, as ``coders.fixed``."""
    width, entries = plan.way.width, choice.entries
    given = (symbols, entries.outs, entries.found, words)
    if width <= 8 or width == 32:
        if width:
            put_plane(*given, begins, entries.most, width)
        return
    put_plane(*given, begins, entries.most, width - 8, 8)
    put_plane(*given, begins + (width - 8) * entries.found, entries.most, 8)
