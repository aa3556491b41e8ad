"""From a codec of one tensor to a compressor of a whole update, and rules between compressors."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from typing import Any, ClassVar

import torch
from torch import Tensor

from compressors.arguments import read_tensor, write_tensor
from compressors.base import (
    ALL,
    Compressor,
    Sent,
    SentTensor,
    State,
    Tensors,
    VectorCodec,
    read_each,
    split_places,
    tensor_seed,
    unflatten,
)
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, worst
from compressors.errors import PartError, UpdateError
from compressors.settings import check_codec, check_compressor, plain
from compressors.whole.memory import nest, unnest


@dataclass(frozen=True)
class Lift:
    """A compressor that hands what it is given to a codec, and has no memory."""

    codec_id: ClassVar[str]
    keeps: ClassVar[tuple[str, ...] | None] = ()
    codec: VectorCodec

    def __post_init__(self) -> None:
        check_codec(self.codec_id, self.codec)

    @property
    def needs_seed(self) -> bool:
        return self.codec.needs_seed

    def init(self, template: Tensors) -> State:
        return {}

    def bound_on(self, d: int) -> Bound:
        """The codec's, on the ``d`` entries that it is given."""
        return bound(self.codec, d)


@dataclass(frozen=True)
class PerTensor(Lift):
    """Each tensor by itself.

        x_hat_t = C(x_t) for every tensor t

    With ``topk`` a local threshold (Aji & Heafield 2017, section 4; SBC).
    """

    codec_id: ClassVar[str] = "per_tensor"

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        """See ``Compressor.write``; tensor i uses the seed derived with its ordinal."""
        sent: Sent = {}
        for i, (name, x) in enumerate(update.items()):
            try:
                sent[name] = write_tensor(self.codec, x, out, tensor_seed(seed, i))
            except (UpdateError, PartError) as error:
                raise type(error)(f"tensor {name!r}: {error}") from error
        return sent, state

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        def read(i: int, x: Tensor) -> Tensor:
            return read_tensor(self.codec, bits, x, tensor_seed(seed, i))

        return read_each(bits, template, read)


@dataclass(frozen=True)
class Flat(Lift):
    """The whole update as one vector.

        (x_hat_1, ..., x_hat_T) = C((x_1, ..., x_T)) of T tensors

    With ``topk`` a global threshold (Aji & Heafield 2017, section 4).
    """

    codec_id: ClassVar[str] = "flat"

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        if not update:
            return {}, state
        joined = torch.cat([x.detach().reshape(-1) for x in update.values()])
        joint = write_tensor(self.codec, joined, out, tensor_seed(seed, 0))
        if not isinstance(joint.indices, Tensor):
            dense = unflatten(joint.values, update)
            return {name: SentTensor(x, ALL, x.shape) for name, x in dense.items()}, state
        places = split_places(joint.indices.numpy(), update)
        values = joint.values.split([part.size for part in places.values()])
        return {
            name: SentTensor(some, torch.from_numpy(places[name]), x.shape)
            for (name, x), some in zip(update.items(), values, strict=True)
        }, state

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        if not template:
            return {}
        total = sum(x.numel() for x in template.values())
        first = next(iter(template.values()))
        bits.places = None
        joined = read_tensor(self.codec, bits, first.new_empty(total), tensor_seed(seed, 0))
        if bits.places is not None:
            places = split_places(bits.places.numpy(), template)
            bits.sent |= {name: part.size for name, part in places.items()}
        return unflatten(joined, template)


class InParts:
    """A compressor of compressors, each of which has some of an update's tensors.

    Its memory holds that of each part under the part's key.
    """

    keeps: ClassVar[tuple[str, ...] | None] = None

    @property
    def by_key(self) -> dict[str, Compressor]:
        """The parts' compressors, by their keys in the memory: 0, 1, ... in order."""
        raise NotImplementedError

    def parts(self, tensors: Tensors) -> list[tuple[Compressor, dict[str, Tensor]]]:
        """Each part's compressor with its tensors, in the order of ``by_key``."""
        raise NotImplementedError

    def init(self, template: Tensors) -> State:
        """Each part's memory, under its key."""
        state: State = {}
        for i, (compressor, part) in enumerate(self.parts(template)):
            state |= nest(f"{i}", compressor.init(part))
        return state


