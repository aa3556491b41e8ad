"""Names that may be one tensor (tied weights): what is equal under two names travels once."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import Compressor, Sent, State, Tensors
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound
from compressors.settings import check_compressor, plain
from compressors.whole.keepers import check_whose

Pairs = tuple[tuple[int, int], ...]
"""Pairs of tensors, by their places in an update: one, and another that may be the same."""

_Keys = dict[str, str]
"""By key of a memory under which the second tensor of a pair stands, the first one's."""

_APART: _Keys = {"": ""}
"""Of a pair whose second tensor has a memory that the first one lacks: no memory has this key."""


@dataclass(frozen=True)
class Tied:
    """Sends the second tensor of a pair only if it differs from the first.

    The names of a ``state_dict`` do not say which of them are one tensor, and the copies of a layer
    begin equal, too. So each message begins with a bit for every pair, filled up to whole bytes.
    The bit is 1 if both tensors of the update are equal to the bit, and so is what the memory has
    of both. Such a pair travels as its first tensor. The inner compressor writes the rest, and its
    memory has both names.

    Args:
        inner: the compressor that sends.
        pairs: by the places of the tensors; see ``pairs_of``.

    Example:
        >>> from compressors import Raw, compress
        >>> update = {"a": torch.ones(2), "b": torch.ones(2)}
        >>> 8 * len(compress(Tied(Raw(), ((0, 1),)), update)[0].payload)  # 24 of header
        96
    """

    codec_id: ClassVar[str] = "tied"
    keeps: ClassVar[tuple[str, ...] | None] = None
    inner: Compressor
    pairs: Pairs

    def __post_init__(self) -> None:
        plain(self)
        check_compressor("tied", self.inner)

    @property
    def needs_seed(self) -> bool:
        return self.inner.needs_seed

    def init(self, template: Tensors) -> State:
        """The inner memory; of each pair both tensors have the first one's."""
        state = self.inner.init(template)
        keys = (pair for of_pair in self._keys(template) for pair in of_pair.items())
        return state | {b: state[a] for b, a in keys if a in state}

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        check_whose(self.inner, state)
        names, same, copied = list(update), [], _Keys()
        for (first, other), keys in zip(self.pairs, self._keys(update), strict=True):
            equal = torch.equal(update[names[first]], update[names[other]]) and all(
                a in state and b in state and torch.equal(state[a], state[b])
                for b, a in keys.items()
            )
            same.append(equal)
            copied |= keys if equal else {}
        with out.span("header"):
            out.uints(np.packbits(same), 8)
        sources = self._sources(names, same)
        part = {name: update[name] for name in names if name not in sources}
        inner_state = {key: x for key, x in state.items() if key not in copied}
        sent, after = self.inner.write(part, inner_state, out, seed)
        after = after | {b: after[a] for b, a in copied.items()}
        return {name: sent[sources.get(name, name)] for name in names}, after

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        with bits.span("header"):
            same = np.unpackbits(bits.uints(-(-len(self.pairs) // 8), 8, np.uint8))
        sources = self._sources(list(template), same[: len(self.pairs)])
        part = {name: x for name, x in template.items() if name not in sources}
        update = self.inner.read(bits, part, seed)
        bits.sent |= {b: bits.sent[a] for b, a in sources.items() if a in bits.sent}
        return {n: update[sources[n]].clone() if n in sources else update[n] for n in template}

    def bound_on(self, d: int) -> Bound:
        """The inner compressor's."""
        return bound(self.inner, d)

    def _sources(self, names: list[str], same: Iterable[bool]) -> dict[str, str]:
        """By name of a tensor that is the same as the first of its pair, the first one's name."""
        pairs = zip(self.pairs, same, strict=True)
        return {names[other]: names[first] for (first, other), equal in pairs if equal}

    def _keys(self, template: Tensors) -> tuple[_Keys, ...]:
        return _keys(self, tuple(template), tuple(x.shape for x in template.values()))


@lru_cache(maxsize=64)
def _keys(
    method: Tied, names: tuple[str, ...], shapes: tuple[torch.Size, ...]
) -> tuple[_Keys, ...]:
    """Of each pair, which keys of the memory are the second tensor's, and which the first one's.

    A tensor's keys are those that the memory lacks without it, whatever the names are.
    """
    template = {
        name: torch.empty(shape, dtype=torch.float32, device="meta")
        for name, shape in zip(names, shapes, strict=True)
    }
    names_held = list(method.inner.init(template))

    def of(place: int) -> list[str]:
        others = method.inner.init({n: x for n, x in template.items() if n != names[place]})
        return [key for key in names_held if key not in others]

    pairs = ((of(first), of(other)) for first, other in method.pairs)
    return tuple(dict(zip(b, a, strict=False)) if len(b) <= len(a) else _APART for a, b in pairs)


def pairs_of(tensors: Tensors) -> Pairs:
    """The tensors that may be one: of one shape, equal to the bit, and of more than one value.

    Tensors that begin with one value for all entries, as biases and norms do, say nothing.

    Example:
        >>> x = torch.arange(3.0)
        >>> pairs_of({"a": x, "b": torch.ones(3), "c": torch.ones(3), "d": x.clone()})
        ((0, 3),)
    """
    first: dict[object, int] = {}
    pairs = []
    for place, x in enumerate(tensors.values()):
        if x.numel() < 2 or bool((x == x.reshape(-1)[0]).all()):
            continue
        values = x.detach().cpu().contiguous().numpy().tobytes()
        first_place = first.setdefault((x.shape, x.dtype, values), place)
        if first_place != place:
            pairs.append((first_place, place))
    return tuple(pairs)
