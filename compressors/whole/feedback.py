"""A memory around a compressor: what a sender remembers of its messages is added to what it sends.

``ef`` remembers what was not sent, ``ef21`` all that it has said, and ``diana``
(``compressors.contrib.diana``) a part of that.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from compressors.base import Compressor, Holding, Sent, State, Tensors, empty_like
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, with_memory
from compressors.errors import UpdateError
from compressors.grammar import OF_SENDER, short_text
from compressors.settings import check_compressor, check_flags, check_number, plain
from compressors.whole.fragments import Fragments
from compressors.whole.growth import SIZES, always_grows, grows
from compressors.whole.keepers import check_keeps_nothing
from compressors.whole.lift import InParts
from compressors.whole.memory import added, check_sums, nest, recall, unnest


@runtime_checkable
class PartlyHeld(Protocol):
    """A compressor whose memory takes back a part of what a message carried, not all of it."""

    def steps(self, template: Tensors) -> dict[str, float]:
        """The part of each tensor."""
        ...


class Remembering(ABC):
    """Sends ``update + memory`` by ``inner``; what it remembers after that is its class's rule."""

    held: ClassVar[str]
    inner: Compressor
    decay: float = 1.0  # what is added of the memory

    @property
    def needs_seed(self) -> bool:
        return self.inner.needs_seed

    def init(self, template: Tensors) -> State:
        """Zeros for each tensor, and the inner memory."""
        return nest(self.held, empty_like(template)) | nest("inner", self.inner.init(template))

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        """See ``Compressor.write``; ``NotFinite`` where update and memory overflow."""
        memory = recall(self.held, state, {name: x.shape for name, x in update.items()})
        target = added(update, memory, self.decay)
        sent, inner = self.inner.write(target, unnest("inner", state), out, seed)
        after = self.after(memory, target, sent)
        check_sums(after)
        return sent, nest(self.held, after) | nest("inner", inner)

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        return self.inner.read(bits, template, seed)

    @abstractmethod
    def after(
        self, memory: Mapping[str, Tensor], target: dict[str, Tensor], sent: Sent
    ) -> dict[str, Tensor]:
        """The memory after a message; ``target`` was made for it and may be used up."""

    def bound_on(self, d: int) -> Bound:
        """The inner compressor's, of what it is given."""
        return with_memory(bound(self.inner, d))


@dataclass(frozen=True)
class ErrorFeedback(Remembering):
    """Sends ``update + residual`` and keeps what the receiver will not see of it.

        y = x + decay r,  y_hat = C(y),  r <- y - y_hat

    x is the update, r the residual and C ``inner``: with decay 1 residual accumulation (Sattler et
    al. 2018, equation 2). At every moment the sum of what was decoded plus the residual is the sum
    of the updates, up to float32 rounding.

    With a ``decay`` below 1 it sends ``update + decay * residual``: what is left of old updates
    fades, and that much of them is never sent. SparseLoCo (Sarfi et al. 2025, Algorithm 1) has it
    in the place of an outer momentum, DeMo (Peng et al. 2024, Algorithm 1) as its momentum.

    Args:
        inner: the compressor that sends.
        decay: the residual's factor, 0 < decay <= 1.
        mask: whether the sender's optimizer forgets the momentum of entries that were sent (SBC,
            supplement A): the momentum factor masking of Lin et al. 2018. It has the optimizer, so
            that this is its work (``compressors.whole.masking`` has the entries); no bit of a
            message depends on it, and neither does what its receiver needs.

    Raises ``ValueError`` for another decay or mask; around what has a memory or a server itself
    (``ef``, ``dgc``, ``ef21``): what is not sent would be kept, and sent, twice; and around what
    would feed that residual on its own noise, for tensors of any size
    (``compressors.whole.growth``).

    Example:
        >>> from compressors import parse
        >>> ErrorFeedback(parse("randk(0.1) | float32"))
        Traceback (most recent call last):
        ValueError: ef around randk(0.1) | float32: randk(0.1) multiplies what it keeps, so that \
the memory would grow without end: use ef(randk(0.1, false) | float32), or leave ef out
    """

    codec_id: ClassVar[str] = "ef"
    held: ClassVar[str] = "residual"
    keeps: ClassVar[tuple[str, ...] | None] = ("residual", "inner")
    inner: Compressor
    decay: float = 1.0
    mask: bool = field(default=False, metadata=OF_SENDER)

    def __post_init__(self) -> None:
        plain(self)
        check_compressor("ef", self.inner)
        check_number("ef: decay", self.decay, lambda d: 0 < d <= 1, "0 < decay <= 1")
        check_flags("ef", mask=self.mask)
        check_bounded(self)

    def init(self, template: Tensors) -> State:
        """A zero residual per tensor, and the inner memory.

        Raises ``UpdateError`` where the residual would grow without end for tensors of these sizes.
        """
        check_bounded(self, template)
        return super().init(template)

    def after(
        self, memory: Mapping[str, Tensor], target: dict[str, Tensor], sent: Sent
    ) -> dict[str, Tensor]:
        """The rest of ``target``: less what was sent."""
        for name, x in target.items():
            part = sent[name]
            if isinstance(part.indices, Tensor):
                x.view(-1).index_add_(0, part.indices, part.values, alpha=-1)
            elif part.values.data_ptr() == x.data_ptr():  # sent as it is
                target[name] = torch.zeros_like(x)
            else:
                x.sub_(part.values)
        return target


