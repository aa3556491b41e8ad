"""An update to bytes in one pass: chosen, coded, and the rest kept, by loops over segments.

Nothing is said of what is wrong with an update or a memory: the way is left, and the general one
(``message``) names it.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.arguments import check_finite, seed_of
from compressors.base import ALL, LazyPacket, Sent, SentTensor, State, tensor_seed
from compressors.bits import SPANS
from compressors.kernels.segments import choose, stream
from compressors.kernels.segments.choose import BASE, LOW, SIZE, START, WANTED
from compressors.segments.layout import (
    HEADER,
    Cut,
    Inputs,
    Layout,
    Part,
    inputs_of,
    layout_of,
    low_bits,
    split_vector,
)
from compressors.segments.read import counts_of, read_payload
from compressors.segments.room import Stream, empty_floats


@dataclass(eq=False)
class Selection:
    """The content of one part of a message, before it is written.

    Args:
        part: whose.
        seed: of its noise.
        flat: its tensors plus their memory as one vector, of which the residual will be left; None
            where the tensors are read where they lie.
        where: addresses of its segments: int64 (segments,).
        table: as ``part.table``, except the low bits of segments that send another number.
        found: how many entries each segment sends.
        positions: which, from BASE of each on: int64; None where all are sent.
        values: the entries there, and in the end what the receiver will see; None as there.
        sources: addresses of the values that are coded: int64 (segments,).
        numbers, decoded: what symbols are multiples of, and as the receiver knows it.
        most: bits that it takes at most.
    """

    part: Part
    seed: int
    flat: np.ndarray | None
    where: np.ndarray
    table: np.ndarray
    counts: np.ndarray
    positions: np.ndarray | None
    values: np.ndarray | None
    sources: np.ndarray
    numbers: np.ndarray
    decoded: np.ndarray
    capacity: int


class HostMessage(LazyPacket):
    """A message of one pass, with what ``sent`` is made of."""

    layout: Layout
    as_is: dict[str, Tensor]
    chosen: list[Selection]

    @cached_property
    def counts(self) -> dict[str, int]:
        many: dict[str, int] = {}
        for choice in self.chosen:
            many |= counts_of(choice.part, choice.counts, choice.positions)
        return {name: many[name] for name in self.layout.names}

    @cached_property
    def indices(self) -> dict[str, Tensor]:
        indices = {}
        for choice in self.chosen:
            if choice.positions is not None:
                positions, joined = torch.from_numpy(choice.positions), choice.part.plan.joined
                for cut, start, end in self._runs(choice):
                    places = positions[start:end]
                    indices[cut.name] = places - cut.start if joined else places
        return indices

    def _runs(self, choice: Selection) -> list[tuple[Cut, int, int]]:
        """Which part of the positions and values of ``choice`` is each tensor's."""
        cuts, counts = choice.part.cuts, self.counts
        if choice.part.plan.joined:
            ends = [*accumulate(counts[cut.name] for cut in cuts)]
            return [*zip(cuts, [0, *ends], ends, strict=False)]
        starts = choice.part.table[BASE].tolist()  # a tensor without entries is sent as it is
        return [
            (cut, start, start + counts[cut.name])
            for cut, start in zip(cuts, starts, strict=True)
            if cut.stop > cut.start
        ]

    @cached_property
    def sent(self) -> Sent:
        sent: Sent = {}
        for choice in self.chosen:
            if choice.values is not None:
                values = torch.from_numpy(choice.values)
                for (name, shape, _, _), start, end in self._runs(choice):
                    size = torch.Size(shape)
                    sent[name] = SentTensor(values[start:end], self.indices[name], size)
        dense = {n: x.detach() for n, x in self.as_is.items()}
        shapes = dict(zip(self.layout.names, self.layout.shapes, strict=True))
        others = [name for name in shapes if name not in sent and name not in dense]
        if any(shapes[name].numel() for name in others):
            decoded = read_payload(self.layout, self.payload)
            assert decoded is not None, "a message of our own cannot be read"
            dense = decoded | dense
        else:  # nothing has to be read
            dense |= {
                name: torch.zeros(shapes[name], dtype=torch.float32, device="cpu")
                for name in others
            }
        return {
            name: sent[name] if name in sent else SentTensor(dense[name], ALL, shape)
            for name, shape in shapes.items()
        }


