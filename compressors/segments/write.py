"""An update to bytes in one pass: chosen, coded, and the rest kept, by loops over segments.

Nothing is said of what is wrong with an update or a memory: the way is left, and the general one
(``message``) names it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, Sent, SentTensor, State, tensor_seed
from compressors.bits import SPANS, Span
from compressors.given import check_finite, seed_of
from compressors.kernels.segments import choose, frame
from compressors.kernels.segments.choose import BASE, LOW, SIZE, START, WANTED
from compressors.kernels.segments.symbols import fill
from compressors.segments.layout import (
    HEADER,
    Given,
    Layout,
    Part,
    given,
    layout_of,
    low_bits,
)
from compressors.segments.read import counts_of, read
from compressors.segments.room import Stream, address_of, floats


@dataclass(eq=False)
class Chosen:
    """What one part of a message sends, before it is written.

    Args:
        part: whose.
        seed: of its noise.
        flat: its tensors plus their memory as one vector, of which the residual will be left; None
            where the tensors are read where they lie.
        where: addresses of its segments: int64 (segments,).
        table: as ``part.table``, but for the low bits of segments that send another number.
        found: how many entries each segment sends.
        positions: which, from BASE of each on: int64; None where all are sent.
        values: the entries there, and in the end what the receiver will see; None likewise.
        sources: addresses of the values that are coded: int64 (segments,).
        numbers, told: what symbols are multiples of, and as the receiver knows it.
        most: bits that it takes at most.
    """

    part: Part
    seed: int
    flat: np.ndarray | None
    where: np.ndarray
    table: np.ndarray
    found: np.ndarray
    positions: np.ndarray | None
    values: np.ndarray | None
    sources: np.ndarray
    numbers: np.ndarray
    told: np.ndarray
    most: int


@dataclass(eq=False)
class Written:
    """A message: its bytes, their account, and the memory from now on.

    What the receiver will see is made when it is asked for.
    """

    payload: bytes
    spans: dict[Span, int]
    state: State
    layout: Layout
    as_is: dict[str, Tensor]
    chosen: list[Chosen]

    def counts(self) -> dict[str, int]:
        """How many entries of each tensor travel."""
        many: dict[str, int] = {}
        for one in self.chosen:
            many |= counts_of(one.part, one.found, one.positions)
        return {name: many[name] for name in self.layout.names}

    def sent(self) -> Sent:
        """What the receiver will see of each tensor."""
        sparse: Sent = {}
        for one in self.chosen:
            if one.values is not None and one.positions is not None:
                sparse |= _sparse(one, one.values, one.positions)
        dense = self.as_is
        if len(sparse) + len(dense) < len(self.layout.names):
            found = read(self.layout, self.payload)
            assert found is not None, "a message of our own cannot be read"
            dense = found[0] | dense
        return {
            name: sparse[name] if name in sparse else SentTensor(dense[name].detach(), ALL, shape)
            for name, shape in zip(self.layout.names, self.layout.shapes, strict=True)
        }


def encode(compressor: Any, update: Any, state: State | None, seed: Any) -> Written | None:
    """The message that carries ``update``; None where it does not go in one pass."""
    own = given(update)
    layout = None if own is None else layout_of(compressor, own.names, own.shapes)
    if own is None or layout is None:
        return None
    seed = seed_of(seed)
    if state is None and layout.keys and not layout.begun:
        check_finite(update)
        compressor.init(update)  # which refuses sizes around which a memory would grow
        layout.begun = True
    kept = _kept(layout, state)
    if kept is None:
        return None
    chosen = []
    for part in layout.parts:
        one = _choose(part, own, kept[0], seed)
        if one is None:
            return None
        chosen.append(one)
    written = _put(layout, chosen)
    if written is None:
        return None
    rest: State = {}
    as_is: dict[str, Tensor] = {}
    for one in chosen:
        if one.part.keys and one.flat is not None:
            rest |= zip(one.part.keys, one.part.cut(one.flat).values(), strict=True)
        if one.part.as_is:
            as_is |= {name: update[name] for name, *_ in one.part.cuts}
        one.flat = None
    if len(chosen) > 1:
        rest = {key: rest[key] for key in layout.keys}
    return Written(*written, rest, layout, as_is, chosen)


def _kept(layout: Layout, state: Any) -> tuple[list[int], list[Tensor]] | None:
    """The addresses of the update's residuals, in its order, and what keeps them.

    0 for one of zeros, -1 for none. None where the memory is not that of the layout.
    """
    found, held = [-1] * len(layout.names), []
    if state is not None and (type(state) is not dict or len(state) != len(layout.keys)):
        return None
    for part in layout.parts:
        for i, key in zip(part.tensors, part.keys, strict=False):
            x = None if state is None else state.get(key)
            if x is not None:
                if type(x) is not Tensor or x.dtype is not torch.float32 or not x.is_cpu:
                    return None
                if x.shape != layout.shapes[i] or not x.is_contiguous() or x.is_neg():
                    return None
                held.append(x)
                found[i] = x.data_ptr()
            elif state is None:
                found[i] = 0
            else:
                return None
    return found, held


def _choose(part: Part, own: Given, kept: list[int], seed: int) -> Chosen | None:
    """What a part sends; None where a value, or a sum with the memory, is not finite."""
    plan, table, all_of = part.plan, part.table, own.addresses
    if part.rule >= 0:
        seed = tensor_seed(seed, part.rule)
        all_of, kept = ([many[i] for i in part.tensors] for many in (own.addresses, kept))
    addresses, memory = np.array(all_of, np.int64), np.array(kept, np.int64)
    flat, where = None, addresses
    sums = plan.sides > 0 and plan.keeps and not plan.joined  # made while they are chosen from
    if plan.keeps or plan.joined:
        flat = floats(part.total)
        start = address_of(flat)
        where = start + part.segment_bytes
        if not sums:
            choose.add(addresses, memory, start + part.tensor_bytes, part.sizes)
    numbers, doubts, doubtful = part.numbers.copy(), np.zeros(part.numbers.size, np.uint8), 0
    found, positions, values, sources, most = table[SIZE], None, None, where, part.most
    if plan.sides:
        found = np.zeros(len(found), np.int64)
        positions, values = np.empty(part.wanted, np.int64), np.empty(part.wanted, np.float32)
        odd, doubtful = choose.choose(
            addresses, memory, where, sums, table, True if plan.sides == 1 else None,
            True if plan.sides == 2 else None, part.shared, plan.keeps, positions, values, found,
            numbers, doubts,
        )  # fmt: skip
        if odd < 0:
            return None
        sources = address_of(values) + part.chosen_bytes
        if odd:
            table = table.copy()
            for s in np.flatnonzero(found != table[WANTED]).tolist():
                k, n = int(found[s]), int(table[SIZE, s])
                table[LOW, s] = low = low_bits(plan, k, n)
                most += 2 * (k + 1).bit_length() + k * (1 + low) + (n >> low)
    told = numbers
    if part.measure is not None:
        powers = plan.way.powers
        told = numbers.copy() if powers else numbers
        doubtful = choose.measure(
            sources, found, part.form[2], *part.measure, seed if powers else -1, numbers, told,
            doubts,
        )  # fmt: skip
        if doubtful < 0:
            return None
    one = Chosen(
        part, seed, flat, where, table, found, positions, values, sources, numbers, told, most
    )
    if doubtful:
        for s in np.flatnonzero(doubts).tolist():
            _settle(one, own, s)
    return one


def _settle(one: Chosen, own: Given, s: int) -> None:
    """The mean of segment ``s`` as numpy finds it."""
    part, table = one.part, one.table
    number, base, start = part.plan.way.number, int(table[BASE, s]), int(table[START, s])
    assert number is not None
    sent = slice(base, base + int(one.found[s]))
    if one.values is not None:
        x = torch.from_numpy(one.values[sent])
    elif one.flat is not None:
        x = torch.from_numpy(one.flat[start : start + int(one.found[s])])
    else:
        x = own.tensors[part.tensors[s]].detach().reshape(-1)
    one.numbers[s] = number.by_host(x)
    if part.shared and one.values is not None and one.positions is not None:
        # ``choose`` has left them as they were
        one.values[sent] = one.numbers[s]
        if part.keys and one.flat is not None:
            one.flat[start + one.positions[sent]] -= one.numbers[s]


def _put(layout: Layout, chosen: list[Chosen]) -> tuple[bytes, dict[Span, int]] | None:
    """The bytes of a message and their account; None where a value is not finite."""
    stream = Stream(HEADER + sum([one.most for one in chosen]))
    words = stream.words
    words.view(np.uint8)[: HEADER // 8] = np.frombuffer(layout.header, np.uint8)
    position, books = HEADER, np.zeros(len(SPANS), np.int64)
    for one in chosen:
        part, begins = one.part, np.empty(len(one.found), np.int64)
        position = frame.write(
            words, position, one.table, one.positions, one.found, one.told, part.form, begins, books
        )
        fine = part.shared or fill(
            words, one.table, one.found, begins, one.positions, one.sources, one.where,
            part.plan.keeps, one.seed, one.numbers, one.told, part.form, part.factors(one.found),
            *part.symbols,
        )  # fmt: skip
        if not fine:
            return None
    del words
    payload = stream.close((position + 7) // 8)
    spans = dict(zip(SPANS, books.tolist(), strict=True))
    spans["header"] += 8 * len(payload) - sum(spans.values())
    return payload, spans


def _sparse(
    one: Chosen, sent: np.ndarray, where: np.ndarray
) -> Iterator[tuple[str, SentTensor]]:
    """What travels of each tensor of which not all does."""
    values, positions = torch.from_numpy(sent), torch.from_numpy(where)
    many = counts_of(one.part, one.found, where)
    end = 0
    for j, (name, size, offset, _) in enumerate(one.part.cuts):
        shape, start = torch.Size(size), end
        if one.part.plan.joined:
            end += many[name]
            places = positions[start:end] - offset
        else:
            start = int(one.table[BASE, j])
            end = start + many[name]
            places = positions[start:end]
        if shape.numel() or one.part.plan.joined:
            yield name, SentTensor(values[start:end], places, shape)
        else:
            yield name, SentTensor(torch.zeros(shape), ALL, shape)