def innermost(method: Any) -> Iterator[Any]:
    """The compressors of a method's parts, and of theirs; a method without parts itself."""
    if isinstance(method, InParts):
        for part in method.by_key.values():
            yield from innermost(part)
    else:
        yield method


@dataclass(frozen=True)
class ByName(InParts):
    """Different compressors for different tensors: the first rule that fits a tensor counts.

        x_hat_t = C_r(x_t),  r = the first rule whose pattern fits tensor t

    ``rules`` are pairs of a pattern and a compressor. A pattern is a shell pattern on
    the name (``*.bias``) or a bound on the number of entries (``size<256``). The
    message holds the tensors rule by rule. Raises ``ValueError`` where no rule fits a
    tensor or a pattern is malformed.

    Example:
        >>> from compressors import Raw, parse
        >>> rules = ByName((("size<256", Raw()), ("*", parse("sbc(0.01)"))))
    """

    codec_id: ClassVar[str] = "by_name"
    rules: tuple[tuple[str, Compressor], ...]

    def __post_init__(self) -> None:
        if not self.rules:
            raise ValueError("by_name has no rules: give pairs of a pattern and a compressor")
        if not isinstance(self.rules, tuple) or not all(
            isinstance(rule, tuple) and len(rule) == 2 and isinstance(rule[0], str)
            for rule in self.rules
        ):
            raise ValueError(
                f"by_name: rules is a {type(self.rules).__name__}: give a tuple of pairs "
                "(pattern, compressor)"
            )
        plain(self)
        for pattern, compressor in self.rules:
            _fits(pattern, "", (0,))
            check_compressor(f"by_name: rule {pattern!r}", compressor)

    @property
    def by_key(self) -> dict[str, Compressor]:
        return {f"{i}": rule for i, (_, rule) in enumerate(self.rules)}

    @property
    def needs_seed(self) -> bool:
        return any(compressor.needs_seed for _, compressor in self.rules)

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        sent: Sent = {}
        after: State = {}
        for i, (compressor, part) in enumerate(self.parts(update)):
            some, memory = compressor.write(part, unnest(f"{i}", state), out, tensor_seed(seed, i))
            sent |= some
            after |= nest(f"{i}", memory)
        return {name: sent[name] for name in update}, after

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        update: dict[str, Tensor] = {}
        for i, (compressor, part) in enumerate(self.parts(template)):
            update |= compressor.read(bits, part, tensor_seed(seed, i))
        return {name: update[name] for name in template}

    def parts(self, tensors: Tensors) -> list[tuple[Compressor, dict[str, Tensor]]]:
        """Each rule's compressor with its tensors; ``ValueError`` where no rule fits one."""
        parts: list[tuple[Compressor, dict[str, Tensor]]] = [(c, {}) for _, c in self.rules]
        for name, x in tensors.items():
            parts[self.ordinal(name, x.shape)][1][name] = x
        return parts

    def ordinal(self, name: str, shape: tuple[int, ...]) -> int:
        """Which rule a tensor has; ``ValueError`` where none fits it."""
        for i, (pattern, _) in enumerate(self.rules):
            if _fits(pattern, name, shape):
                return i
        patterns = ", ".join(repr(pattern) for pattern, _ in self.rules)
        raise ValueError(f"no rule of by_name fits tensor {name!r}: the rules are {patterns}")

    def bound_on(self, d: int) -> Bound:
        """The worst of all rules."""
        return worst([bound(rule, d) for _, rule in self.rules])


def _fits(pattern: str, name: str, shape: tuple[int, ...]) -> bool:
    if not pattern.startswith("size<"):
        return fnmatchcase(name, pattern)
    bound = pattern.removeprefix("size<")
    if not bound.isdigit():
        raise ValueError(f"pattern {pattern!r}: 'size<' takes a whole number, such as 'size<256'")
    return prod(shape) < int(bound)
