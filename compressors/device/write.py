"""Messages of updates on a GPU: the same bytes as the host's, made where the updates lie.

The host waits for the device twice: for what was chosen and its sums, and for the finished bits. A
third time where a sum is in doubt (``compressors.device.numbers``). The number of tensors plays no
part, nor does that of the messages, nor that of the rules of ``by_name``, which wait together: the
segments of several messages are as many times the tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, Sent, SentTensor, State, tensor_seed
from compressors.bits import SPANS, BitWriter, Span
from compressors.device.chosen import Choice, T, Waiting, choose
from compressors.device.laid import Laid, lay
from compressors.device.read import decode
from compressors.errors import NotFinite
from compressors.kernels.gpu.layout import cut, fetch, on, pieces, send, upload
from compressors.kernels.gpu.stream import to_bytes
from compressors.printing import short_text
from compressors.segments.plan import Plan, Rules, plan_of
from compressors.whole.memory import nest, recall, unnest


class Begun(NamedTuple):
    """A message to be made of an ``update``, with the memory before, its seed and its header."""

    update: dict[str, Tensor]
    state: State
    seed: int
    header: bytes


@dataclass(frozen=True, eq=False)
class Part:
    """The tensors of one message that one plan is for.

    Args:
        plan: their method.
        update: the tensors.
        kept: their residual, or None.
        seed: of their noise.
    """

    plan: Plan
    update: dict[str, Tensor]
    kept: dict[str, Tensor] | None
    seed: int


@dataclass(frozen=True, eq=False)
class Done:
    """One plan's bits, and what goes with them.

    Args:
        part: whose.
        choice: what is sent, of several messages.
        own: which of the choice's segments are this message's.
        laid: the bits.
        residual: of the tensors; of none: empty.
    """

    part: Part
    choice: Choice
    own: slice
    laid: Laid
    residual: dict[str, Tensor]

    def counts(self) -> dict[str, int]:
        """How many entries of each tensor travel."""
        many = self.choice.found[self.own]
        if self.part.plan.joined:
            sizes = [x.numel() for x in self.part.update.values()]
            many = np.diff(self.laid.more[0], prepend=0) if self.laid.more else np.array(sizes)
        return dict(zip(self.part.update, many.tolist(), strict=True))

    def sent(self) -> Sent:
        """What the receiver will see of tensors of which not every entry travels."""
        choice, values, positions = self.choice, self.laid.values, self.choice.positions
        if positions is None or values is None:
            return {}
        update, counts = self.part.update, self.counts()
        outs, origins = choice.outs[self.own].tolist(), choice.origins[self.own].tolist()
        if self.part.plan.joined:
            begins = np.cumsum([0, *(x.numel() for x in update.values())])[:-1].tolist()
            ends = np.cumsum([*counts.values()]).tolist()
            before = [end - count for end, count in zip(ends, counts.values(), strict=True)]
            outs, origins = [[each[0] + x for x in before] for each in (outs, origins)]
        places = pieces(positions, origins, [*counts.values()])
        those = pieces(values, outs, [*counts.values()])
        sent: Sent = {}
        for j, (name, x) in enumerate(update.items()):
            if not (x.numel() or self.part.plan.joined):
                sent[name] = SentTensor(torch.zeros_like(x), ALL, x.shape)
                continue
            where = places[j] - begins[j] if self.part.plan.joined else places[j]
            sent[name] = SentTensor(those[j], where, x.shape)
        return sent


@dataclass(frozen=True, eq=False)
class Written:
    """A message: its bytes, their account, and the memory from now on.

    What the receiver will see is made when it is asked for.
    """

    compressor: Any
    payload: bytes
    spans: dict[Span, int]
    state: State
    update: dict[str, Tensor]
    done: list[Done]

    def counts(self) -> dict[str, int]:
        """How many entries of each tensor travel."""
        many = {name: count for one in self.done for name, count in one.counts().items()}
        return {name: many[name] for name in self.update}

    def sent(self) -> Sent:
        """What the receiver will see of each tensor."""
        sent = {name: said for one in self.done for name, said in one.sent().items()}
        if len(sent) < len(self.update):
            came = decode(self.compressor, self.payload, self.update)
            if came is None:
                raise NotFinite(f"what arrives by {short_text(self.compressor)} overflows float32")
            dense = came[0]
            sent = {n: SentTensor(x, ALL, x.shape) for n, x in dense.items()} | sent
        return {name: sent[name] for name in self.update}


def write(compressor: Any, begun: Sequence[Begun]) -> list[Written]:
    """The messages of updates of the same names and shapes, whose tensors lie on one device.

    Raises ``UpdateError`` where a tensor, or its sum with the memory, holds NaN or infinity, and
    where a memory belongs to another model.
    """
    plan = plan_of(compressor)
    with on(next(iter(begun[0].update.values())).device):
        if isinstance(plan, Plan):
            parts = [
                Part(plan, update, _recalled(update, state) if plan.keeps else None, seed)
                for update, state, seed, _ in begun
            ]
            return [
                Written(compressor, to_bytes(one.laid.words, one.laid.bits, header),
                        one.laid.spans, nest("residual", one.residual), update, [one])
                for (update, _, _, header), one in zip(
                    begun, *together([_written(parts)]), strict=True
                )
            ]  # fmt: skip
        assert plan is not None, "a method without kernels"
        return _by_rules(compressor, plan, begun)


def _by_rules(compressor: Any, rules: Rules, begun: Sequence[Begun]) -> list[Written]:
    """Each rule's tensors by its own plan, and one message of all."""
    parts: dict[int, list[Part]] = {}
    for update, state, seed, _ in begun:
        whole = _recalled(update, state) if rules.keeps else None
        for i, (_, some) in enumerate(rules.names.parts(update)):
            plan, kept = rules.plans[i], None
            if some and plan.keeps:
                own = whole or _recalled(some, unnest(f"{i}", state))
                kept = {name: own[name] for name in some}
            if some:
                parts.setdefault(i, []).append(Part(plan, some, kept, tensor_seed(seed, i)))
    found = []
    each = zip(*together([_written(those) for those in parts.values()]), strict=True)
    for (update, *_, header), done in zip(begun, each, strict=True):
        out, spans = BitWriter(), dict.fromkeys(SPANS, 0)
        out.uints(np.frombuffer(header, np.uint8), 8)
        for laid in (one.laid for one in done):
            whole_words, left_bits = divmod(laid.bits, 32)
            words = laid.words.view(">u4").astype(np.uint32)
            out.uints(words[:whole_words], 32)
            if left_bits:
                out.uint(int(words[whole_words]) >> (32 - left_bits), left_bits)
            spans = {name: spans[name] + laid.spans[name] for name in SPANS}
        after: State = {}
        if rules.keeps:
            rest = {name: x for one in done for name, x in one.residual.items()}
            after = nest("residual", {name: rest[name] for name in update})
        else:
            for i, one in zip(parts, done, strict=True):
                after |= nest(f"{i}", nest("residual", one.residual))
        found.append(Written(compressor, out.to_bytes(), spans, after, update, [*done]))
    return found


