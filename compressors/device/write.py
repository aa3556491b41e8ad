"""A message of an update on a GPU: the same bytes as the host's, made where the update lies.

The host waits for the device twice: for what was chosen and its sums, and for the finished bits. A
third time where a sum is in doubt (``compressors.device.numbers``). The number of tensors plays no
part, nor does that of the rules of ``by_name``, which wait together.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, Sent, SentTensor, State, tensor_seed
from compressors.bits import SPANS, BitWriter, Span
from compressors.device.chosen import Choice, T, Waiting, choose
from compressors.device.laid import Laid, lay, quantized
from compressors.kernels.gpu.layout import fetch, upload
from compressors.kernels.gpu.stream import to_bytes
from compressors.segments.plan import Plan, Rules
from compressors.whole.memory import nest, recall, unnest


@dataclass(frozen=True)
class Written:
    """The bits of a message after its header, padded to a whole byte, and what goes with them."""

    stream: bytes
    spans: dict[Span, int]
    sent: Sent
    state: State


@dataclass(frozen=True)
class Part:
    """The tensors that one plan is for, their residual, and the seed of their noise."""

    plan: Plan
    update: dict[str, Tensor]
    kept: dict[str, Tensor] | None
    seed: int


def write(plan: Plan | Rules, update: dict[str, Tensor], state: State, seed: int) -> Written:
    """What ``Compressor.write`` does for ``update``, whose tensors lie on one device.

    Raises ``UpdateError`` where a tensor, or its sum with the memory, holds NaN or infinity, and
    where the memory belongs to another model.
    """
    with on(next(iter(update.values())).device):
        if isinstance(plan, Plan):
            kept = _recalled(update, state) if plan.keeps else None
            laid, sent, rest = together([_written(Part(plan, update, kept, seed))])[0]
            stream = to_bytes(laid.words, laid.bits)
            return Written(stream, laid.spans, sent, nest("residual", rest))
        return _by_rules(plan, update, state, seed)


def _by_rules(rules: Rules, update: dict[str, Tensor], state: State, seed: int) -> Written:
    """Each rule's tensors by its own plan, one rule's bits after the other's."""
    whole = _recalled(update, state) if rules.keeps else None
    parts: dict[int, Part] = {}
    for i, (_, some) in enumerate(rules.names.parts(update)):
        plan, kept = rules.plans[i], None
        if some and plan.keeps:
            own = whole or _recalled(some, unnest(f"{i}", state))
            kept = {name: own[name] for name in some}
        if some:
            parts[i] = Part(plan, some, kept, tensor_seed(seed, i))
    out, spans = BitWriter(), dict.fromkeys(SPANS, 0)
    sent: Sent = {}
    rest: dict[str, Tensor] = {}
    after: State = {}
    for i, (laid, said, left) in zip(
        parts, together([_written(part) for part in parts.values()]), strict=True
    ):
        whole_words, left_bits = divmod(laid.bits, 32)
        words = laid.words.view(np.uint32)
        out.uints(words[:whole_words], 32)
        if left_bits:
            out.uint(int(words[whole_words]) >> (32 - left_bits), left_bits)
        spans = {name: spans[name] + laid.spans[name] for name in SPANS}
        sent |= said
        rest |= left
        after |= nest(f"{i}", nest("residual", left))
    if rules.keeps:
        after = nest("residual", {name: rest[name] for name in update})
    return Written(out.to_bytes(), spans, {name: sent[name] for name in update}, after)


def _recalled(update: dict[str, Tensor], state: State) -> dict[str, Tensor]:
    """The residual of these tensors, where they lie."""
    kept = recall("residual", state, {name: x.shape for name, x in update.items()})
    return {name: kept[name].to(x.device) for name, x in update.items()}


def _written(part: Part) -> Waiting[tuple[Laid, Sent, dict[str, Tensor]]]:
    """One plan's bits, what the receiver will see of them, and the residual (of none: empty)."""
    plan, update = part.plan, part.update
    choice, flat = yield from choose(plan, update, part.kept)
    symbols, values, shared = quantized(plan, choice, part.seed)
    ends: tuple[Tensor, ...] = ()
    where = None  # of a joined vector: the places of what is sent, each in its own tensor
    if plan.joined and choice.entries.chosen is not None:
        places = choice.entries.chosen.narrow(0, int(choice.origins[0]), int(choice.found[0]))
        sizes = np.array([x.numel() for x in update.values()], np.int64)
        (stops,) = upload(places.device, np.cumsum(sizes))
        begins = torch.cat([torch.zeros_like(stops[:1]), stops[:-1]])
        where = places - begins[torch.bucketize(places, stops, right=True)]
        ends = (torch.searchsorted(places, stops),)  # how many entries lie before each tensor's end
    laid = yield from lay(plan, choice, symbols, shared, ends)
    if where is None:
        sent = _sent(update, choice, values)
    else:
        sent, start = {}, 0
        for (name, x), stop in zip(update.items(), laid.more[0].tolist(), strict=True):
            sent[name] = SentTensor(values[start:stop], where[start:stop], x.shape)
            start = stop
    rest: dict[str, Tensor] = {}
    if plan.keeps:
        parts = flat.split([x.numel() for x in update.values()])
        named = zip(update.items(), parts, strict=True)
        rest = {name: one.view(x.shape) for (name, x), one in named}
    return laid, sent, rest


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


@contextmanager
def on(device: torch.device) -> Iterator[None]:
    """Kernels start on torch's current device: this one is, inside."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield


def _sent(update: Mapping[str, Tensor], choice: Choice, values: Tensor) -> Sent:
    """What the receiver will see, as views of what the kernels wrote."""
    positions = choice.entries.chosen
    if positions is None:
        parts = values.split([x.numel() for x in update.values()])
        named = zip(update.items(), parts, strict=True)
        return {name: SentTensor(part.view(x.shape), ALL, x.shape) for (name, x), part in named}
    sent: Sent = {}
    rows = zip(choice.found.tolist(), choice.origins.tolist(), choice.outs.tolist(), strict=True)
    for (name, x), (found, origin, out) in zip(update.items(), rows, strict=True):
        if x.numel() == 0:
            sent[name] = SentTensor(torch.zeros_like(x), ALL, x.shape)
            continue
        where = positions.narrow(0, origin, found)
        sent[name] = SentTensor(values.narrow(0, out, found), where, x.shape)
    return sent
