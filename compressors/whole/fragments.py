"""Fragments of a model that travel in turn: each message has the tensors of one of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch

from compressors.base import Compressor, Sent, SentTensor, State, Tensors, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither
from compressors.errors import PayloadError, UpdateError
from compressors.settings import check_compressor, check_one_of, check_whole, plain
from compressors.whole.lift import InParts
from compressors.whole.memory import nest, unnest

NEXT_FRAGMENT = "turn"
"""In the memory: the fragment of the next message, 0, 1, ..."""

STRIDE, SEQUENTIAL = "stride", "sequential"


@dataclass(frozen=True)
class Fragments(InParts):
    """Sends the layers of one fragment by ``inner``; the next message has the next fragment.

        x_hat_t = C(x_t) if fragment(t) = turn, else 0
        turn <- (turn + 1) mod P

    P is ``count``, and t a tensor (Streaming DiLoCo, Douillard et al. 2025,
    https://arxiv.org/abs/2501.18512, section 2.2, with its patterns). A layer is the tensors whose
    names are equal up to the last dot. With ``stride`` layer l of L is in fragment l mod P, with
    ``sequential`` in floor(l P / L). The inner compressor has a memory for each fragment. The
    update's other fragments are neither sent nor remembered. In strategy ``diloco`` clients keep
    them until it is their turn.

    A message holds the number of its fragment: no bits for one fragment, or no entries. With fewer
    layers than fragments some messages hold nothing else.

    Args:
        inner: the compressor of a fragment.
        count: of fragments, 1 to 65535.
        order: ``stride`` or ``sequential``.

    Raises ``ValueError`` for another count or order.

    Example:
        >>> from compressors import compress, parse
        >>> method = parse("fragments(raw, 2)")
        >>> update = {"0.w": torch.ones(1), "1.w": torch.ones(1)}
        >>> first, memory = compress(method, update)
        >>> second, _ = compress(method, update, memory)
        >>> [[*one.counts.values()] for one in (first, second)]
        [[1, 0], [0, 1]]
    """

    codec_id: ClassVar[str] = "fragments"
    keeps: ClassVar[tuple[str, ...]] = (NEXT_FRAGMENT,)
    inner: Compressor
    count: int
    order: str = STRIDE

    def __post_init__(self) -> None:
        plain(self)
        check_compressor("fragments", self.inner)
        check_whole("fragments: count", self.count, 1, 65535)
        check_one_of("fragments: order", self.order, (STRIDE, SEQUENTIAL))

    @property
    def needs_seed(self) -> bool:
        return self.inner.needs_seed

    @property
    def by_key(self) -> dict[str, Compressor]:
        return {f"{i}": self.inner for i in range(self.count)}

    def init(self, template: Tensors) -> State:
        """The turn of fragment 0, and each fragment's memory under its number."""
        return {NEXT_FRAGMENT: torch.tensor(0, device="cpu")} | super().init(template)

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        """See ``Compressor.write``; ``UpdateError`` for a turn outside of 0 to ``count`` - 1."""
        turn = int(state.get(NEXT_FRAGMENT, 0))
        if not 0 <= turn < self.count:
            raise UpdateError(f"fragments: it is the turn of fragment {turn} of {self.count}")
        width = self._width(update)
        turn = turn if width else 0
        with out.span("header"):
            out.uint(turn, width)
        inner, part = self.parts(update)[turn]
        some, memory = inner.write(part, unnest(f"{turn}", state), out, tensor_seed(seed, turn))
        sent = {name: some[name] if name in some else _nothing(x) for name, x in update.items()}
        after = {key: x for key, x in state.items() if not key.startswith(f"{turn}/")}
        after |= nest(f"{turn}", memory)
        after[NEXT_FRAGMENT] = torch.tensor((turn + 1) % self.count, device="cpu")
        return sent, dict(sorted(after.items()))

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, torch.Tensor]:
        """See ``Compressor.read``; ``PayloadError`` for a fragment from ``count`` on."""
        with bits.span("header"):
            turn = bits.uint(self._width(template))
        if turn >= self.count:
            raise PayloadError(f"fragments: fragment {turn} of {self.count}")
        inner, part = self.parts(template)[turn]
        update = inner.read(bits, part, tensor_seed(seed, turn))
        bits.sent |= {name: 0 for name in template if name not in part}
        return {n: update[n] if n in part else _nothing(x).decoded for n, x in template.items()}

    def parts(self, tensors: Tensors) -> list[tuple[Compressor, dict[str, torch.Tensor]]]:
        """The inner compressor with the tensors of each fragment."""
        parts: list[tuple[Compressor, dict[str, torch.Tensor]]]
        parts = [(self.inner, {}) for _ in range(self.count)]
        for name, fragment in self.numbers(tensors).items():
            parts[fragment][1][name] = tensors[name]
        return parts

    def numbers(self, names: Iterable[str]) -> dict[str, int]:
        """The number of each tensor's fragment, by name.

        Args:
            names: of all tensors of the model, in its order.

        Example:
            >>> from compressors import Raw
            >>> Fragments(Raw(), 2).numbers(["0.w", "0.b", "1.w", "2.w"])
            {'0.w': 0, '0.b': 0, '1.w': 1, '2.w': 0}
        """
        layer_of = {name: name.rpartition(".")[0] or name for name in names}
        layers = {layer: place for place, layer in enumerate(dict.fromkeys(layer_of.values()))}
        if self.order == STRIDE:
            return {name: layers[layer] % self.count for name, layer in layer_of.items()}
        total = len(layers)
        return {name: layers[layer] * self.count // total for name, layer in layer_of.items()}

    def bound_on(self, d: int) -> Bound:
        """None: a message may leave out all entries that are not zero."""
        return neither("a message has one fragment alone")

    def _width(self, template: Tensors) -> int:
        """The bits of a fragment's number; none where the update has no entries."""
        return (self.count - 1).bit_length() if any(x.numel() for x in template.values()) else 0


def _nothing(x: torch.Tensor) -> SentTensor:
    """What the receiver sees of a tensor that does not travel."""
    values = torch.zeros(0, dtype=torch.float32, device=x.device)
    return SentTensor(values, torch.zeros(0, dtype=torch.int64, device=x.device), x.shape)
