"""The kernels' work for messages, from updates to bits: nothing in it waits for the host.

So it can be recorded and repeated as one graph (``compressors.kernels.gpu.graphs``). What the host
must know of it stands in one report.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.bits import Span
from compressors.device import numbers
from compressors.device.layout import Frame
from compressors.kernels import kinds
from compressors.kernels.gpu import codes
from compressors.kernels.gpu.codes import Numbers
from compressors.kernels.gpu.join import join
from compressors.kernels.gpu.measure import MAGNITUDES, SQUARES, about_mean, measure
from compressors.kernels.gpu.select import TopEntries, largest_of_segments
from compressors.kernels.gpu.stream import Rice, put_fields_gpu, put_plane

_SPANS: tuple[Span, ...] = ("header", "positions", "values", "side")
_UINT32 = 0xFFFFFFFF


class Encoded(NamedTuple):
    """What the work returns, all of it on the device.

    Args:
        report: int64, see ``Report``.
        flat: the vector; the residuals where the plan keeps one.
        positions: those that are sent, within the segments, int64; None where all are.
        values: what they become, float32; None where all are sent.
    """

    report: Tensor
    flat: Tensor
    positions: Tensor | None
    values: Tensor | None


class Report(NamedTuple):
    """What the host reads of messages.

    Args:
        wrong: flags of each tensor: ``join``.
        doubts: the numbers, of segments or buckets, that are not certain: int64 (doubts,).
        unsure: the segments whose side is not: int64 (unsure,).
        counts: how many entries each segment sends: int64 (segments,).
        sides: the side that it sends: int64 (segments,).
        ends: of one-vector messages, how many entries lie before each tensor's end: int64
            (messages, tensors); else (messages, 0).
        books: bits by span of each message: int64 (messages, 4).
        words: the bits: int32 (messages, words).
    """

    wrong: np.ndarray
    doubts: np.ndarray
    unsure: np.ndarray
    counts: np.ndarray
    sides: np.ndarray
    ends: np.ndarray
    books: np.ndarray
    words: np.ndarray

    def spans(self, message: int) -> dict[Span, int]:
        """The account of one message."""
        return dict(zip(_SPANS, self.books[message].tolist(), strict=True))


def read_report(frame: Frame, fetched: np.ndarray) -> Report:
    """The parts of a report that was fetched."""
    many, segments, numbers = frame.many, len(frame.nominal_counts), frame.numbers
    ends = len(frame.tables["ends"]) if "ends" in frame.tables else 0
    sizes = [len(frame.tensors.sizes), segments, segments, many * ends, many * len(_SPANS)]
    flags = numbers + segments
    sizes += [-(-flags // 8), (sum(sizes) + -(-flags // 8)) % 2]
    wrong, counts, sides, before, books, doubtful, _, bits_after = np.split(
        fetched, np.cumsum(sizes)
    )
    doubtful = doubtful.view(np.uint8)[:flags]
    return Report(
        wrong=wrong,
        doubts=np.flatnonzero(doubtful[:numbers]),
        unsure=np.flatnonzero(doubtful[numbers:]),
        counts=counts,
        sides=sides,
        ends=before.reshape(many, ends),
        books=books.reshape(many, len(_SPANS)),
        words=bits_after.view(np.int32)[: many * frame.words].reshape(many, frame.words),
    )


def no_corrections(frame: Frame) -> dict[str, Tensor]:
    """``host_numbers`` and ``host_sides`` of ``encode_on_device`` where the host computed none."""
    device, sides = frame.layout.first_block.device, frame.plan.sides
    some: dict[str, Tensor] = {}
    if frame.plan.scheme.number is not None:
        some["host_numbers"] = torch.full(
            (frame.numbers,), torch.nan, dtype=torch.float32, device=device
        )
    if sides == 2:
        some["host_sides"] = torch.full((len(frame.base),), -1, device=device)
    return some


def encode_on_device(frame: Frame, tensors: dict[str, Tensor]) -> Encoded:
    """The messages of updates, and what goes with them.

    Args:
        frame: what is the same for all updates of these sizes.
        tensors: on the device. ``updates``, ``residuals``: addresses (``join``); ``keys``: of the
            noise of each segment, int64 (segments, 2); ``number_keys``: of that of its numbers;
            ``factors``: of its values, float32 (segments,); ``host_numbers``: numbers that the host
            has computed, float32, NaN for the device's own; ``host_sides``: the same of sides, -1
            for its own.
    """
    plan = frame.plan
    flat, wrong = join(tensors["updates"], tensors.get("residuals"), frame.tensors)
    one = _Choice(frame, flat, tensors)
    exact, certain = one.numbers()
    decoded = _decoded(frame, exact, tensors)
    shared = Numbers(
        exact,
        decoded,
        frame.tables["bases"],
        plan.scheme.bucket or 0,
        tensors.get("factors"),
        frame.tables.get("table", exact),
    )
    symbols, values = codes.quantize(
        one.entries, plan.scheme.kind, shared, tensors.get("keys"), plan.keeps
    )
    summary = [wrong, one.entries.counts, one.sides, one.ends()]
    report = _written(
        frame, one, decoded, symbols, summary, torch.cat([certain, one.certain_sides])
    )
    return Encoded(report, flat, one.entries.chosen, values)


class _Choice:
    """What of a vector is sent."""

    def __init__(self, frame: Frame, flat: Tensor, tensors: dict[str, Tensor]) -> None:
        self.frame, self.corrections = frame, tensors.get("host_numbers")
        self.selected: TopEntries | None = None
        layout, base = frame.layout, frame.tables["base"]
        self.sides, self.certain_sides = torch.zeros_like(base), torch.ones_like(base) > 0
        sizes, starts = layout.tables[2:]
        if not frame.plan.sides:
            self.entries = frame.entries(flat, None, starts, sizes)
            return
        selected = largest_of_segments(flat, layout, frame.nominal_counts, frame.plan.sides)
        self.selected, counts = selected, selected.counts[:, 0]
        if frame.plan.sides == 2:
            self.sides, self.certain_sides = numbers.stronger(
                selected.sums, selected.counts, selected.edges
            )
            computed = tensors["host_sides"] < 0
            self.sides = torch.where(computed, self.sides, tensors["host_sides"])
            self.certain_sides = self.certain_sides | ~computed
            counts = self.of_side(selected.counts)
        origins = base + self.sides * selected.room
        self.entries = frame.entries(flat, selected.positions, origins, counts.contiguous())

    def of_side(self, both: Tensor) -> Tensor:
        """The column (segments,) of the side that is sent."""
        return both.gather(1, self.sides[:, None])[:, 0]

    def counts(self) -> Tensor:
        """How many entries each number is of: int64 (numbers,)."""
        counts, buckets = self.entries.counts, self.frame.buckets
        if buckets is None:
            return counts
        of, first, _ = buckets.tables
        return (counts[of] - first).clamp(0, buckets.size)

    def numbers(self) -> tuple[Tensor, Tensor]:
        """The number of each segment or bucket, float32, and whether it is certain."""
        scheme, flat = self.frame.plan.scheme, self.entries.flat
        if scheme.number is None or self.corrections is None:
            exact = torch.full(
                (self.frame.numbers,), scheme.constant, dtype=torch.float32, device=flat.device
            )
            return exact, torch.ones_like(exact, dtype=torch.bool)
        counts = self.counts()
        if scheme.number.clip is not None:
            exact, certain = numbers.of_spreads(
                scheme.number.clip, counts, *about_mean(self.entries)
            )
        else:
            exact, certain = numbers.of_sums(scheme.number, counts, *self.sums(scheme.number.norm))
        if self.frame.plan.sides == 2 and scheme.kind.number == kinds.SHARED:
            exact = torch.where(self.sides == 1, -exact, exact)
        computed = self.corrections.isnan()
        exact = torch.where(computed, exact.nan_to_num(0.0, 0.0, 0.0), self.corrections)
        return exact, certain | ~computed | (counts == 0)

    def sums(self, norm: str) -> tuple[Tensor, Tensor, Tensor]:
        """Extremes and sums that the numbers follow from: ``measure``."""
        buckets = self.frame.buckets
        if self.selected is not None and norm == "mean":  # the selection has summed them
            edges, sums = self.of_side(self.selected.edges), self.of_side(self.selected.sums)
            return edges, edges, sums
        what = SQUARES if norm == "2" else MAGNITUDES
        if buckets is None:
            return measure(self.entries, what)
        return measure(buckets.cut(self.entries), what, buckets.layout)

    def ends(self) -> Tensor:
        """Of messages that are one vector each, how many entries lie before each tensor's end."""
        stops, entries, frame = self.frame.tables.get("ends"), self.entries, self.frame
        if stops is None or entries.chosen is None:
            return entries.counts[:0]
        lane = torch.arange(int(frame.nominal_counts[0]), device=stops.device)
        places = entries.chosen[entries.origins[:, None] + lane]
        sent = lane < entries.counts[:, None]
        places = torch.where(sent, places, frame.layout.tables[2][:, None])
        return torch.searchsorted(places, stops.expand(frame.many, -1).contiguous()).view(-1)


