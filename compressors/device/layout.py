"""The bits of messages of updates on a GPU, laid out and written where the updates lie.

All that the host knows of the messages goes there in one copy, before the first of these kernels.
Messages stand in one stream, each from a word of its own on.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.arraycache import keeps_arrays
from compressors.base import tensor_seed
from compressors.bits import Span
from compressors.coders.golomb import Golomb, rice_parameter
from compressors.device.select import Choice, Waiting
from compressors.kernels import noise
from compressors.kernels.gpu import codes
from compressors.kernels.gpu.codes import Numbers
from compressors.kernels.gpu.entries import Entries, buckets_of
from compressors.kernels.gpu.layout import programs_of, upload
from compressors.kernels.gpu.stream import Rice, put_fields_gpu, put_plane, stream
from compressors.quantize.dither import rounded
from compressors.quantize.levels import level_table
from compressors.segments.plan import Plan
from compressors.whole.pipeline import ROUND

_rice_parameter = lru_cache(maxsize=4096)(rice_parameter)


class Shared(NamedTuple):
    """The numbers of segments, or buckets, that go with their symbols, on the host.

    Args:
        exact: float32 (numbers,).
        decoded: the same as the receiver knows them.
        segment: whose each is: int64 (numbers,).
        rank: its place among those of its segment: int64 (numbers,).
        travels: whether it is sent: a segment, or a bucket, of no entries sends none.
    """

    exact: np.ndarray
    decoded: np.ndarray
    segment: np.ndarray
    rank: np.ndarray
    travels: np.ndarray


def _shared(plan: Plan, choice: Choice, seeds: list[int]) -> Shared:
    many, buckets = len(choice.counts), choice.buckets
    exact = np.full(many, plan.scheme.constant) if choice.numbers is None else choice.numbers
    exact = np.asarray(exact).astype(np.float32)
    if buckets is None:
        segment, rank, counts = np.arange(many), np.zeros(many, np.int64), choice.counts
    else:
        segment, rank = buckets.segment, buckets.rank
        counts = buckets.counts(choice.counts)
    travels = (counts > 0) & (choice.numbers is not None)
    if not plan.scheme.powers:
        return Shared(exact, exact, segment, rank, travels)
    decoded = exact.copy()
    for s in np.unique(segment[travels]).tolist():
        members = travels & (segment == s) if buckets is None else _run(buckets.bases, s, travels)
        decoded[members] = rounded(exact[members], seeds[s])
    return Shared(exact, decoded, segment, rank, travels)


def _run(bases: np.ndarray, s: int, travels: np.ndarray) -> slice:
    """The buckets of segment ``s`` that travel: the first ones."""
    start = int(bases[s])
    stop = int(bases[s + 1]) if s + 1 < len(bases) else len(travels)
    return slice(start, start + int(travels[start:stop].sum()))


def numbers_of(
    plan: Plan,
    exact: np.ndarray,
    decoded: np.ndarray,
    counts: np.ndarray,
    capacities: tuple[int, ...],
) -> dict[str, np.ndarray]:
    """The unit of the symbols, where the method has one, as ``numbers_on`` takes it.

    Args:
        plan: the method.
        exact: the number of each segment or bucket: float32.
        decoded: the same as the receiver knows it.
        counts: how many entries each segment sends: int64 (segments,).
        capacities: upper bounds of ``counts``, from which the buckets follow.
    """
    scheme = plan.scheme
    many = -(-np.asarray(capacities, np.int64) // (scheme.bucket or 1 << 62))
    named = {"bases": np.cumsum(many) - many, "exact": exact}
    if decoded is not exact:
        named["decoded"] = decoded
    if scheme.factor is not None:
        named["factors"] = np.array([scheme.factor(int(k)) for k in counts], np.float32)
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


class BitStream(NamedTuple):
    """What was laid out of one message.

    Args:
        words: on the host.
        bits: of them.
        spans: their account.
        values: what the chosen entries of all messages become; None where all are sent.
        more: see ``encode_streams``.
    """

    words: np.ndarray
    bits: int
    spans: dict[Span, int]
    values: Tensor | None
    more: list[np.ndarray]


def encode_streams(
    plan: Plan, choice: Choice, seeds: Sequence[int], more: tuple[Tensor, ...]
) -> Waiting[list[BitStream]]:
    """The finished messages and their account; the vector becomes the residuals where one is kept.

    Args:
        plan: the method.
        choice: what is sent.
        seeds: of the noise of each message.
        more: what the host must have too, nothing or a tensor per message: it waits once.
    """
    scheme, device, layout, many = plan.scheme, choice.flat.device, choice.layout, len(seeds)
    drawn = range(len(choice.counts) // many if scheme.kind.random else 0)
    segment_seeds = [tensor_seed(tensor_seed(seed, s), ROUND) for seed in seeds for s in drawn]
    capacities, arrays, tensors = choice.capacities, dict[str, np.ndarray](), dict[str, Tensor]()
    if choice.positions is None and not scheme.powers:
        framed, static = _frame_of_all(plan, layout.sizes, many, device)
        tensors = dict(static)
        if isinstance(choice.numbers, Tensor):
            bits = choice.numbers.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
            tensors |= {"exact": choice.numbers, "values": bits}
        elif choice.numbers is not None:
            exact = choice.numbers.astype(np.float32)
            arrays = {"exact": exact, "values": exact.view(np.uint32)[choice.counts > 0]}
    else:
        shared, low = _shared(plan, choice, segment_seeds), _remainders(plan, choice)
        framed = _framed(plan, choice, shared, low, many)
        arrays = numbers_of(plan, shared.exact, shared.decoded, choice.counts, capacities)
        arrays |= framed.frame
        if choice.positions is not None:
            arrays |= {
                "origins": choice.origins,
                "counts": choice.counts,
                "symbol_offsets": choice.symbol_offsets,
                "low": low,
            }
    if scheme.kind.random:
        arrays["keys"] = np.array([noise.key(one) for one in segment_seeds], np.int64)
    if arrays:
        tensors |= uploaded(device, arrays)
    segments, starts = layout.tables[2:]
    origins, symbol_offsets = tensors.get("origins", starts), tensors.get("symbol_offsets", starts)
    counts = tensors.get("counts", segments)
    entries = Entries(
        choice.flat, starts, choice.positions, origins, counts, symbol_offsets, capacities
    )
    numbers = numbers_on(plan, tensors)
    symbols, values = codes.quantize(entries, scheme.kind, numbers, tensors.get("keys"), plan.keeps)

    fields = tensors["at"]
    planes = [tensors[name] for name in ("plane", "second") if name in tensors]
    words, lengths = stream(int(framed.room.sum()), device), list[Tensor]()
    if choice.positions is not None:
        code = Rice(choice.positions, origins, counts, tensors["low"], capacities)
        lengths = [code.bits]
        ends = code.bits.view(many, -1).cumsum(1).view(-1)  # those of each message by themselves
        code_offsets = ends - code.bits
        code.write(words, code_offsets + tensors["codes"])
        fields = fields + torch.cat([code_offsets, ends])[tensors["behind"]]
        planes = [ends + plane for plane in planes]
    put_fields_gpu(words, fields, tensors["values"], tensors["widths"])
    # Symbols of up to a byte, or of 32 bits, stand in one plane; others in two: ``coders.fixed``.
    widths = [(scheme.width - 8, 8), (8, 0)] if len(planes) == 2 else [(scheme.width, 0)]
    for plane, (width, lowest) in zip(planes, widths, strict=True):
        if width:
            put_plane(symbols, symbol_offsets, counts, words, plane, capacities, width, lowest)
    finished, *brought = yield (words, *lengths, *more)
    if lengths:
        framed.books["positions"] += _per_message(brought.pop(0), many)
    streams, until = [], framed.room.cumsum() // 32
    for i, own_words in enumerate(np.split(finished, until)[:many]):
        spans = {name: int(bits[i]) for name, bits in framed.books.items()}
        streams.append(BitStream(own_words, sum(spans.values()), spans, values, brought[i : i + 1]))
    return streams


def _per_message(numbers: np.ndarray, many: int) -> np.ndarray:
    """The sums of each message's ``numbers`` (segments,)."""
    sums: np.ndarray = numbers.reshape(many, -1).sum(1)
    return sums


