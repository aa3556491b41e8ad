"""What messages of updates on a GPU send: which entries, and the numbers that they need.

The device selects and sums; then the host looks at what is wrong with the update, how many entries
there are, and which numbers are certain. ``choose`` yields what the host must have, so that
several rules (``by_name``) wait together.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from compressors.arraycache import keeps_arrays
from compressors.device import numbers
from compressors.errors import NotFinite
from compressors.kernels import kinds
from compressors.kernels.gpu.entries import Buckets, Entries, buckets_of
from compressors.kernels.gpu.join import NOT_FINITE, OVERFLOWS, join
from compressors.kernels.gpu.layout import Programs, programs_of, upload
from compressors.kernels.gpu.measure import MAGNITUDES, SQUARES, about_mean, measure
from compressors.kernels.gpu.select import TopEntries, largest_of_segments
from compressors.segments.plan import Plan, Scheme

T = TypeVar("T")
Waiting = Generator[tuple[Tensor, ...], list[np.ndarray], T]
"""Yields what the host must have, is sent it, and returns a ``T``."""


@dataclass(frozen=True)
class Choice:
    """The segments of messages (their tensors, or the whole of each) and what each sends.

    Args:
        flat: the vector, float32.
        layout: its segments.
        positions: those that are sent, within the segments, int64; None where all are.
        capacities: upper bounds of ``counts``, from which the programs follow.
        nominal_counts: how many each segment is to send: int64 (segments,).
        counts: how many it sends.
        symbol_offsets: where its symbols and values start: int64 (segments,).
        origins: where its positions start.
        numbers: float32, one per segment or per bucket; None where the quantizer has none. Of
            buckets of all entries they lie on the device.
        buckets: of what the segments send at most, where buckets have numbers.
    """

    flat: Tensor
    layout: Programs
    positions: Tensor | None
    capacities: tuple[int, ...]
    nominal_counts: np.ndarray
    counts: np.ndarray
    symbol_offsets: np.ndarray
    origins: np.ndarray
    numbers: np.ndarray | Tensor | None
    buckets: Buckets | None

    @property
    def sizes(self) -> np.ndarray:
        """Entries per segment: int64 (segments,)."""
        return np.asarray(self.layout.sizes, np.int64)


def choose(
    plan: Plan, updates: Sequence[dict[str, Tensor]], residuals: Sequence[dict[str, Tensor]]
) -> Waiting[tuple[Choice, Tensor]]:
    """The sent entries of ``updates`` plus ``residuals``, and the vector of their sums.

    The updates have the same names and shapes, and one vector. It waits twice: the second time for
    nothing but the values of numbers in doubt. Raises ``NotFinite`` where a tensor, or its sum,
    holds NaN or infinity.
    """
    # Most tensors are contiguous: these are themselves.
    flat_of = [x.contiguous() for one in updates for x in one.values()]
    kept_of = [x.contiguous() for one in residuals for x in one.values()] or None
    sizes, device = tuple(x.numel() for x in flat_of), flat_of[0].device
    flat, bad = join(flat_of, kept_of, programs_of(sizes, device))
    segments = (flat.numel() // len(updates),) * len(updates) if plan.joined else sizes
    one = _Choosing(plan, flat, programs_of(segments, device), bad, [*updates[0]])
    return (yield from one.all() if plan.sides == 0 else one.some()), flat


class _Choosing:
    """One vector's choice; see ``choose``. ``names``: of the tensors of one update."""

    def __init__(
        self, plan: Plan, flat: Tensor, layout: Programs, bad: Tensor, names: list[str]
    ) -> None:
        self.plan, self.flat, self.layout, self.bad, self.names = plan, flat, layout, bad, names
        self.sizes = np.asarray(layout.sizes, np.int64)

    def all(self) -> Waiting[Choice]:
        """Every entry."""
        flat, layout, scheme, sizes = self.flat, self.layout, self.plan.scheme, self.sizes
        entries = _all_of(layout, flat)
        offsets, capacities = layout.starts[:-1], layout.sizes
        buckets = _buckets(scheme, entries)
        values: np.ndarray | Tensor | None = None
        if buckets is not None and not scheme.powers:
            values = yield from self.scales(buckets)
        elif scheme.number is not None:
            wrong, *measured = yield (self.bad, *_measured(scheme, entries, buckets))
            self.check(wrong)
            counts = sizes if buckets is None else buckets.counts(sizes)
            exact, certain = _numbers(scheme, counts, measured)
            values = yield from self.summed(exact, certain | (counts == 0), buckets, None)
        else:
            (wrong,) = yield (self.bad,)
            self.check(wrong)
            yield ()
        return Choice(
            flat, layout, None, capacities, sizes, sizes, offsets, offsets, values, buckets
        )

    def scales(self, buckets: Buckets) -> Waiting[Tensor]:
        """The numbers of buckets of all entries. There are many, and they stay on the device.

        The host waits for which are in doubt, and sums the values of these.
        """
        number = self.plan.scheme.number
        assert number is not None
        parts = replace(
            _in_buckets(self.layout.sizes, buckets.size, self.flat.device), flat=self.flat
        )
        measured = measure(parts, SQUARES if number.norm == "2" else MAGNITUDES, buckets.layout)
        values, certain = numbers.of_sums(number, parts.counts, *measured)
        wrong, sure = yield (self.bad, certain)
        self.check(wrong)
        places = np.flatnonzero(~sure)
        sent = yield tuple(self.part(j, buckets, None) for j in places.tolist())
        if sent:
            exact = np.array([number.by_host(torch.from_numpy(x)) for x in sent], np.float32)
            where, summed = upload(values.device, places, exact)
            values.index_copy_(0, where, summed[: len(places)])
        return values

    def some(self) -> Waiting[Choice]:
        """The largest entries of each segment, or those of its stronger side."""
        plan, flat, layout, scheme = self.plan, self.flat, self.layout, self.plan.scheme
        count = plan.pipeline.sparsify.count
        nominal_counts = np.array([count(n) if n else 0 for n in layout.sizes], np.int64)
        selected = largest_of_segments(flat, layout, nominal_counts, plan.sides)
        capacities = tuple(nominal_counts.tolist())
        base = np.cumsum(nominal_counts) - nominal_counts
        buckets: Buckets | None = None
        measured: tuple[Tensor, ...] = ()
        if scheme.number is not None and scheme.number.norm != "mean":  # else its sums are at hand
            (origins,) = upload(flat.device, base)
            strong = selected.counts[:, 0].contiguous()  # kernels take tables without strides
            where = (selected.positions, origins, strong, origins)
            entries = Entries(flat, layout.tables[3], *where, capacities)
            buckets = _buckets(scheme, entries)
            measured = _measured(scheme, entries, buckets)
        selection = (selected.counts, selected.sums, selected.edges)
        wrong, counts, sums, edges, *more = yield (self.bad, *selection, *measured)
        self.check(wrong)
        if plan.sides == 2:
            side, values = yield from self.sided(counts, sums, edges)
        else:
            side, values = np.zeros(len(capacities), np.int64), None
            ours = more or [edges[:, 0], edges[:, 0], sums[:, 0]]
            values = yield from self.magnitudes(counts[:, 0], ours, buckets, selected, base)
        sent = counts[np.arange(len(capacities)), side]
        starts = base + side * selected.room
        chosen = selected.positions
        return Choice(
            flat, layout, chosen, capacities, nominal_counts, sent, base, starts, values, buckets
        )

    def magnitudes(
        self,
        entry_counts: np.ndarray,
        measured: list[np.ndarray],
        buckets: Buckets | None,
        selected: TopEntries,
        base: np.ndarray,
    ) -> Waiting[np.ndarray | None]:
        """The numbers of entries of any sign."""
        if self.plan.scheme.number is None:
            yield ()
            return None
        counts = entry_counts if buckets is None else buckets.counts(entry_counts)
        values, certain = _numbers(self.plan.scheme, counts, measured)
        certain = certain | (counts == 0)
        chosen = (selected.positions, base, counts)
        return (yield from self.summed(values, certain, buckets, chosen))

    def sided(
        self, counts: np.ndarray, sums: np.ndarray, edges: np.ndarray
    ) -> Waiting[tuple[np.ndarray, np.ndarray | None]]:
        """The stronger side of each segment, and its mean where that is what a symbol means."""
        number, rows = self.plan.scheme.number, np.arange(len(counts))
        side, certain = numbers.stronger(sums, counts, edges)
        values = None
        if number is not None:
            strong, edge = counts[rows, side], edges[rows, side]
            values, sure = numbers.of_sums(number, strong, edge, edge, sums[rows, side])
            certain = certain & (sure | (strong == 0))
            if self.plan.scheme.kind.number == kinds.SHARED:
                values = np.where(side == 1, -values, values)
        places = np.flatnonzero(~certain).tolist()
        starts = self.layout.starts
        parts = yield tuple(self.flat[starts[s] : starts[s + 1]] for s in places)
        for s, part in zip(places, parts, strict=True):
            x = torch.from_numpy(part)
            indices, _ = self.plan.pipeline.sparsify.select(x, 0)
            side[s] = int(bool(x[indices[0]] < 0))
            if number is not None and values is not None:
                values[s] = number.by_host(x[indices])
        return side, values

    def summed(
        self,
        values: np.ndarray,
        certain: np.ndarray,
        buckets: Buckets | None,
        chosen: tuple[Tensor, np.ndarray, np.ndarray] | None,
    ) -> Waiting[np.ndarray]:
        """The numbers, those in doubt summed by the host: it waits once for all of their values."""
        number, places = self.plan.scheme.number, np.flatnonzero(~certain).tolist()
        assert number is not None
        parts = yield tuple(self.part(j, buckets, chosen) for j in places)
        for j, part in zip(places, parts, strict=True):
            values[j] = number.by_host(torch.from_numpy(part))
        return values

    def part(
        self,
        j: int,
        buckets: Buckets | None,
        chosen: tuple[Tensor, np.ndarray, np.ndarray] | None,
    ) -> Tensor:
        """The values that the j-th number is of."""
        s, first = (
            (j, 0) if buckets is None else (buckets.segment[j], int(buckets.rank[j]) * buckets.size)
        )
        start, size = int(self.layout.starts[s]), int(self.sizes[s])
        if chosen is None:
            stop = size if buckets is None else min(size, first + buckets.size)
            return self.flat[start + first : start + stop]
        positions, base, counts = chosen
        places = positions.narrow(0, int(base[s]) + first, int(counts[j]))
        return self.flat[places + start]

    def check(self, wrong: np.ndarray) -> None:
        """Raises ``NotFinite`` where a tensor, or its sum with the memory, is not finite."""
        for flag, problem in (
            (NOT_FINITE, "holds NaN or infinity: no message can carry it"),
            (OVERFLOWS, "and its memory overflow float32"),
        ):
            for s in np.flatnonzero(wrong & flag).tolist():
                name = self.names[s % len(self.names)]
                raise NotFinite(f"tensor {name!r} {problem}")


