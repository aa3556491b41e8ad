"""Bytes to an update in one pass: positions and numbers first, then one vector for all tensors.

Nothing is said of what is wrong with a payload: the way is left, and the general one (``message``)
names it. No memory is taken for what a payload only claims to hold.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.base import Received, Tensors
from compressors.bits import SPANS
from compressors.kernels.segments import stream as streams
from compressors.kernels.segments.choose import LOW, SIZE, START, WANTED
from compressors.segments.layout import (
    HEADER,
    Layout,
    Part,
    cuts_of,
    inputs_of,
    layout_of,
    low_bits,
    split_vector,
)
from compressors.segments.room import empty_floats, zeros

FEW = 4
"""An update of which at most one entry in so many travelled is kept as these (``Decoded``)."""

_PLAIN = 2.0**-100
"""A product from which on no sum is rounded to -0: see ``weighted_sum``."""


class Headers(NamedTuple):
    """The fields of one part of a message before its symbols; see ``stream.parse_headers``.

    ``entries`` is how many travelled; ``positions`` which, of one segment after the other.
    """

    entries: int
    counts: np.ndarray
    bit_offsets: np.ndarray
    positions: np.ndarray | None
    numbers: np.ndarray


class Decoded(Mapping[str, Tensor]):
    """An update by name of which few entries travelled; its tensors are made when one is read.

    Args:
        names: of the tensors, in the order of the update.
        shapes: of the tensors.
        places: which entries travelled, in a vector of all tensors: int64 (k,), each once.
        values: the entries there: float32 (k,).

    Example:
        >>> places, values = np.array([1, 2]), np.array([3, 4], np.float32)
        >>> update = Decoded(("a", "b"), (torch.Size([2]), torch.Size([1, 2])), places, values)
        >>> update["b"], round(update.norm, 3)
        (tensor([[4., 0.]]), 5.0)
        >>> update.release()
        >>> update["b"]
        tensor([[4., 0.]])
    """

    def __init__(
        self,
        names: tuple[str, ...],
        shapes: Sequence[torch.Size],
        places: np.ndarray,
        values: np.ndarray,
    ) -> None:
        self.names, self.shapes = names, shapes
        self.places, self.values_sent = torch.from_numpy(places), torch.from_numpy(values)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors: float32, zero where nothing travelled."""
        flat = zeros(sum(shape.numel() for shape in self.shapes))
        flat[self.places.numpy()] = self.values_sent.numpy()
        return split_vector(flat, cuts_of(self.names, self.shapes))

    def release(self) -> None:
        """Frees the tensors; they are made again when one is read."""
        self.__dict__.pop("tensors", None)

    @property
    def norm(self) -> float:
        """The L2 norm of the entries alone: its last digits may differ from that of ``tensors``."""
        return math.sqrt(float(self.values_sent.double().square().sum()))

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names


def weighted_sum(
    names: Sequence[str],
    shapes: Sequence[torch.Size],
    updates: Iterable[Tensors],
    weights: Sequence[float],
) -> Tensor:
    """The weighted sum of updates: float32 (entries,) on the host, one tensor after the other.

    Each update is added with the bits of ``total.add_(x, alpha=weight)`` of torch, entry by entry.
    Only the entries that travelled are added, where they are few. Where nothing travelled, the
    dense sum adds 0, which changes nothing but -0 to 0. So a message of which a product is so small
    that the sum may become -0 is added whole, and so is a message after a sum that has a -0.

    Args:
        names: of the tensors.
        shapes: of the tensors.
        updates: of these names and shapes; each is read when those before it are added.
        weights: one for each update.

    Example:
        >>> weighted_sum(["w"], [torch.Size([2])], [{"w": torch.tensor([2.0, 4.0])}], [0.5])
        tensor([1., 2.])
    """
    total = torch.zeros(sum(x.numel() for x in shapes), dtype=torch.float32, device="cpu")
    was_dense = False  # whether the last update was added whole, so that -0 may be in the sum
    for update, weight in zip(updates, weights, strict=True):
        if isinstance(update, Decoded) and not (
            was_dense and bool((total.signbit() & (total == 0)).any())
        ):
            was_dense, places, values = False, update.places, update.values_sent
            if not len(values) or float(values.abs().min()) * weight >= _PLAIN:
                entries = total.index_select(0, places).add_(values, alpha=weight)
                total.scatter_(0, places, entries)
                continue
        start = 0
        for name, shape in zip(names, shapes, strict=True):
            part = total[start : start + shape.numel()].view(shape)
            part.add_(update[name].detach().cpu(), alpha=weight)
            start += shape.numel()
        was_dense = True
    return total


def decode(compressor: Any, payload: Any, template: Any) -> Received | None:
    """What a payload says; None where it does not go in one pass, or is not as it should be."""
    inputs = inputs_of(template, values=False)
    layout = None if inputs is None else layout_of(compressor, inputs.names, inputs.shapes)
    if layout is None or type(payload) is not bytes or not payload.startswith(layout.header):
        return None
    books = np.zeros(len(SPANS), np.int64)
    walked = parse_parts(layout, payload, books)
    if walked is None:
        return None
    few = FEW * sum([one.entries for one in walked]) <= layout.total
    update = (_entries if few else _tensors)(layout, payload, walked)
    return None if update is None else join_parts(layout, payload, books, update, walked)


def read_payload(layout: Layout, payload: bytes) -> dict[str, Tensor] | None:
    """The tensors in a payload that begins with the header of this layout."""
    walked = parse_parts(layout, payload, np.zeros(len(SPANS), np.int64))
    return None if walked is None else _tensors(layout, payload, walked)


