"""A random choice of entries before another codec, CocktailSGD, and a code of positions."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from compressors.arguments import read_tensor, write_tensor
from compressors.base import (
    Compressor,
    SentTensor,
    VectorCodec,
    nominal_count,
    scatter,
    tensor_seed,
)
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, compose, contraction
from compressors.coders.golomb import Golomb
from compressors.errors import PayloadError
from compressors.quantize.bins import Steps
from compressors.settings import check_codec, check_share, plain
from compressors.sparsify.randk import drawn
from compressors.sparsify.threshold import Identity
from compressors.sparsify.topk import TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.rotate import Transform

_CHOOSE, _INNER = 1, 2  # purposes of a tensor's seed


@dataclass(frozen=True)
class Subset(Transform):
    """The codec on a random fraction ``q`` of the entries, drawn by the message's seed.

        S ~ U(subsets of k entries),  k = max(1, round(q n))
        x_hat on S = C(x on S), else 0

    The first stage of CocktailSGD (Wang et al. 2023, section 3): which entries are drawn follows
    from the seed and costs nothing, and positions that the codec writes count among the drawn
    entries alone, so that they are shorter. Drawn entries have no factor n / k: use it inside
    ``ef``.

    Raises ``ValueError`` unless 0 < q <= 1, and for anything but a codec of one tensor.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("subset(0.5, topk(0.5) | float32)"), {"w": torch.ones(8)})
        >>> packet.sent["w"].count, packet.spans["values"]
        (2, 64)
    """

    codec_id: ClassVar[str] = "subset"
    q: float
    codec: VectorCodec
    needs_seed: ClassVar[bool] = True
    mixes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        check_share("subset: q", self.q)
        check_codec("subset", self.codec)

    def count(self, n: int) -> int:
        """How many of ``n`` entries are drawn, which are those that the codec sees."""
        return nominal_count(self.q, n)

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        flat = x.detach().reshape(-1)
        places = self._places(flat, seed)
        sent = write_tensor(self.codec, flat[places], out, tensor_seed(seed, _INNER))
        if isinstance(sent.indices, Tensor):
            places = places[sent.indices]
        return SentTensor(sent.values, places, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        places = self._places(template, seed)
        part = template.new_empty(places.numel())
        values = read_tensor(self.codec, bits, part, tensor_seed(seed, _INNER))
        bits.places = places if bits.places is None else places[bits.places]
        return scatter(values, places, template.shape)

    def _places(self, template: Tensor, seed: int) -> Tensor:
        n = template.numel()
        return drawn(n, self.count(n), tensor_seed(seed, _CHOOSE))

    def bound_on(self, d: int) -> Bound:
        """The share that is drawn, then the codec."""
        k = self.count(d)
        drawn = contraction(k / d, "the share that is drawn, in the mean")
        return compose(drawn, bound(self.codec, k))


def cocktailsgd(p: float, drawn: float = 0.1, bits: int = 4) -> Compressor:
    """CocktailSGD (Wang et al. 2023, section 3): drawn at random, then the largest, then few bits.

        cocktailsgd(p, drawn, bits) =
            ef(per_tensor(subset(drawn, topk(p / drawn) | steps(bits) | golomb)))

    A fraction ``p`` of all entries travels, the largest of a random fraction ``drawn``. Positions
    count among those that were drawn. At p = drawn all of them travel:
    ``ef(per_tensor(subset(drawn, steps(bits))))``. Raises ``ValueError`` unless 0 < p <= drawn <= 1
    and bits is 2 to 8.

    Example:
        >>> from compressors import text
        >>> text(cocktailsgd(0.02))
        'ef(per_tensor(subset(0.1, topk(0.2) | steps(4) | golomb)))'
    """
    check_share("cocktailsgd: drawn", drawn)
    check_share("cocktailsgd: p", p)
    if p > drawn:
        raise ValueError(f"cocktailsgd: p is {p}: at most drawn, which is {drawn}")
    largest = Identity() if p == drawn else TopK(round(p / drawn, 12))
    return ErrorFeedback(PerTensor(Subset(drawn, Pipeline(largest, Steps(bits)))))


def write_places(places: np.ndarray, n: int, out: BitWriter) -> None:
    """Writes the ascending positions of a tensor of ``n`` entries; none take one bit."""
    with out.span("header"):
        out.gamma(places.size + 1)
    if places.size:
        with out.span("positions"):
            Golomb().write_positions(places, n, out, 0)


def read_places(bits: BitReader, n: int) -> np.ndarray:
    """The positions that ``write_places`` wrote.

    Raises ``PayloadError`` for more than ``n`` of them.
    """
    with bits.span("header"):
        k = bits.gamma() - 1
    if k > n:
        raise PayloadError(f"{k} entries announced for a tensor of {n}")
    if k == 0:
        return np.zeros(0, np.int64)
    with bits.span("positions"):
        return Golomb().read_positions(bits, n, k, 0)
