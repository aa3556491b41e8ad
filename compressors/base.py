"""The contracts: what a codec of one tensor is, and what a compressor of a whole update is.

A codec is stateless, the mathematics of one paper on one tensor. A compressor
handles one sender's whole update; its memory (residuals, counters) is handed in
and handed back, and never changed in place, so that a round that failed can be
forgotten. Both write to and read from one shared bit cursor: tensors follow each
other without padding, and what is not in the bits does not arrive.

A reader may use the bits, its own configuration, and what both sides know
beforehand: names, shapes and dtypes. Never values. A method whose positions come
from random numbers says ``needs_seed``; its message then carries the seed, once.

Everything configured is a frozen dataclass: equal by value, and printed by
``compressors.text`` in the form that ``compressors.parse`` reads.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from operator import index
from typing import Any, ClassVar, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter, Span

Tensors = Mapping[str, Tensor]
"""Ordered names to float32 tensors: an update, or the weights it belongs to."""

State = dict[str, Tensor]
"""A compressor's memory. Tensors only (counters too), so that it can be stored and sent."""


@dataclass(frozen=True)
class _All:
    """Says that every entry of a tensor travelled."""

    def __repr__(self) -> str:
        return "ALL"


ALL: Final = _All()


@dataclass(frozen=True)
class SentTensor:
    """What the receiver will see of one tensor.

    ``values`` are the entries that travelled, as they will be decoded: (k,) at the sorted
    flat positions ``indices`` (k,), all others being zero; or, where ``indices`` is ``ALL``,
    the whole tensor in its ``shape``.
    """

    values: Tensor
    indices: Tensor | _All
    shape: torch.Size

    @property
    def count(self) -> int:
        """How many entries travelled."""
        return self.values.numel()

    def overflows(self, x: Tensor) -> bool:
        """Whether what arrives of ``x``, which is finite, holds NaN or infinity."""
        return self.values.data_ptr() != x.data_ptr() and not finite(self.values)

    @cached_property
    def decoded(self) -> Tensor:
        """The tensor that the receiver will have."""
        if isinstance(self.indices, _All):
            return self.values
        return scatter(self.values, self.indices, self.shape)


Sent = dict[str, SentTensor]
"""What the receiver will see of a whole update."""


@dataclass(frozen=True)
class Packet:
    """A message as its sender has it.

    ``payload`` is all that travels; its size in bits is ``8 * len(payload)``. ``sent``
    is what the receiver will see, tensor by tensor, so that the sender need not decode
    its own message; where a tensor travels as it is, that may be the caller's own memory.
    ``spans``: where the bits went; the sum is the payload's bits.
    """

    payload: bytes
    sent: Sent
    spans: dict[Span, int]

    @property
    def counts(self) -> dict[str, int]:
        """How many entries of each tensor travel; asking for it makes no ``sent``."""
        return {name: one.count for name, one in self.sent.items()}

    @property
    def indices(self) -> dict[str, Tensor]:
        """Which entries travel, ascending and flat, of each tensor that does not travel whole."""
        sent = self.sent.items()
        return {name: one.indices for name, one in sent if isinstance(one.indices, Tensor)}


class Received(NamedTuple):
    """A message as its receiver has it: the update, and where its bits went.

    ``sent``: how many entries of each tensor travelled, by the message; for a method from
    outside the package, which books none, those of the update that are not zero.
    """

    update: Tensors
    spans: dict[Span, int]
    sent: dict[str, int]


class LazyPacket(Packet):
    """A packet whose ``sent`` is made at its first use.

    Attributes:
        state: the sender's memory from now on.
    """

    state: State

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __reduce__(self) -> Any:
        return Packet, (self.payload, self.sent, self.spans)  # in another process, as it is


class VectorCodec(Protocol):
    """One tensor to bits and back, without memory."""

    @property
    def needs_seed(self) -> bool:
        """Whether ``read`` needs the seed that ``write`` was given."""
        ...

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        """Writes ``x`` (float32, one entry or more) and returns what the receiver will see."""
        ...

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        """The tensor that ``write`` wrote, shaped like ``template`` (values unread)."""
        ...


