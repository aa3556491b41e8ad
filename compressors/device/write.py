"""Messages of updates on a GPU: the same bytes as the host's, made where the updates lie.

The host waits for the device twice: for what was chosen and its sums, and for the finished bits. A
third time where a sum is in doubt (``compressors.device.numbers``). The number of tensors plays no
part, nor does that of the messages, nor that of the rules of ``by_name``, which wait together: the
segments of several messages are as many times the tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, LazyPacket, Sent, SentTensor, State, tensor_seed
from compressors.bits import SPANS, BitWriter
from compressors.device.layout import BitStream, encode_streams
from compressors.device.read import decode_on_device
from compressors.device.select import Choice, T, Waiting, choose
from compressors.errors import NotFinite
from compressors.grammar import short_text
from compressors.kernels.gpu.layout import cut, fetch, on, pieces, send, upload
from compressors.segments.plan import Plan, Rules, plan_of
from compressors.segments.room import Stream
from compressors.whole.memory import nest, recall, unnest


class Begun(NamedTuple):
    """A message to be made of an ``update``, with the memory before, its seed and its header."""

    update: dict[str, Tensor]
    state: State
    seed: int
    header: bytes


@dataclass(frozen=True, eq=False)
class MessagePart:
    """The tensors of one message that one plan is for.

    Args:
        plan: their method.
        update: the tensors.
        residual: their residual, or None.
        seed: of their noise.
    """

    plan: Plan
    update: dict[str, Tensor]
    residual: dict[str, Tensor] | None
    seed: int


@dataclass(frozen=True, eq=False)
class Done:
    """One plan's bits, and what goes with them.

    Args:
        part: whose.
        choice: what is sent, of several messages.
        segments: which of the choice's segments are this message's.
        stream: the bits.
        residual: of the tensors; of none: empty.
    """

    part: MessagePart
    choice: Choice
    segments: slice
    stream: BitStream
    residual: dict[str, Tensor]

    def counts(self) -> dict[str, int]:
        """How many entries of each tensor travel."""
        many = self.choice.counts[self.segments]
        if self.part.plan.joined:
            sizes = [x.numel() for x in self.part.update.values()]
            many = np.diff(self.stream.more[0], prepend=0) if self.stream.more else np.array(sizes)
        return dict(zip(self.part.update, many.tolist(), strict=True))

    def sent(self) -> Sent:
        """What the receiver will see of tensors of which not every entry travels."""
        choice, values, positions = self.choice, self.stream.values, self.choice.positions
        if positions is None or values is None:
            return {}
        update, counts = self.part.update, self.counts()
        symbol_offsets = choice.symbol_offsets[self.segments].tolist()
        origins = choice.origins[self.segments].tolist()
        if self.part.plan.joined:
            starts = np.cumsum([0, *(x.numel() for x in update.values())])[:-1].tolist()
            ends = np.cumsum([*counts.values()]).tolist()
            before = [end - count for end, count in zip(ends, counts.values(), strict=True)]
            symbol_offsets = [symbol_offsets[0] + x for x in before]
            origins = [origins[0] + x for x in before]
        places = pieces(positions, origins, [*counts.values()])
        parts = pieces(values, symbol_offsets, [*counts.values()])
        sent: Sent = {}
        for j, (name, x) in enumerate(update.items()):
            if not (x.numel() or self.part.plan.joined):
                sent[name] = SentTensor(torch.zeros_like(x), ALL, x.shape)
                continue
            where = places[j] - starts[j] if self.part.plan.joined else places[j]
            sent[name] = SentTensor(parts[j], where, x.shape)
        return sent


class DeviceMessage(LazyPacket):
    """A message of kernels, with what ``sent`` is made of."""

    compressor: Any
    update: dict[str, Tensor]
    done: list[Done]

    @property
    def counts(self) -> dict[str, int]:
        """How many entries of each tensor travel."""
        many = {name: count for one in self.done for name, count in one.counts().items()}
        return {name: many[name] for name in self.update}

    @cached_property
    def sent(self) -> Sent:
        """What the receiver will see of each tensor."""
        sent = {name: tensor for one in self.done for name, tensor in one.sent().items()}
        if len(sent) < len(self.update):
            delivery = decode_on_device(self.compressor, self.payload, self.update)
            if delivery is None:
                raise NotFinite(f"what arrives by {short_text(self.compressor)} overflows float32")
            dense = delivery[0]
            sent = {n: SentTensor(x, ALL, x.shape) for n, x in dense.items()} | sent
        return {name: sent[name] for name in self.update}


def write_messages(compressor: Any, begun: Sequence[Begun]) -> list[DeviceMessage]:
    """The messages of updates of the same names and shapes, whose tensors lie on one device.

    Raises ``UpdateError`` where a tensor, or its sum with the memory, holds NaN or infinity, and
    where a memory belongs to another model.
    """
    plan = plan_of(compressor)
    with on(next(iter(begun[0].update.values())).device):
        if isinstance(plan, Plan):
            parts = [
                MessagePart(plan, update, _recalled(update, state) if plan.keeps else None, seed)
                for update, state, seed, _ in begun
            ]
            return [
                DeviceMessage(
                    compressor=compressor,
                    payload=_payload(one.stream, header),
                    spans=one.stream.spans,
                    state=nest("residual", one.residual),
                    update=update,
                    done=[one],
                )
                for (update, _, _, header), one in zip(
                    begun, *together([_written(parts)]), strict=True
                )
            ]
        assert plan is not None, "a method without kernels"
        return _by_rules(compressor, plan, begun)


def _payload(stream: BitStream, header: bytes) -> bytes:
    """The header and the bits, to a whole byte: written once, to the memory of the message."""
    size = len(header) + (stream.bits + 7) // 8
    room = Stream(8 * size)
    content = room.words.view(np.uint8)
    content[: len(header)] = np.frombuffer(header, np.uint8)
    content[len(header) : size] = stream.words.view(np.uint8)[: size - len(header)]
    del content
    return room.close(size)


def _by_rules(compressor: Any, rules: Rules, begun: Sequence[Begun]) -> list[DeviceMessage]:
    """Each rule's tensors by its own plan, and one message of all."""
    parts: dict[int, list[MessagePart]] = {}
    for update, state, seed, _ in begun:
        residuals = _recalled(update, state) if rules.keeps else None
        for i, (_, some) in enumerate(rules.names.parts(update)):
            plan, residual = rules.plans[i], None
            if some and plan.keeps:
                memory = residuals or _recalled(some, unnest(f"{i}", state))
                residual = {name: memory[name] for name in some}
            if some:
                part = MessagePart(plan, some, residual, tensor_seed(seed, i))
                parts.setdefault(i, []).append(part)
    messages = []
    each = zip(*together([_written(members) for members in parts.values()]), strict=True)
    for (update, *_, header), done in zip(begun, each, strict=True):
        out, spans = BitWriter(), dict.fromkeys(SPANS, 0)
        out.uints(np.frombuffer(header, np.uint8), 8)
        for stream in (one.stream for one in done):
            whole_words, left_bits = divmod(stream.bits, 32)
            words = stream.words.view(">u4").astype(np.uint32)
            out.uints(words[:whole_words], 32)
            if left_bits:
                out.uint(int(words[whole_words]) >> (32 - left_bits), left_bits)
            spans = {name: spans[name] + stream.spans[name] for name in SPANS}
        after: State = {}
        if rules.keeps:
            carried = {name: x for one in done for name, x in one.residual.items()}
            after = nest("residual", {name: carried[name] for name in update})
        else:
            for i, one in zip(parts, done, strict=True):
                after |= nest(f"{i}", nest("residual", one.residual))
        messages.append(
            DeviceMessage(
                compressor=compressor,
                payload=out.to_bytes(),
                spans=spans,
                state=after,
                update=update,
                done=[*done],
            )
        )
    return messages