@dataclass(frozen=True)
class EF21(Remembering):
    """Sends ``update - g`` by the inner compressor, where g is the sum of all it has sent so far.

        c = C(x - g),  g <- g + c

    x is the update and c what is sent. EF21 (Richtárik, Sokolov & Fatkhullin 2021,
    https://arxiv.org/abs/2106.05203, Algorithm 2): where updates change little from round to round,
    so do their differences, and g comes closer to the update with each message, for any inner
    contraction. A message alone is not an update: the receiver keeps the sum of what all senders
    sent and moves by its mean over them. The strategy ``ef21`` does; every other one refuses this
    method. On that strategy's downlink it is EF21-BC (``strategies.channel.directions``).

    The memory is -g, as ``shift``: what was sent and not applied is added to it again. Raises
    ``ValueError`` around what has a memory or a server itself (``ef``, ``dgc``, ``diana``),
    and around what ``ef`` refuses because its error would grow.

    Example:
        >>> from compressors import compress, parse
        >>> import torch
        >>> method, update = parse("ef21(topk(0.5) | float32)"), {"w": torch.tensor([4.0, 1.0])}
        >>> first, memory = compress(method, update)
        >>> again, _ = compress(method, update, memory)
        >>> first.sent["w"].decoded, again.sent["w"].decoded
        (tensor([4., 0.]), tensor([0., 1.]))
    """

    codec_id: ClassVar[str] = "ef21"
    server: ClassVar[str] = "ef21"
    held: ClassVar[str] = "shift"
    keeps: ClassVar[tuple[str, ...] | None] = ("shift", "inner")
    inner: Compressor

    def __post_init__(self) -> None:
        check_compressor("ef21", self.inner)
        check_bounded(self)

    def init(self, template: Tensors) -> State:
        """A zero shift per tensor, and the inner memory; ``UpdateError`` as for ``ef``."""
        check_bounded(self, template)
        return super().init(template)

    def after(
        self, memory: Mapping[str, Tensor], target: dict[str, Tensor], sent: Sent
    ) -> dict[str, Tensor]:
        """The shift less what was sent."""
        return {name: memory[name] - part.decoded for name, part in sent.items()}


def check_bounded(lift: ErrorFeedback | EF21, template: Tensors | None = None) -> None:
    """Refuses a memory around another one, or around what lets a memory grow without end.

    Raises:
        ValueError: for tensors of any size, or around a memory or a server.
        UpdateError: for tensors shaped like ``template``, where they are given.
    """
    name = lift.codec_id
    if template is None:
        check_keeps_nothing(name, lift.inner)
    if template is None:
        reason = always_grows(lift.inner, name)
    else:
        reason = grows(lift.inner, template, name)
    if reason:
        refused = ValueError if template is None else UpdateError
        raise refused(f"{name} around {short_text(lift.inner)}: {reason}")


