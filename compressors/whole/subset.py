"""A random choice of entries before another codec; and the code of how many travel, and which."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.arguments import write_tensor
from compressors.base import ALL, SentTensor, VectorCodec, nominal_count, scatter, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, compose, contraction
from compressors.coders.golomb import Golomb
from compressors.errors import PayloadError
from compressors.settings import check_codec, check_share, plain
from compressors.sparsify.randk import drawn

_CHOOSE, _INNER = 1, 2  # purposes of a tensor's seed


@dataclass(frozen=True)
class Subset:
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

    def __post_init__(self) -> None:
        plain(self)
        check_share("subset: q", self.q)
        check_codec("subset", self.codec)

    def count(self, n: int) -> int:
        """How many of ``n`` entries are drawn."""
        return nominal_count(self.q, n)

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        flat = x.detach().reshape(-1)
        if flat.numel() == 0:
            return SentTensor(torch.zeros_like(x), ALL, x.shape)
        places = self._places(flat, seed)
        sent = write_tensor(self.codec, flat[places], out, tensor_seed(seed, _INNER))
        if isinstance(sent.indices, Tensor):
            places = places[sent.indices]
        return SentTensor(sent.values, places, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        if template.numel() == 0:
            return torch.zeros_like(template)
        places = self._places(template, seed)
        part = template.new_empty(places.numel())
        values = self.codec.read(bits, part, tensor_seed(seed, _INNER))
        bits.places = places if bits.places is None else places[bits.places]
        return scatter(values, places, template.shape)

    def _places(self, template: Tensor, seed: int) -> Tensor:
        n = template.numel()
        return drawn(n, self.count(n), tensor_seed(seed, _CHOOSE), template.device)

    def bound_on(self, d: int) -> Bound:
        """The share that is drawn, then the codec."""
        k = self.count(d)
        drawn = contraction(k / d, "the share that is drawn, in the mean")
        return compose(drawn, bound(self.codec, k))


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
