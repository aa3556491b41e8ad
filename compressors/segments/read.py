"""Bytes to an update in one pass: positions and numbers first, then one vector for all tensors.

Nothing is said of what is wrong with a payload: the way is left, and the general one (``message``)
names it. No memory is taken for what a payload only claims to hold.
"""

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from compressors.bits import SPANS, Span
from compressors.kernels.segments import frame
from compressors.kernels.segments.choose import LOW, SIZE, WANTED
from compressors.kernels.segments.symbols import unfill
from compressors.segments.layout import (
    HEADER,
    Layout,
    Part,
    given,
    layout_of,
    low_bits,
)
from compressors.segments.room import address_of, floats, zeros

Read = tuple[dict[str, Tensor], dict[Span, int], dict[str, int]]
"""An update, where its bits went, and how many entries of each tensor travelled."""


class Walked(NamedTuple):
    """What is read for one part of a message before its symbols; see ``frame.walk``.

    ``end`` is the bit after the last, ``positions`` those of all segments one after the other.
    """

    end: int
    found: np.ndarray
    begins: np.ndarray
    positions: np.ndarray | None
    numbers: np.ndarray


def decode(compressor: Any, payload: Any, like: Any) -> Read | None:
    """What a payload says; None where it does not go in one pass, or is not as it should be."""
    own = given(like, values=False)
    layout = None if own is None else layout_of(compressor, own.names, own.shapes)
    if layout is None or type(payload) is not bytes or not payload.startswith(layout.header):
        return None
    return read(layout, payload)


def read(layout: Layout, payload: bytes) -> Read | None:
    """``decode`` of a payload that begins with the header of this layout."""
    books = np.zeros(len(SPANS), np.int64)
    walked = walk(layout, payload, books)
    if walked is None:
        return None
    stream = np.frombuffer(payload, np.uint8)
    left, tail = stream.size % 8, np.zeros(3, np.uint64)
    tail.view(np.uint8)[:left] = stream[stream.size - left :]
    update: dict[str, Tensor] = {}
    for part, one in zip(layout.parts, walked, strict=True):
        flat = (zeros if part.plan.sides else floats)(part.total)
        where = address_of(flat) + part.segment_bytes
        fine = unfill(
            stream, tail, one.found, one.begins, one.positions, where, one.numbers, part.form,
            part.alphabet, part.factors(one.found), None if part.shared else True, *part.symbols,
        )  # fmt: skip
        if not fine:
            return None
        update |= part.cut(flat)
    return told(layout, payload, books, update, walked)


def told(
    layout: Layout, payload: bytes, books: np.ndarray, update: dict[str, Tensor],
    walked: list[Walked],
) -> Read:  # fmt: skip
    """What was read, in the order of the update's tensors."""
    many: dict[str, int] = {}
    for part, one in zip(layout.parts, walked, strict=True):
        many |= counts_of(part, one.found, one.positions)
    if len(walked) > 1:
        update = {name: update[name] for name in layout.names}
        many = {name: many[name] for name in layout.names}
    spans = dict(zip(SPANS, books.tolist(), strict=True))
    spans["header"] += 8 * len(payload) - sum(spans.values())
    return update, spans, many


def walk(layout: Layout, payload: bytes, books: np.ndarray) -> list[Walked] | None:
    """Reads all parts but their symbols; the bits by span are added to ``books``.

    None where the payload is cut, or longer than the message is.
    """
    stream, bits = np.frombuffer(payload, np.uint8), 8 * len(payload)
    position, walked = HEADER, []
    for part in layout.parts:
        table, segments = part.table, part.table.shape[1]
        found, begins = np.zeros(segments, np.int64), np.zeros(segments, np.int64)
        _, number_bits, bucket = part.form
        slots = min(part.slots, bits // number_bits + 1) if bucket else part.slots
        numbers, positions, words = part.numbers(slots), None, stream[:0].view(np.uint64)
        if part.plan.sides:
            positions = np.empty(min(part.wanted, bits), np.int64)  # each takes a bit or more
            padded = payload + bytes(16 - len(payload) % 8)
            words = np.frombuffer(padded, ">u8").astype(np.uint64)
        usual, at = table[WANTED], np.array([0, position, 0, 0])
        while True:
            position = frame.walk(
                stream, words, at, table, usual, part.form, positions, found, numbers, begins, books
            )
            if position != frame.PAUSES:
                break
            if table is part.table:
                table, usual = table.copy(), usual.copy()
            s = int(at[0])
            usual[s] = found[s]
            table[LOW, s] = low_bits(part.plan, int(found[s]), int(table[SIZE, s]))
        if position < 0:
            return None
        walked.append(Walked(position, found, begins, positions, numbers))
    left = bits - position
    if left >= 8 or (left and payload[-1] & ((1 << left) - 1)):
        return None
    return walked


def counts_of(part: Part, found: np.ndarray, positions: np.ndarray | None) -> dict[str, int]:
    """How many entries of each tensor travel.

    Args:
        part: the tensors.
        found: how many of each segment.
        positions: which, of the first segment first; None where all do.
    """
    many = found if part.plan.sides else part.sizes
    if positions is not None and part.plan.joined:
        until = [start for _, _, start, _ in part.cuts] + [part.total]
        many = np.diff(np.searchsorted(positions[: found[0]], until))
    return dict(zip(part.names, many.tolist(), strict=True))