def check_unbiased(name: str, inner: Compressor) -> None:
    """Raises ``ValueError`` where ``name`` is around what has a memory, or is known as biased."""
    check_keeps_nothing(name, inner)
    if any(bound(inner, d).kind in ("contraction", "neither") for d in SIZES):
        raise ValueError(
            f"{name} around {short_text(inner)}, which is biased: {name} needs an "
            f"unbiased method; use ef21({short_text(inner)})"
        )


_MANY = 2**20
"""Entries: a method that is exact for so many is for all."""


def loses(compressor: Compressor, template: Tensors) -> set[str]:
    """The tensors of a message that are lost where it does not count: no memory takes them back.

    Example:
        >>> import torch
        >>> from compressors import Raw, parse
        >>> loses(parse("sbc(0.01)"), {"w": torch.zeros(4)}), loses(Raw(), {"w": torch.zeros(4)})
        (set(), {'w'})
    """
    if isinstance(compressor, InParts):
        return set[str]().union(*(loses(inner, part) for inner, part in compressor.parts(template)))
    return set() if _kind(compressor) else {*template}


def holds(compressor: Compressor, template: Tensors) -> bool:
    """Whether a memory of ``compressor`` takes back what a message carried, of any tensor."""
    return loses(compressor, template) < {*template}


def leaves_out(compressor: Compressor) -> bool:
    """Whether messages may leave out something that no later message brings.

    Not where all is sent, nor where a residual keeps the whole rest; one that decays does not.
    ``fragments`` neither sends nor keeps the tensors of its other fragments.

    Example:
        >>> from compressors import Raw, parse
        >>> [leaves_out(method) for method in (Raw(), parse("sbc(0.01)"), parse("cnat"))]
        [False, False, True]
    """
    if isinstance(compressor, Fragments) and compressor.count > 1:
        return True
    if isinstance(compressor, InParts):
        return any(map(leaves_out, compressor.by_key.values()))
    decays = isinstance(compressor, ErrorFeedback) and compressor.decay != 1
    return (_kind(compressor) != "residual" or decays) and bound(compressor, _MANY).omega != 0


def take_back(
    compressor: Compressor, carried: Tensors, state: State
) -> tuple[State, dict[str, Tensor]]:
    """The memory as if the message had held nothing, and what no memory takes back.

    ``ef`` and ``dgc`` add what they hold to the next update; the tensors of any other method are
    lost with their message (``Holding``, ``PartlyHeld``).

    Args:
        compressor: made the message.
        carried: what the message decodes to, by name, in the update's shapes.
        state: the sender's memory after the message; not changed.

    Example:
        >>> import torch
        >>> from compressors import compress, decompress, gradient_dropping
        >>> method, update = gradient_dropping(0.5), {"w": torch.tensor([4.0, 1.0])}
        >>> packet, memory = compress(method, update)
        >>> memory, lost = take_back(method, decompress(method, packet.payload, update), memory)
        >>> memory["residual/w"], lost
        (tensor([4., 1.]), {})
    """
    if isinstance(compressor, InParts):
        lost: dict[str, Tensor] = {}
        for i, (inner, part) in enumerate(compressor.parts(carried)):
            memory, remainder = take_back(inner, part, unnest(f"{i}", state))
            state = state | nest(f"{i}", memory)
            lost |= remainder
        return state, lost
    kind = _kind(compressor)
    if kind is None:
        return state, dict(carried)
    held, parts = unnest(kind, state), dict.fromkeys(carried, 1.0)
    if isinstance(compressor, PartlyHeld):
        parts = compressor.steps(carried)
    back = {name: held[name] + parts[name] * x for name, x in carried.items()}
    return state | nest(kind, back), {}


def _kind(compressor: Compressor) -> str | None:
    return compressor.held if isinstance(compressor, Holding) else None
