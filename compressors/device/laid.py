"""The bits of a message of an update on a GPU, laid out and written where the update lies.

All that the host knows of a message goes there in one copy, before the first of these kernels.
"""

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
from compressors.kernels.gpu.entries import Entries
from compressors.kernels.gpu.layout import upload
from compressors.kernels.gpu.stream import Rice, put_fields, put_plane, stream
from compressors.quantize.dither import rounded
from compressors.quantize.levels import level_table
from compressors.segments.plan import Plan
from compressors.whole.pipeline import ROUND

_rice_parameter = lru_cache(maxsize=4096)(rice_parameter)


class Shared(NamedTuple):
    """The numbers that segments, or buckets, have beside their symbols, on the host.

    Args:
        known: float32 (numbers,).
        told: the same as the receiver knows them.
        segment: whose each is: int64 (numbers,).
        rank: its place among those of its segment: int64 (numbers,).
        travels: whether it is sent: a segment, or a bucket, of no entries sends none.
    """

    known: np.ndarray
    told: np.ndarray
    segment: np.ndarray
    rank: np.ndarray
    travels: np.ndarray


def _shared(plan: Plan, choice: Choice, seeds: list[int]) -> Shared:
    many, buckets = len(choice.found), choice.buckets
    known = np.full(many, plan.way.known) if choice.numbers is None else choice.numbers
    known = known.astype(np.float32)
    if buckets is None:
        segment, rank, counts = np.arange(many), np.zeros(many, np.int64), choice.found
    else:
        segment, rank = buckets.segment, buckets.rank
        counts = buckets.counts(choice.found)
    travels = (counts > 0) & (choice.numbers is not None)
    if not plan.way.powers:
        return Shared(known, known, segment, rank, travels)
    told = known.copy()
    for s in np.unique(segment[travels]).tolist():
        own = travels & (segment == s) if buckets is None else _run(buckets.bases, s, travels)
        told[own] = rounded(known[own], seeds[s])
    return Shared(known, told, segment, rank, travels)


def _run(bases: np.ndarray, s: int, travels: np.ndarray) -> slice:
    """The buckets of segment ``s`` that travel: the first ones."""
    start = int(bases[s])
    stop = int(bases[s + 1]) if s + 1 < len(bases) else len(travels)
    return slice(start, start + int(travels[start:stop].sum()))