def encode(compressor: Any, update: Any, state: State | None, seed: Any) -> HostMessage | None:
    """The message that carries ``update``; None where it does not go in one pass."""
    inputs = inputs_of(update)
    layout = None if inputs is None else layout_of(compressor, inputs.names, inputs.shapes)
    if inputs is None or layout is None:
        return None
    seed = seed & 0xFFFFFFFF if type(seed) is int else seed_of(seed)
    if state is None and layout.held and not layout.begun:
        check_finite(update)
        compressor.init(update)  # which refuses sizes around which a memory would grow
        layout.begun = True
    residuals = layout.residuals(state)
    if residuals is None:
        return None
    memory = np.array(residuals, np.int64)
    chosen, capacity = [], HEADER
    for part in layout.parts:
        choice = _choose(part, inputs, memory, seed)
        if choice is None:
            return None
        chosen.append(choice)
        capacity += choice.capacity
    room = Stream(capacity)
    words, position, books = room.words, HEADER, np.zeros(len(SPANS), np.int64)
    words.view(np.uint8)[: HEADER // 8] = np.frombuffer(layout.header, np.uint8)
    after: State = {}
    as_is: dict[str, Tensor] = {}
    for choice in chosen:
        part, bit_offsets = choice.part, np.empty(len(choice.counts), np.int64)
        position = stream.write_headers(
            words,
            position,
            choice.table,
            choice.positions,
            choice.counts,
            choice.decoded,
            part.form,
            bit_offsets,
            books,
        )
        fine = part.shared or stream.encode_segments(
            words,
            choice.table,
            choice.counts,
            bit_offsets,
            choice.positions,
            choice.sources,
            choice.where,
            part.plan.keeps,
            choice.seed,
            choice.numbers,
            choice.decoded,
            part.form,
            part.plan.scheme.factors(choice.counts) if part.plan.scheme.factor else None,
            *part.symbols,
        )
        if not fine:
            return None
        if choice.flat is not None:
            after |= split_vector(choice.flat, part.residual_cuts)
        if part.as_is:
            as_is |= {name: update[name] for name in part.names}
        choice.flat = None
    if len(chosen) > 1:
        after = {key: after[key] for key, _ in layout.held}
    del words
    payload = room.close((position + 7) // 8)
    spans = dict(zip(SPANS, books.tolist(), strict=True))
    spans["header"] += 8 * len(payload) - sum(spans.values())
    return HostMessage(
        payload=payload, spans=spans, state=after, layout=layout, as_is=as_is, chosen=chosen
    )


def _choose(part: Part, inputs: Inputs, memory: np.ndarray, seed: int) -> Selection | None:
    """What a part sends; None where a value, or a sum with the memory, is not finite.

    ``memory``: addresses of the update's residuals, as ``choose.add_residuals`` takes them.
    """
    plan, table, addresses = part.plan, part.table, np.array(inputs.addresses, np.int64)
    if part.rule >= 0:
        seed = tensor_seed(seed, part.rule)
        addresses, memory = addresses[part.tensors], memory[part.tensors]
    flat, where = None, addresses
    sums = plan.sides > 0 and plan.keeps and not plan.joined  # made while they are chosen from
    if plan.keeps or plan.joined:
        flat = empty_floats(part.total)
        start = flat.ctypes.data
        where = start + part.segment_bytes
        if not sums:
            choose.add_residuals(addresses, memory, start + part.tensor_bytes, part.sizes)
    numbers = np.full(part.slots, plan.scheme.constant, np.float32)  # known to both ends
    doubts, doubtful = np.zeros(part.slots, np.uint8), 0
    counts, positions, values, sources, capacity = table[SIZE], None, None, where, part.capacity
    if plan.sides:
        counts = np.zeros(len(counts), np.int64)
        positions, values = np.empty(part.k, np.int64), np.empty(part.k, np.float32)
        odd, doubtful = choose.choose_entries(
            addresses, memory, where, sums, table, True if plan.sides == 1 else None,
            True if plan.sides == 2 else None, part.shared, plan.keeps, positions, values, counts,
            numbers, doubts,
        )  # fmt: skip
        if odd < 0:
            return None
        sources = values.ctypes.data + part.chosen_bytes
        if odd:
            table = table.copy()
            for s in np.flatnonzero(counts != table[WANTED]).tolist():
                k, n = int(counts[s]), int(table[SIZE, s])
                table[LOW, s] = low = low_bits(plan, k, n)
                capacity += 2 * (k + 1).bit_length() + k * (1 + low) + (n >> low)
    decoded = numbers
    if part.measure is not None:
        powers = plan.scheme.powers
        decoded = numbers.copy() if powers else numbers
        doubtful = choose.measure_scales(
            sources,
            counts,
            part.form[2],
            *part.measure,
            seed if powers else -1,
            numbers,
            decoded,
            doubts,
        )
        if doubtful < 0:
            return None
    choice = Selection(
        part, seed, flat, where, table, counts, positions, values, sources, numbers, decoded,
        capacity,
    )  # fmt: skip
    if doubtful:
        for s in np.flatnonzero(doubts).tolist():
            _settle(choice, inputs, s)
    return choice


def _settle(one: Selection, inputs: Inputs, s: int) -> None:
    """The mean of segment ``s`` as numpy finds it."""
    part, table = one.part, one.table
    number, base, start = part.plan.scheme.number, int(table[BASE, s]), int(table[START, s])
    assert number is not None
    sent = slice(base, base + int(one.counts[s]))
    if one.values is not None:
        x = torch.from_numpy(one.values[sent])
    elif one.flat is not None:
        x = torch.from_numpy(one.flat[start : start + int(one.counts[s])])
    else:
        x = inputs.tensors[part.tensors[s]].detach().reshape(-1)
    one.numbers[s] = number.by_host(x)
    if part.shared and one.values is not None and one.positions is not None:
        # ``choose`` has left them as they were
        one.values[sent] = one.numbers[s]
        if part.residual_cuts and one.flat is not None:
            one.flat[start + one.positions[sent]] -= one.numbers[s]
