"""A message of an update on a GPU: the same bytes as the host's, made where the update lies.

The host waits for the device twice: for what was chosen and its sums, and for the finished bits. A
third time where a sum is in doubt (``compressors.device.numbers``). The number of tensors plays no
part, nor does that of the rules of ``by_name``, which wait together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, Sent, SentTensor, State, tensor_seed
from compressors.bits import SPANS, BitWriter, Span
from compressors.device.chosen import Choice, T, Waiting, choose
from compressors.device.laid import Laid, lay
from compressors.device.read import decode
from compressors.errors import NotFinite
from compressors.kernels.gpu.layout import cut, fetch, on, send, upload
from compressors.kernels.gpu.stream import to_bytes
from compressors.printing import short_text
from compressors.segments.plan import Plan, Rules, plan_of
from compressors.whole.memory import nest, recall, unnest


@dataclass(frozen=True, eq=False)
class Part:
    """The tensors that one plan is for.

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
        choice: what it sends.
        laid: the bits.
        residual: of the tensors; of none: empty.
    """

    part: Part
    choice: Choice
    laid: Laid
    residual: dict[str, Tensor]

    def counts(self) -> dict[str, int]:
        """How many entries of each tensor travel."""
        many = self.choice.found
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
        outs, origins = choice.outs.tolist(), choice.origins.tolist()
        if self.part.plan.joined:
            begins = np.cumsum([0, *(x.numel() for x in update.values())])[:-1].tolist()
            ends = np.cumsum([*counts.values()]).tolist()
            outs = [end - count for end, count in zip(ends, counts.values(), strict=True)]
            origins = [origins[0] + out for out in outs]
        sent: Sent = {}
        for j, (name, x) in enumerate(update.items()):
            if not (x.numel() or self.part.plan.joined):
                sent[name] = SentTensor(torch.zeros_like(x), ALL, x.shape)
                continue
            where = positions.narrow(0, origins[j], counts[name])
            if self.part.plan.joined:
                where = where - begins[j]
            sent[name] = SentTensor(values.narrow(0, outs[j], counts[name]), where, x.shape)
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


def write(
    compressor: Any, update: dict[str, Tensor], state: State, seed: int, header: bytes
) -> Written:
    """The message that carries ``update``, whose tensors lie on one device, after its ``header``.

    Raises ``UpdateError`` where a tensor, or its sum with the memory, holds NaN or infinity, and
    where the memory belongs to another model.
    """
    plan = plan_of(compressor)
    with on(next(iter(update.values())).device):
        if isinstance(plan, Plan):
            kept = _recalled(update, state) if plan.keeps else None
            done = together([_written(Part(plan, update, kept, seed))])
            laid, after = done[0].laid, nest("residual", done[0].residual)
            payload = to_bytes(laid.words, laid.bits, header)
            return Written(compressor, payload, laid.spans, after, update, done)
        assert plan is not None, "a method without kernels"
        done, after = _by_rules(plan, update, state, seed)
    out, spans = BitWriter(), dict.fromkeys(SPANS, 0)
    out.uints(np.frombuffer(header, np.uint8), 8)
    for laid in (one.laid for one in done):
        whole_words, left_bits = divmod(laid.bits, 32)
        words = laid.words.view(">u4").astype(np.uint32)
        out.uints(words[:whole_words], 32)
        if left_bits:
            out.uint(int(words[whole_words]) >> (32 - left_bits), left_bits)
        spans = {name: spans[name] + laid.spans[name] for name in SPANS}
    return Written(compressor, out.to_bytes(), spans, after, update, done)


def _by_rules(
    rules: Rules, update: dict[str, Tensor], state: State, seed: int
) -> tuple[list[Done], State]:
    """Each rule's tensors by its own plan, and the memory."""
    whole = _recalled(update, state) if rules.keeps else None
    parts: dict[int, Part] = {}
    for i, (_, some) in enumerate(rules.names.parts(update)):
        plan, kept = rules.plans[i], None
        if some and plan.keeps:
            own = whole or _recalled(some, unnest(f"{i}", state))
            kept = {name: own[name] for name in some}
        if some:
            parts[i] = Part(plan, some, kept, tensor_seed(seed, i))
    done = together([_written(part) for part in parts.values()])
    if rules.keeps:
        rest = {name: x for one in done for name, x in one.residual.items()}
        return done, nest("residual", {name: rest[name] for name in update})
    after: State = {}
    for i, one in zip(parts, done, strict=True):
        after |= nest(f"{i}", nest("residual", one.residual))
    return done, after


def _recalled(update: dict[str, Tensor], state: State) -> dict[str, Tensor]:
    """The residual of these tensors, where they lie."""
    kept = recall("residual", state, {name: x.shape for name, x in update.items()})
    return {name: send(kept[name], x.device) for name, x in update.items()}


def _written(part: Part) -> Waiting[Done]:
    """One plan's bits, and the residual."""
    plan, update = part.plan, part.update
    choice, flat = yield from choose(plan, update, part.kept)
    ends: tuple[Tensor, ...] = ()
    if plan.joined and choice.positions is not None:  # how many lie before each tensor's end
        places = choice.positions.narrow(0, int(choice.origins[0]), int(choice.found[0]))
        (stops,) = upload(flat.device, np.cumsum([x.numel() for x in update.values()]))
        ends = (torch.searchsorted(places, stops),)
    laid = yield from lay(plan, choice, part.seed, ends)
    rest: dict[str, Tensor] = {}
    if plan.keeps:
        rest = dict(zip(update, cut(flat, [x.shape for x in update.values()]), strict=True))
    return Done(part, choice, laid, rest)


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