def _all_of(layout: Programs, flat: Tensor) -> Entries:
    """Every entry of a vector."""
    starts, lengths = layout.tables[3], layout.tables[2]
    return Entries(flat, starts, None, starts, lengths, starts, layout.sizes)


@keeps_arrays
def _in_buckets(segments: tuple[int, ...], size: int, device: torch.device) -> Entries:
    """Every entry, in buckets of ``size``, for any vector of these segments."""
    layout = programs_of(segments, device)
    return buckets_of(segments, size, device).cut(_all_of(layout, layout.first_block))


def _buckets(scheme: Scheme, entries: Entries) -> Buckets | None:
    if scheme.bucket is None:
        return None
    return buckets_of(entries.capacities, scheme.bucket, entries.flat.device)


def _measured(scheme: Scheme, entries: Entries, buckets: Buckets | None) -> tuple[Tensor, ...]:
    """What the numbers follow from, still on the device."""
    number = scheme.number
    if number is None:
        return ()
    if number.clip is not None:
        return about_mean(entries)
    what = SQUARES if number.norm == "2" else MAGNITUDES
    if buckets is None:
        return measure(entries, what)
    return measure(buckets.cut(entries), what, buckets.layout)


def _numbers(
    scheme: Scheme, counts: np.ndarray, measured: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers, and which are certain."""
    assert scheme.number is not None
    if scheme.number.clip is not None:
        peaks, spreads = measured
        return numbers.of_spreads(scheme.number.clip, counts, peaks, spreads)
    return numbers.of_sums(scheme.number, counts, *measured)