def numbers_of(
    plan: Plan, exact: np.ndarray, told: np.ndarray, found: np.ndarray, most: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """What symbols are multiples of, as far as the method has it: ``numbers_on`` takes it.

    Args:
        plan: the method.
        exact: the number of each segment or bucket: float32.
        told: the same as the receiver knows it.
        found: how many entries each segment sends: int64 (segments,).
        most: upper bounds of ``found``, from which the buckets follow.
    """
    way = plan.way
    many = -(-np.asarray(most, np.int64) // (way.bucket or 1 << 62))
    named = {"bases": np.cumsum(many) - many, "exact": exact}
    if told is not exact:
        named["told"] = told
    if way.factor is not None:
        named["factors"] = np.array([way.factor(int(k)) for k in found], np.float32)
    if way.table is not None:
        named["table"] = level_table(*way.table)
    return named


def numbers_on(plan: Plan, there: dict[str, Tensor]) -> Numbers:
    """The same on the device."""
    exact = there["exact"]
    told, table = there.get("told", exact), there.get("table", exact)
    return Numbers(exact, told, there["bases"], plan.way.bucket or 0, there.get("factors"), table)


def uploaded(device: torch.device, named: dict[str, np.ndarray]) -> dict[str, Tensor]:
    """``upload`` by name."""
    return dict(zip(named, upload(device, *named.values()), strict=True))


class Laid(NamedTuple):
    """What was laid out of one message.

    Args:
        words: on the host.
        bits: of them.
        spans: their account.
        values: what the chosen entries become; None where all are sent.
        more: see ``lay``.
    """

    words: np.ndarray
    bits: int
    spans: dict[Span, int]
    values: Tensor | None
    more: list[np.ndarray]


def lay(plan: Plan, choice: Choice, seed: int, more: tuple[Tensor, ...]) -> Waiting[Laid]:
    """The finished stream and its account; the vector becomes the residual where one is kept.

    Args:
        plan: the method.
        choice: what is sent.
        seed: of the noise.
        more: what the host must have too: it waits once.
    """
    way, device, layout, many = plan.way, choice.flat.device, choice.layout, len(choice.found)
    drawn = range(many if way.kind.random else 0)
    seeds = [tensor_seed(tensor_seed(seed, s), ROUND) for s in drawn]
    shared, low = _shared(plan, choice, seeds), _remainders(plan, choice)
    frame, books = _framed(plan, choice, shared)
    told = numbers_of(plan, shared.known, shared.told, choice.found, choice.most) | frame
    if way.kind.random:
        told["keys"] = np.array([noise.key(one) for one in seeds], np.int64)
    if choice.positions is not None:
        told |= {"origins": choice.origins, "found": choice.found, "outs": choice.outs, "low": low}
    there = uploaded(device, told)
    segments, starts = layout.tables[2:]
    origins, outs = there.get("origins", starts), there.get("outs", starts)
    found = there.get("found", segments)
    entries = Entries(choice.flat, starts, choice.positions, origins, found, outs, choice.most)
    numbers = numbers_on(plan, there)
    symbols, values = codes.quantize(entries, way.kind, numbers, there.get("keys"), plan.keeps)

    fields, planes = there["at"], [there[name] for name in ("plane", "second") if name in there]
    known = sum(books.values())
    longest = known + int((choice.found * (1 + low) + (choice.sizes >> low)).sum())
    lengths: tuple[Tensor, ...] = ()
    if choice.positions is None:
        words = stream(known, device)
    else:
        code = Rice(choice.positions, origins, found, there["low"], choice.most)
        words, lengths = stream(longest, device), (code.bits,)
        ends = code.bits.cumsum(0)
        begins = ends - code.bits
        code.write(words, begins + there["codes"])
        fields = fields + torch.cat([begins, ends])[there["behind"]]
        planes = [ends + plane for plane in planes]
    put_fields(words, fields, there["values"], there["widths"])
    # Symbols of up to a byte, or of 32 bits, stand in one plane; others in two: ``coders.fixed``.
    widths = [(way.width - 8, 8), (8, 0)] if len(planes) == 2 else [(way.width, 0)]
    for plane, (width, lowest) in zip(planes, widths, strict=True):
        if width:
            put_plane(symbols, outs, found, words, plane, choice.most, width, lowest)
    finished, *brought = yield (words, *lengths, *more)
    if lengths:
        books["positions"] = int(brought.pop(0).sum())
    return Laid(finished, known + books["positions"], books, values, brought)


def _framed(
    plan: Plan, choice: Choice, shared: Shared
) -> tuple[dict[str, np.ndarray], dict[Span, int]]:
    """Where everything stands but for the codes of positions, and the bits of all but these.

    ``at``, ``values``, ``widths``: the fields of how many entries each segment sends, and of the
    numbers. ``codes``, ``plane``, ``second``: where each segment's positions and
    symbols start. A place moves by the codes of the segments before its own, and, for numbers and
    symbols, of its own: ``behind`` says by which of both lists of sums a field moves.
    """
    way, (head, head_bits) = plan.way, _heads(plan, choice)
    sides = np.bincount(shared.segment, shared.travels, len(head)).astype(np.int64)
    side_bits, value_bits = sides * way.number_bits, choice.found * way.width
    bits = head_bits + side_bits + value_bits
    begins = np.cumsum(bits) - bits
    sent = np.flatnonzero(shared.travels)
    owner, number = shared.segment[sent], shared.told.view(np.uint32)[sent].astype(np.int64)
    codes_at, segments = begins + head_bits, np.arange(len(head))
    frame = {
        "at": np.concatenate([begins, codes_at[owner] + shared.rank[sent] * way.number_bits]),
        "values": np.concatenate([head, number >> 23 if way.powers else number]),
        "widths": np.concatenate([head_bits, np.full(len(sent), way.number_bits)]),
        "behind": np.concatenate([segments, len(head) + owner]),
        "codes": codes_at,
        "plane": codes_at + side_bits,
    }  # fmt: skip
    if 8 < way.width < 32:
        frame["second"] = frame["plane"] + (way.width - 8) * choice.found
    return frame, {
        "header": int(head_bits.sum()), "positions": 0,
        "values": int(value_bits.sum()), "side": int(side_bits.sum()),
    }  # fmt: skip


def _heads(plan: Plan, choice: Choice) -> tuple[np.ndarray, np.ndarray]:
    """How many entries each segment says that it sends, and in how many bits."""
    nominal, found = choice.nominal, choice.found
    if not plan.sides:
        return np.zeros_like(found), np.zeros_like(found)
    as_told = [(1, 1) if k == n else (k + 1, 2 * (k + 1).bit_length())
               for k, n in zip(found.tolist(), nominal.tolist(), strict=True)]  # fmt: skip
    head, bits = np.array(as_told, np.int64).T
    return head, np.where(nominal > 0, bits, 0)


def _remainders(plan: Plan, choice: Choice) -> np.ndarray:
    """The low bits of each segment's gaps."""
    positions, found, sizes = plan.pipeline.positions, choice.found, choice.sizes
    low = np.zeros_like(found)
    if plan.sides and isinstance(positions, Golomb):
        for s in np.flatnonzero(found).tolist():
            density = int(found[s]) / int(sizes[s]) if positions.p is None else positions.p
            low[s] = _rice_parameter(density)
    return low
