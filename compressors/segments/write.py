"""An update to bytes in one pass: chosen, coded, and the rest kept, by loops over segments.

Nothing is said of what is wrong with an update or a memory: the way is left, and the general one
(``message``) names it.
"""

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
        numbers, decoded: what symbols are multiples of, and as the receiver knows it.
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
    decoded: np.ndarray
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
        for choice in self.chosen:
            many |= counts_of(choice.part, choice.found, choice.positions)
        return {name: many[name] for name in self.layout.names}

    def sent(self) -> Sent:
        """What the receiver will see of each tensor."""
        sent: Sent = {}
        for choice in self.chosen:
            part, where = choice.part, choice.positions
            if where is None or choice.values is None:
                continue
            values, positions = torch.from_numpy(choice.values), torch.from_numpy(where)
            many, end, joined = counts_of(part, choice.found, where), 0, part.plan.joined
            for j, (name, size, offset, _) in enumerate(part.cuts):
                shape = torch.Size(size)
                start = end if joined else int(choice.table[BASE, j])
                end = start + many[name]
                if shape.numel() or joined:
                    places = positions[start:end] - offset if joined else positions[start:end]
                    sent[name] = SentTensor(values[start:end], places, shape)
                else:
                    none = torch.zeros(shape, dtype=torch.float32, device="cpu")
                    sent[name] = SentTensor(none, ALL, shape)
        dense = self.as_is
        if len(sent) + len(dense) < len(self.layout.names):
            decoded = read(self.layout, self.payload)
            assert decoded is not None, "a message of our own cannot be read"
            dense = decoded[0] | dense
        for name, shape in zip(self.layout.names, self.layout.shapes, strict=True):
            if name not in sent:
                sent[name] = SentTensor(dense[name].detach(), ALL, shape)
        return {name: sent[name] for name in self.layout.names}


def encode(compressor: Any, update: Any, state: State | None, seed: Any) -> Written | None:
    """The message that carries ``update``; None where it does not go in one pass."""
    own = given(update)
    layout = None if own is None else layout_of(compressor, own.names, own.shapes)
    if own is None or layout is None:
        return None
    seed = seed_of(seed)
    if state is None and layout.held and not layout.begun:
        check_finite(update)
        compressor.init(update)  # which refuses sizes around which a memory would grow
        layout.begun = True
    kept = layout.residuals(state)
    if kept is None:
        return None
    memory = np.array(kept[0], np.int64)
    chosen, most = [], HEADER
    for part in layout.parts:
        choice = _choose(part, own, memory, seed)
        if choice is None:
            return None
        chosen.append(choice)
        most += choice.most
    stream = Stream(most)
    words, position, books = stream.words, HEADER, np.zeros(len(SPANS), np.int64)
    words.view(np.uint8)[: HEADER // 8] = np.frombuffer(layout.header, np.uint8)
    rest: State = {}
    as_is: dict[str, Tensor] = {}
    for choice in chosen:
        part, begins = choice.part, np.empty(len(choice.found), np.int64)
        position = frame.write(
            words, position, choice.table, choice.positions, choice.found, choice.decoded,
            part.form, begins, books,
        )  # fmt: skip
        fine = part.shared or fill(
            words, choice.table, choice.found, begins, choice.positions, choice.sources,
            choice.where, part.plan.keeps, choice.seed, choice.numbers, choice.decoded, part.form,
            part.factors(choice.found), *part.symbols,
        )  # fmt: skip
        if not fine:
            return None
        if part.keys and choice.flat is not None:
            rest |= zip(part.keys, part.cut(choice.flat).values(), strict=True)
        if part.as_is:
            as_is |= {name: update[name] for name in part.names}
        choice.flat = None
    if len(chosen) > 1:
        rest = {key: rest[key] for key, _ in layout.held}
    del words
    payload = stream.close((position + 7) // 8)
    spans = dict(zip(SPANS, books.tolist(), strict=True))
    spans["header"] += 8 * len(payload) - sum(spans.values())
    return Written(payload, spans, rest, layout, as_is, chosen)


def _choose(part: Part, own: Given, memory: np.ndarray, seed: int) -> Chosen | None:
    """What a part sends; None where a value, or a sum with the memory, is not finite.

    ``memory``: addresses of the update's residuals, as ``choose.add`` takes them.
    """
    plan, table, addresses = part.plan, part.table, np.array(own.addresses, np.int64)
    if part.rule >= 0:
        seed = tensor_seed(seed, part.rule)
        addresses, memory = addresses[part.tensors], memory[part.tensors]
    flat, where = None, addresses
    sums = plan.sides > 0 and plan.keeps and not plan.joined  # made while they are chosen from
    if plan.keeps or plan.joined:
        flat = floats(part.total)
        start = address_of(flat)
        where = start + part.segment_bytes
        if not sums:
            choose.add(addresses, memory, start + part.tensor_bytes, part.sizes)
    numbers, doubts, doubtful = part.numbers(part.slots), np.zeros(part.slots, np.uint8), 0
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
    decoded = numbers
    if part.measure is not None:
        powers = plan.way.powers
        decoded = numbers.copy() if powers else numbers
        doubtful = choose.measure(
            sources, found, part.form[2], *part.measure, seed if powers else -1, numbers, decoded,
            doubts,
        )  # fmt: skip
        if doubtful < 0:
            return None
    choice = Chosen(
        part, seed, flat, where, table, found, positions, values, sources, numbers, decoded, most
    )
    if doubtful:
        for s in np.flatnonzero(doubts).tolist():
            _settle(choice, own, s)
    return choice


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