def _recalled(update: dict[str, Tensor], state: State) -> dict[str, Tensor]:
    """The residual of these tensors, where they lie."""
    kept = recall("residual", state, {name: x.shape for name, x in update.items()})
    return {name: send(kept[name], x.device) for name, x in update.items()}


def _written(parts: Sequence[Part]) -> Waiting[list[Done]]:
    """One plan's bits for each message, and the residuals."""
    plan, update, many = parts[0].plan, parts[0].update, len(parts)
    kept = [one.kept for one in parts if one.kept is not None]
    choice, flat = yield from choose(plan, [one.update for one in parts], kept)
    ends: tuple[Tensor, ...] = ()
    if plan.joined and choice.positions is not None:  # how many lie before each tensor's end
        (stops,) = upload(flat.device, np.cumsum([x.numel() for x in update.values()]))
        ends = tuple(
            torch.searchsorted(choice.positions.narrow(0, start, count), stops)
            for start, count in zip(choice.origins.tolist(), choice.found.tolist(), strict=True)
        )
    laid = yield from lay(plan, choice, [one.seed for one in parts], ends)
    rests: list[dict[str, Tensor]] = [{}] * many
    if plan.keeps:
        shapes, flats = [x.shape for x in update.values()], [flat]
        if many > 1:  # so that no client's memory keeps another's alive
            flats = [x.clone() for x in flat.split(flat.numel() // many)]
        rests = [dict(zip(update, cut(one, shapes), strict=True)) for one in flats]
    each = len(choice.found) // many
    return [
        Done(part, choice, slice(i * each, (i + 1) * each), one, rest)
        for i, (part, one, rest) in enumerate(zip(parts, laid, rests, strict=True))
    ]


def together(steps: Sequence[Waiting[T]]) -> list[T]:
    """What the steps return: all of them wait for the device at the same times."""
    found: dict[int, T] = {}
    asked = {i: next(step) for i, step in enumerate(steps)}
    while asked:
        arrays = iter(fetch(*wanted) if (wanted := sum(asked.values(), ())) else [])
        waiting, asked = asked, {}
        for i, tensors in waiting.items():
            try:
                asked[i] = steps[i].send([next(arrays) for _ in tensors])
            except StopIteration as done:
                found[i] = done.value
    return [found[i] for i in range(len(steps))]