class _Framed(NamedTuple):
    """Where everything stands but for the codes of positions.

    Args:
        frame: ``at``, ``values``, ``widths``: the fields of how many entries each segment sends,
            and of the numbers. ``codes``, ``plane``, ``second``: where each segment's positions
            and symbols start. A place moves by the codes of the segments before its own in its
            message, and, for numbers and symbols, of its own: ``behind`` says by which of both
            lists of sums a field moves.
        books: the bits of all but these codes by span: int64 (messages,).
        room: bits that each message takes at most, whole words: int64 (messages,).
    """

    frame: dict[str, np.ndarray]
    books: dict[Span, np.ndarray]
    room: np.ndarray


def _framed(plan: Plan, choice: Choice, shared: Shared, low: np.ndarray, many: int) -> _Framed:
    scheme, (head, head_bits) = plan.scheme, _heads(plan, choice)
    sides = np.bincount(shared.segment, shared.travels, len(head)).astype(np.int64)
    side_bits, value_bits = sides * scheme.number_bits, choice.counts * scheme.width
    bits = head_bits + side_bits + value_bits
    gaps = choice.counts * (1 + low) + (choice.sizes >> low) if plan.sides else 0 * bits
    room = -(-_per_message(bits + gaps, many) // 32) * 32
    # As if one message followed the other, and then moved to where its room begins.
    offsets, totals = np.cumsum(bits) - bits, _per_message(bits, many)
    offsets += np.repeat(np.cumsum(room - totals) - (room - totals), len(bits) // many)
    sent = np.flatnonzero(shared.travels)
    owner, number = shared.segment[sent], shared.decoded.view(np.uint32)[sent].astype(np.int64)
    codes_at, segments = offsets + head_bits, np.arange(len(head))
    frame = {
        "at": np.concatenate([offsets, codes_at[owner] + shared.rank[sent] * scheme.number_bits]),
        "values": np.concatenate([head, number >> 23 if scheme.powers else number]),
        "widths": np.concatenate([head_bits, np.full(len(sent), scheme.number_bits)]),
        "behind": np.concatenate([segments, len(head) + owner]),
        "codes": codes_at,
        "plane": codes_at + side_bits,
    }
    if 8 < scheme.width < 32:
        frame["second"] = frame["plane"] + (scheme.width - 8) * choice.counts
    booked: dict[Span, np.ndarray] = {
        "header": head_bits,
        "positions": 0 * bits,
        "values": value_bits,
        "side": side_bits,
    }
    books = {name: _per_message(one, many) for name, one in booked.items()}
    return _Framed(frame, books, room)


@keeps_arrays
def _frame_of_all(
    plan: Plan, segments: tuple[int, ...], many: int, device: torch.device
) -> tuple[_Framed, dict[str, Tensor]]:
    """What messages of all entries have but for their numbers, on the device.

    It follows from the sizes, so that it is made once for many messages.
    """
    layout, bucket = programs_of(segments, device), plan.scheme.bucket
    buckets = None if bucket is None else buckets_of(segments, bucket, device)
    sizes, starts = np.asarray(segments, np.int64), layout.starts[:-1]
    numbers = np.zeros(len(sizes if buckets is None else buckets.segment), np.float32)
    choice = Choice(
        flat=layout.first_block,
        layout=layout,
        positions=None,
        capacities=segments,
        nominal_counts=sizes,
        counts=sizes,
        symbol_offsets=starts,
        origins=starts,
        numbers=None if plan.scheme.number is None else numbers,
        buckets=buckets,
    )
    shared = _shared(plan, choice, [])
    framed = _framed(plan, choice, shared, 0 * sizes, many)
    arrays = framed.frame | numbers_of(plan, shared.exact, shared.exact, sizes, segments)
    for name in ("at", "widths", "values"):  # without how many entries are sent: all are
        arrays[name] = arrays[name][len(sizes) :]
    del arrays["behind"], arrays["codes"]
    if plan.scheme.number is not None:
        del arrays["exact"], arrays["values"]
    return framed._replace(frame={}), uploaded(device, arrays)


def _heads(plan: Plan, choice: Choice) -> tuple[np.ndarray, np.ndarray]:
    """How many entries each segment says that it sends, and in how many bits."""
    nominal_counts, counts = choice.nominal_counts, choice.counts
    if not plan.sides:
        return np.zeros_like(counts), np.zeros_like(counts)
    as_told = [
        (1, 1) if k == n else (k + 1, 2 * (k + 1).bit_length())
        for k, n in zip(counts.tolist(), nominal_counts.tolist(), strict=True)
    ]
    head, bits = np.array(as_told, np.int64).T
    return head, np.where(nominal_counts > 0, bits, 0)


def _remainders(plan: Plan, choice: Choice) -> np.ndarray:
    """The low bits of each segment's gaps."""
    positions, counts, sizes = plan.pipeline.positions, choice.counts, choice.sizes
    low = np.zeros_like(counts)
    if plan.sides and isinstance(positions, Golomb):
        for s in np.flatnonzero(counts).tolist():
            density = int(counts[s]) / int(sizes[s]) if positions.p is None else positions.p
            low[s] = _rice_parameter(density)
    return low