def _recalled(update: dict[str, Tensor], state: State) -> dict[str, Tensor]:
    """The residual of these tensors, where they lie."""
    residuals = recall("residual", state, {name: x.shape for name, x in update.items()})
    return {name: send(residuals[name], x.device) for name, x in update.items()}


def _written(parts: Sequence[MessagePart]) -> Waiting[list[Done]]:
    """One plan's bits for each message, and the residuals."""
    plan, update, many = parts[0].plan, parts[0].update, len(parts)
    residuals = [one.residual for one in parts if one.residual is not None]
    choice, flat = yield from choose(plan, [one.update for one in parts], residuals)
    ends: tuple[Tensor, ...] = ()
    if plan.joined and choice.positions is not None:  # how many lie before each tensor's end
        (stops,) = upload(flat.device, np.cumsum([x.numel() for x in update.values()]))
        ends = tuple(
            torch.searchsorted(choice.positions.narrow(0, start, count), stops)
            for start, count in zip(choice.origins.tolist(), choice.counts.tolist(), strict=True)
        )
    streams = yield from encode_streams(plan, choice, [one.seed for one in parts], ends)
    rests: list[dict[str, Tensor]] = [{}] * many
    if plan.keeps:
        shapes, flats = [x.shape for x in update.values()], [flat]
        if many > 1:  # so that no client's memory keeps another's alive
            flats = [x.clone() for x in flat.split(flat.numel() // many)]
        rests = [dict(zip(update, cut(one, shapes), strict=True)) for one in flats]
    each = len(choice.counts) // many
    return [
        Done(part, choice, slice(i * each, (i + 1) * each), one, residual)
        for i, (part, one, residual) in enumerate(zip(parts, streams, rests, strict=True))
    ]


def together(steps: Sequence[Waiting[T]]) -> list[T]:
    """What the steps return: all of them wait for the device at the same times."""
    results: dict[int, T] = {}
    requests = {i: next(step) for i, step in enumerate(steps)}
    while requests:
        arrays = iter(fetch(*arguments) if (arguments := sum(requests.values(), ())) else [])
        waiting, requests = requests, {}
        for i, tensors in waiting.items():
            try:
                requests[i] = steps[i].send([next(arrays) for _ in tensors])
            except StopIteration as done:
                results[i] = done.value
    return [results[i] for i in range(len(steps))]