class Compressor(Protocol):
    """One sender's whole update to bits and back, with memory.

    Attributes:
        keeps: the kinds of tensors in the memory, each a name that no other class has, or ``inner``
            for those of a compressor within; a memory with others is refused. None: not checked.
    """

    keeps: ClassVar[tuple[str, ...] | None] = None

    @property
    def needs_seed(self) -> bool:
        """Whether ``read`` needs the seed that ``write`` was given."""
        ...

    def init(self, template: Tensors) -> State:
        """The memory before the first message, for updates shaped like ``template``."""
        ...

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        """Writes ``update``; returns what the receiver will see, and the memory from now on.

        Keeps no reference to ``update``'s tensors in the memory: their owner may reuse them.
        """
        ...

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        """The update that ``write`` wrote, shaped like ``template`` (values unread)."""
        ...


@runtime_checkable
class Holding(Protocol):
    """A compressor whose memory is added to its next update.

    Attributes:
        held: under what name its memory has the tensors that are added (``residual`` of ``ef``).
    """

    held: ClassVar[str]


@runtime_checkable
class ForServer(Protocol):
    """A compressor whose messages become updates at a server alone.

    Attributes:
        server: the strategy that alone makes updates of them.
    """

    server: ClassVar[str]


def derive(seed: int, *path: int | str) -> int:
    """A 32-bit seed for one purpose, from a seed and a path of ordinals or names.

    Example:
        >>> derive(1, "client", 3) == derive(1, "client", 3) != derive(1, "client", 4)
        True
    """
    parts = [str.__str__(x) if isinstance(x, str) else str(index(x)) for x in (seed, *path)]
    text = "/".join(parts)  # of texts of a subclass, such as an Enum, what they are
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big")


def tensor_seed(seed: int, ordinal: int) -> int:
    """A 32-bit seed for one tensor of a message: ``derive``, where it must cost nothing."""
    mixed = (seed + 1) * 0x9E3779B97F4A7C15 + (ordinal + 1) * 0xBF58476D1CE4E5B9
    mixed &= 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 31)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return mixed >> 32


def nominal_count(p: float, n: int) -> int:
    """How many of ``n`` entries the fraction ``p`` means: at least one, none of none."""
    return min(n, max(1, round(p * n)))


def scatter(values: Tensor, indices: Tensor, shape: torch.Size) -> Tensor:
    """A float32 tensor that holds ``values`` (k,) at flat ``indices`` (k,) and zeros elsewhere."""
    flat = torch.zeros(shape.numel(), dtype=torch.float32, device=values.device)
    return flat.index_copy_(0, indices, values).view(shape)


def unflatten(flat: Tensor, template: Tensors) -> dict[str, Tensor]:
    """The tensors that ``flat`` holds one after the other, shaped like ``template``: its views."""
    parts = flat.split([x.numel() for x in template.values()])
    return {n: part.view(x.shape) for (n, x), part in zip(template.items(), parts, strict=True)}


def split_places(places: np.ndarray, template: Tensors) -> dict[str, np.ndarray]:
    """Sorted ``places`` in the vector of all tensors: those of each tensor, counted in it."""
    ends = np.cumsum([0, *(x.numel() for x in template.values())])
    cuts = np.searchsorted(places, ends)
    parts = zip(template, cuts, cuts[1:], ends, strict=False)
    return {name: places[a:b] - end for name, a, b, end in parts}


def read_each(
    bits: BitReader, template: Tensors, read: Callable[[int, Tensor], Tensor]
) -> dict[str, Tensor]:
    """Every tensor by ``read``, from its ordinal and its template; books how many travelled."""
    tensors = {}
    for i, (name, x) in enumerate(template.items()):
        bits.places = None
        tensors[name] = read(i, x)
        if bits.places is not None:
            bits.sent[name] = bits.places.numel()
    return tensors


def finite(x: Tensor) -> bool:
    """Whether ``x`` holds neither NaN nor infinity, in one quick pass.

    Both survive a sum, so a finite sum settles it; one that is not may only have
    overflowed, and the entries are looked at.
    """
    x = x.detach()
    return math.isfinite(float(x.sum())) or bool(torch.isfinite(x).all())


def mean(values: Tensor) -> float:
    """The mean, summed in float64 so that the order of the sum does not show in float32."""
    return float(values.numpy().mean(dtype=np.float64))


def empty_like(template: Tensors) -> dict[str, Tensor]:
    """Zero tensors of the same names, shapes and devices."""
    return {
        name: torch.zeros_like(x, memory_format=torch.contiguous_format)
        for name, x in template.items()
    }
