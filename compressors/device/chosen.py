"""What messages of updates on a GPU send: which entries, and the numbers that they need.

The device selects and sums; then the host looks at what is wrong with the update, how many entries
there are, and which numbers are certain. ``choose`` yields what the host must have, so that
several rules (``by_name``) wait together.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from compressors.device import numbers
from compressors.errors import NotFinite
from compressors.kernels import kinds
from compressors.kernels.gpu.entries import Buckets, Entries, buckets_of
from compressors.kernels.gpu.join import NOT_FINITE, OVERFLOWS, join
from compressors.kernels.gpu.layout import Layout, layout_of, upload
from compressors.kernels.gpu.measure import MAGNITUDES, SQUARES, about_mean, measure
from compressors.kernels.gpu.select import Chosen, largest
from compressors.segments.plan import Plan
from compressors.segments.ways import Way

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
        most: upper bounds of ``found``, from which the programs follow.
        nominal: how many each segment is to send: int64 (segments,).
        found: how many it sends.
        outs: where its symbols and values start: int64 (segments,).
        origins: where its positions start.
        numbers: float32, one per segment or per bucket; None where the quantizer has none.
        buckets: of what the segments send at most, where buckets have numbers.
    """

    flat: Tensor
    layout: Layout
    positions: Tensor | None
    most: tuple[int, ...]
    nominal: np.ndarray
    found: np.ndarray
    outs: np.ndarray
    origins: np.ndarray
    numbers: np.ndarray | None
    buckets: Buckets | None

    @property
    def sizes(self) -> np.ndarray:
        """Entries per segment: int64 (segments,)."""
        return np.asarray(self.layout.sizes, np.int64)