def _entries(layout: Layout, payload: bytes, walked: list[Headers]) -> Decoded | None:
    """The entries that travelled, with their places in a vector of the whole update."""
    value_parts, places = list[np.ndarray](), list[np.ndarray]()
    for part, one in zip(layout.parts, walked, strict=True):
        if part.shared:
            values = one.numbers.repeat(one.counts)
        else:
            values = empty_floats(one.entries)
            where = values.ctypes.data + 4 * (np.cumsum(one.counts) - one.counts)
            if not _decode_symbols(payload, part, one, None, where):
                return None
        if one.positions is None:
            place = np.arange(one.entries)
        else:
            place = one.positions[: one.entries] + part.table[START].repeat(one.counts)
        if len(layout.parts) > 1:
            sizes = [shape.numel() for shape in layout.shapes]
            starts = dict(zip(layout.names, accumulate(sizes, initial=0), strict=False))
            origins = np.array([start for _, _, start, _ in part.cuts])
            shifts = np.array([starts[name] for name in part.names]) - origins
            filled = np.flatnonzero(part.sizes)
            place = place + shifts[filled][np.searchsorted(origins[filled], place, "right") - 1]
        value_parts.append(values)
        places.append(place)
    if len(value_parts) == 1:
        return Decoded(layout.names, layout.shapes, places[0], value_parts[0])
    joined = np.concatenate(places), np.concatenate(value_parts)
    return Decoded(layout.names, layout.shapes, *joined)


def _decode_symbols(
    payload: bytes, part: Part, one: Headers, positions: np.ndarray | None, where: np.ndarray
) -> bool:
    """Puts values at the addresses ``where``; False for one not finite, or an unknown symbol."""
    stream = np.frombuffer(payload, np.uint8)
    left, tail = stream.size % 8, np.zeros(3, np.uint64)  # what follows the whole words
    tail.view(np.uint8)[:left] = stream[stream.size - left :]
    factors = part.plan.scheme.factors(one.counts) if part.plan.scheme.factor else None
    fine: bool = streams.decode_segments(
        stream, tail, one.counts, one.bit_offsets, positions, where, one.numbers, part.form,
        part.alphabet, factors, None if part.shared else True, *part.symbols,
    )  # fmt: skip
    return fine


def _tensors(layout: Layout, payload: bytes, walked: list[Headers]) -> dict[str, Tensor] | None:
    """The update, tensor by tensor.

    None where a symbol is none of the method's, or a value is not finite.
    """
    update: dict[str, Tensor] = {}
    for part, one in zip(layout.parts, walked, strict=True):
        flat = (zeros if part.plan.sides else empty_floats)(part.total)
        where = flat.ctypes.data + part.segment_bytes
        if not _decode_symbols(payload, part, one, one.positions, where):
            return None
        update |= split_vector(flat, part.cuts)
    return {name: update[name] for name in layout.names} if len(walked) > 1 else update


def join_parts(
    layout: Layout, payload: bytes, books: np.ndarray, update: Tensors, walked: list[Headers]
) -> Received:
    """What was read; the counts are in the order of the update's tensors."""
    many: dict[str, int] = {}
    for part, one in zip(layout.parts, walked, strict=True):
        many |= counts_of(part, one.counts, one.positions)
    if len(walked) > 1:
        many = {name: many[name] for name in layout.names}
    spans = dict(zip(SPANS, books.tolist(), strict=True))
    spans["header"] += 8 * len(payload) - sum(spans.values())
    return Received(update, spans, many)


def parse_parts(layout: Layout, payload: bytes, books: np.ndarray) -> list[Headers] | None:
    """Reads all parts but their symbols; the bits by span are added to ``books``.

    None where the payload is cut, or longer than the message is.
    """
    stream, bits = np.frombuffer(payload, np.uint8), 8 * len(payload)
    position, walked = HEADER, []
    for part in layout.parts:
        table, segments = part.table, part.table.shape[1]
        counts, bit_offsets = np.zeros(segments, np.int64), np.zeros(segments, np.int64)
        _, number_bits, bucket = part.form
        slots = min(part.slots, bits // number_bits + 1) if bucket else part.slots
        numbers = np.full(slots, part.plan.scheme.constant, np.float32)  # before any is read
        positions, words = None, stream[:0].view(np.uint64)
        if part.plan.sides:
            positions = np.empty(min(part.k, bits), np.int64)  # each takes a bit or more
            padded = payload + bytes(16 - len(payload) % 8)
            words = np.frombuffer(padded, ">u8").astype(np.uint64)
        usual, at = table[WANTED], np.array([0, position, 0, 0])
        while True:
            position = streams.parse_headers(
                stream, words, at, table, usual, part.form, positions, counts, numbers,
                bit_offsets, books,
            )  # fmt: skip
            if position != streams.PAUSES:
                break
            if table is part.table:
                table, usual = table.copy(), usual.copy()
            s = int(at[0])
            usual[s] = counts[s]
            table[LOW, s] = low_bits(part.plan, int(counts[s]), int(table[SIZE, s]))
        if position < 0:
            return None
        walked.append(Headers(int(at[3]), counts, bit_offsets, positions, numbers))
    left = bits - position
    if left >= 8 or (left and payload[-1] & ((1 << left) - 1)):
        return None
    return walked


def counts_of(part: Part, counts: np.ndarray, positions: np.ndarray | None) -> dict[str, int]:
    """How many entries of each tensor travel.

    Args:
        part: the tensors.
        counts: how many of each segment.
        positions: which, of the first segment first; None where all do.
    """
    many = counts if part.plan.sides else part.sizes
    if positions is not None and part.plan.joined:
        until = [start for _, _, start, _ in part.cuts] + [part.total]
        many = np.diff(np.searchsorted(positions[: counts[0]], until))
    return dict(zip(part.names, many.tolist(), strict=True))