def _decoded(frame: Frame, exact: Tensor, tensors: dict[str, Tensor]) -> Tensor:
    """The numbers as the receiver knows them: twin of ``quantize.dither.rounded``."""
    if not frame.plan.scheme.powers:
        return exact
    of, rank = frame.tables["owner"], frame.tables["rank"]
    multiplier, offset = tensors["number_keys"][of].unbind(1)
    x = (rank * multiplier + offset) & _UINT32
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _UINT32
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _UINT32
    x = x ^ (x >> 16)
    carried = (exact.view(torch.int32).to(torch.int64) + (x >> 9)) & 0xFF800000
    return carried.clamp(max=254 << 23).to(torch.int32).view(torch.float32)


def _written(
    frame: Frame,
    one: _Choice,
    decoded: Tensor,
    symbols: Tensor,
    summary: list[Tensor],
    certain: Tensor,
) -> Tensor:
    """The report: the ``summary``, the account of bits, what is ``certain``, and the bits."""
    plan, scheme, entries, many = frame.plan, frame.plan.scheme, one.entries, frame.many
    counts, none = entries.counts, torch.zeros_like(entries.counts)
    head, head_bits = _heads(frame, counts) if plan.sides else (none, none)
    code: Rice | None = None
    if entries.chosen is not None:
        low = (counts[:, None] < frame.tables["least"]).sum(1)
        low = torch.where(counts > 0, low, 0)
        code = Rice(entries.chosen, entries.origins, counts, low, frame.capacities)
    code_bits, value_bits = none if code is None else code.bits, counts * scheme.width
    travels = (one.counts() > 0) if scheme.number is not None else None
    side_bits = none
    if travels is not None:
        each = scheme.number_bits
        size = scheme.bucket or max(1, max(frame.capacities))
        side_bits = (counts + (size - 1)).div(size, rounding_mode="floor") * each
    spans = torch.stack([head_bits, code_bits, value_bits, side_bits]).view(4, many, -1)
    bits = spans.sum(0)
    begin = (bits.cumsum(1) - bits + 32 * frame.words * _numbered(many, bits.device)).view(-1)

    summary = [*summary, spans.sum(2).T.reshape(-1), _packed(~certain)]
    before = sum(x.numel() for x in summary)
    before += before % 2  # so that the words begin at a multiple of 16 bytes
    # Two words more, for a field that ends with the last.
    report = torch.zeros(
        before + (many * frame.words + 4) // 2, dtype=torch.int64, device=bits.device
    )
    torch.cat([x.to(torch.int64) for x in summary], out=report[: sum(x.numel() for x in summary)])
    words = report[before:].view(torch.int32)

    codes_at = begin + head_bits
    numbers_at = codes_at + code_bits
    planes_at = numbers_at + side_bits
    fields = [(begin, head, head_bits)] if plan.sides else []
    if travels is not None:
        owner, rank = frame.tables["owner"], frame.tables["rank"]
        value = decoded.view(torch.int32).to(torch.int64) & _UINT32
        fields.append(
            (
                numbers_at[owner] + rank * scheme.number_bits,
                value >> 23 if scheme.powers else value,
                travels * scheme.number_bits,
            )
        )
    if fields:
        put_fields_gpu(words, *(torch.cat(column) for column in zip(*fields, strict=True)))
    if code is not None:
        code.write(words, codes_at)
    # Symbols of up to a byte, or of 32 bits, stand in one plane; others in two: ``coders.fixed``.
    planes = [(planes_at, scheme.width, 0)]
    if 8 < scheme.width < 32:
        second = planes_at + (scheme.width - 8) * counts
        planes = [(planes_at, scheme.width - 8, 8), (second, 8, 0)]
    for place, width, lowest in planes:
        if width:
            offsets = frame.tables["base"]
            put_plane(symbols, offsets, counts, words, place, frame.capacities, width, lowest)
    return report


def _packed(flags: Tensor) -> Tensor:
    """A bool tensor as bytes, eight to a number: int64."""
    packed = torch.zeros(-(-flags.numel() // 8) * 8, dtype=torch.uint8, device=flags.device)
    packed[: flags.numel()] = flags
    return packed.view(torch.int64)


def _numbered(many: int, device: torch.device) -> Tensor:
    """0, 1, ... of ``many`` messages: int64 (many, 1)."""
    return torch.arange(many, device=device)[:, None]


def _heads(frame: Frame, counts: Tensor) -> tuple[Tensor, Tensor]:
    """How many entries each segment says that it sends, and in how many bits."""
    full_counts = frame.tables["nominal_counts"]
    full, more = counts == full_counts, counts + 1
    lengths = (more[:, None] >= (1 << torch.arange(33, device=counts.device))).sum(1)
    bits = torch.where(full, 1, 2 * lengths)
    return torch.where(full, 1, more), torch.where(full_counts > 0, bits, 0)