def choose(
    plan: Plan, given: Sequence[dict[str, Tensor]], kept: Sequence[dict[str, Tensor]]
) -> Waiting[tuple[Choice, Tensor]]:
    """What is sent of the updates ``given`` plus what was ``kept``, and the vector of their sums.

    The updates have the same names and shapes, and one vector. It waits twice: the second time for
    nothing but the values of numbers in doubt. Raises ``NotFinite`` where a tensor, or its sum,
    holds NaN or infinity.
    """
    # Most tensors are contiguous: these are themselves.
    flat_of = [x.contiguous() for one in given for x in one.values()]
    kept_of = [x.contiguous() for one in kept for x in one.values()] or None
    sizes, device = tuple(x.numel() for x in flat_of), flat_of[0].device
    flat, bad = join(flat_of, kept_of, layout_of(sizes, device))
    segments = (flat.numel() // len(given),) * len(given) if plan.joined else sizes
    one = _Choosing(plan, flat, layout_of(segments, device), bad, [*given[0]])
    return (yield from one.all() if plan.sides == 0 else one.some()), flat


class _Choosing:
    """One vector's choice; see ``choose``. ``names``: of the tensors of one update."""

    def __init__(
        self, plan: Plan, flat: Tensor, layout: Layout, bad: Tensor, names: list[str]
    ) -> None:
        self.plan, self.flat, self.layout, self.bad, self.names = plan, flat, layout, bad, names
        self.sizes = np.asarray(layout.sizes, np.int64)

    def all(self) -> Waiting[Choice]:
        """Every entry."""
        flat, layout, way, sizes = self.flat, self.layout, self.plan.way, self.sizes
        starts, found = layout.tables[3], layout.tables[2]
        entries = Entries(flat, starts, None, starts, found, starts, layout.sizes)
        begins, most = layout.starts[:-1], layout.sizes
        buckets = _buckets(way, entries)
        wrong, *measured = yield (self.bad, *_measured(way, entries, buckets))
        self.check(wrong)
        values = None
        if way.number is not None:
            counts = sizes if buckets is None else buckets.counts(sizes)
            values, certain = _numbers(way, counts, measured)
            values = yield from self.settled(values, certain | (counts == 0), buckets, None)
        else:
            yield ()
        return Choice(flat, layout, None, most, sizes, sizes, begins, begins, values, buckets)

    def some(self) -> Waiting[Choice]:
        """The largest entries of each segment, or those of its stronger side."""
        plan, flat, layout, way = self.plan, self.flat, self.layout, self.plan.way
        count = plan.pipeline.sparsify.count
        nominal = np.array([count(n) if n else 0 for n in layout.sizes], np.int64)
        selected = largest(flat, layout, nominal, plan.sides)
        base, most = np.cumsum(nominal) - nominal, tuple(nominal.tolist())
        buckets: Buckets | None = None
        measured: tuple[Tensor, ...] = ()
        if way.number is not None and way.number.norm != "mean":  # else its sums are at hand
            (origins,) = upload(flat.device, base)
            found = selected.found[:, 0].contiguous()  # kernels take tables without strides
            where = (selected.positions, origins, found, origins)
            entries = Entries(flat, layout.tables[3], *where, most)
            buckets = _buckets(way, entries)
            measured = _measured(way, entries, buckets)
        told = (selected.found, selected.sums, selected.edges)
        wrong, counts, sums, edges, *more = yield (self.bad, *told, *measured)
        self.check(wrong)
        if plan.sides == 2:
            side, values = yield from self.sided(counts, sums, edges)
        else:
            side, values = np.zeros(len(most), np.int64), None
            ours = more or [edges[:, 0], edges[:, 0], sums[:, 0]]
            values = yield from self.magnitudes(counts[:, 0], ours, buckets, selected, base)
        sent = counts[np.arange(len(most)), side]
        starts = base + side * selected.room
        chosen = selected.positions
        return Choice(flat, layout, chosen, most, nominal, sent, base, starts, values, buckets)

    def magnitudes(
        self, found: np.ndarray, measured: list[np.ndarray], buckets: Buckets | None,
        selected: Chosen, base: np.ndarray,
    ) -> Waiting[np.ndarray | None]:  # fmt: skip
        """The numbers of entries of any sign."""
        if self.plan.way.number is None:
            yield ()
            return None
        counts = found if buckets is None else buckets.counts(found)
        values, certain = _numbers(self.plan.way, counts, measured)
        certain = certain | (counts == 0)
        chosen = (selected.positions, base, counts)
        return (yield from self.settled(values, certain, buckets, chosen))

    def sided(
        self, counts: np.ndarray, sums: np.ndarray, edges: np.ndarray
    ) -> Waiting[tuple[np.ndarray, np.ndarray | None]]:
        """The stronger side of each segment, and its mean where that is what a symbol means."""
        number, rows = self.plan.way.number, np.arange(len(counts))
        side, certain = numbers.stronger(sums, counts, edges)
        values = None
        if number is not None:
            found, edge = counts[rows, side], edges[rows, side]
            values, sure = numbers.of_sums(number, found, edge, edge, sums[rows, side])
            certain = certain & (sure | (found == 0))
            if self.plan.way.kind.number == kinds.SHARED:
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

    def settled(
        self, values: np.ndarray, certain: np.ndarray, buckets: Buckets | None,
        chosen: tuple[Tensor, np.ndarray, np.ndarray] | None,
    ) -> Waiting[np.ndarray]:  # fmt: skip
        """The numbers, those in doubt summed by the host: it waits once for all of their values."""
        number, places = self.plan.way.number, np.flatnonzero(~certain).tolist()
        assert number is not None
        parts = yield tuple(self.part(j, buckets, chosen) for j in places)
        for j, part in zip(places, parts, strict=True):
            values[j] = number.by_host(torch.from_numpy(part))
        return values

    def part(
        self, j: int, buckets: Buckets | None,
        chosen: tuple[Tensor, np.ndarray, np.ndarray] | None,
    ) -> Tensor:  # fmt: skip
        """The values that the j-th number is of."""
        s, first = (j, 0) if buckets is None else (
            buckets.segment[j], int(buckets.rank[j]) * buckets.size
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
        for flag, said in (
            (NOT_FINITE, "holds NaN or infinity: no message can carry it"),
            (OVERFLOWS, "and its memory overflow float32"),
        ):
            for s in np.flatnonzero(wrong & flag).tolist():
                name = self.names[s % len(self.names)]
                raise NotFinite(f"tensor {name!r} {said}")


def _buckets(way: Way, entries: Entries) -> Buckets | None:
    if way.bucket is None:
        return None
    return buckets_of(entries.most, way.bucket, entries.flat.device)


def _measured(way: Way, entries: Entries, buckets: Buckets | None) -> tuple[Tensor, ...]:
    """What the numbers follow from, still on the device."""
    number = way.number
    if number is None:
        return ()
    if number.clip is not None:
        return about_mean(entries)
    what = SQUARES if number.norm == "2" else MAGNITUDES
    if buckets is None:
        return measure(entries, what)
    return measure(buckets.cut(entries), what, buckets.layout)


def _numbers(
    way: Way, counts: np.ndarray, measured: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers, and which are certain."""
    assert way.number is not None
    if way.number.clip is not None:
        tops, spreads = measured
        return numbers.of_spreads(way.number.clip, counts, tops, spreads)
    tops, edges, sums = measured
    return numbers.of_sums(way.number, counts, tops, edges, sums)
