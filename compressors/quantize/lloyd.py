"""The nearest of 2**bits levels made for normal values, with a scale per block: EDEN and DRIVE."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, neither
from compressors.kernels import bins as kernel
from compressors.kernels.bins import LEVELS
from compressors.kernels.hadamard import block_sizes
from compressors.kernels.rounding import pick
from compressors.parts import BasePart, Place, Symbols
from compressors.settings import check_one_of, check_whole, plain

_LARGEST = float(torch.finfo(torch.float32).max)


@dataclass(frozen=True)
class Lloyd(BasePart):
    """Each value as the nearest of 2**bits levels, the best ones for normal values, times a scale.

        Q_i = sign(v_i) q,  q the level nearest to |v_i| sqrt(k) / ||v||
        v_hat = S Q,  S = ||v||^2 / <v, Q> (unbiased) or <v, Q> / ||Q||^2 (least)

    v are the k values of a block and sign(0) = 1. The levels are the centroids of the standard
    normal density (``compressors.kernels.bins``; for one bit q = sqrt(2 / pi)).

    Made for rotated values, which are nearly normal: ``rotate(lloyd(1))`` is DRIVE (Vargaftik et
    al. 2021, https://arxiv.org/abs/2105.08339, Algorithm 1) and ``rotate(lloyd(bits))`` is EDEN
    (Vargaftik et al. 2022, https://arxiv.org/abs/2108.08842, Algorithm 1).

    * ``unbiased``: the scale is ||v||^2 / <v, Q>. Over rotations drawn uniformly the mean of what
      arrives is what was sent. A Hadamard rotation is close to that for blocks of a hundred
      entries and more. For large blocks E||error||^2 / ||v||^2 is 0.571, 0.133, 0.0358 and 0.0096
      with 1, 2, 3 and 4 bits.
    * ``least``: the scale is <v, Q> / ||Q||^2, of least error: 0.363, 0.117, 0.0345 and 0.0095. Its
      error is orthogonal to what arrives: use it inside ``ef``.

    ``rotate`` turns a vector in blocks whose sizes are powers of two, the largest first. Each block
    has a scale of its own, a float32 number of side information; the papers pad to one block. One
    scale for all would be biased: blocks have different energies. Values must be in the order of
    the rotation: behind a sparsifier blocks are those of as many values. A block of zeros has scale
    0. A level that leaves float32 saturates.

    Args:
        bits: a value, 1 to 4.
        scale: ``"unbiased"`` or ``"least"``.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("lloyd(1, least)"), {"w": torch.tensor([3.0, -1.0])})
        >>> packet.sent["w"].decoded, packet.spans["values"], packet.spans["side"]
        (tensor([ 2., -2.]), 2, 32)
    """

    codec_id: ClassVar[str] = "lloyd"
    projects: ClassVar[bool] = True  # see compressors.bounds
    bits: int
    scale: str = "unbiased"

    def __post_init__(self) -> None:
        plain(self)
        check_whole("lloyd: bits", self.bits, 1, len(LEVELS))
        check_one_of("lloyd: scale", self.scale, ("unbiased", "least"))

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The level of each value; a scale per block is the side information."""
        alphabet = 1 << self.bits
        x = values.detach().contiguous().numpy()
        levels = np.array(LEVELS[self.bits])
        edges = (levels[1:] + levels[:-1]) / 2
        codes = np.empty(x.size, np.uint8)
        scales, start = [], 0
        for size in block_sizes(x.size):
            part = slice(start, start + size)
            # sums of squared values, of values times levels, of squared levels
            energy, both, square = kernel.nearest(x[part], edges, levels, codes[part])
            scale = 0.0
            if energy != 0:
                scale = energy / both if self.scale == "unbiased" else both / square
            scales.append(scale)
            start += size
        side = np.minimum(scales, _LARGEST).astype(np.float32)
        out.float32s(side)
        return Symbols(torch.from_numpy(codes), alphabet, side)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, np.ndarray]:
        """The scales (blocks,)."""
        return 1 << self.bits, bits.float32s(len(block_sizes(place.k)))

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """Scale times level, a float64 product rounded once."""
        codes, _, scales = symbols
        above = np.array(LEVELS[self.bits])
        levels = np.concatenate((-above[::-1], above))
        flat, start, table = codes.numpy(), 0, np.zeros(256, np.float32)
        values = np.empty(flat.size, np.float32)
        for size, scale in zip(block_sizes(flat.size), scales, strict=True):
            table[: levels.size] = np.clip(levels * np.float64(scale), -_LARGEST, _LARGEST)
            pick(table, flat[start : start + size], values[start : start + size])
            start += size
        return torch.from_numpy(values)

    def bound_on(self, k: int) -> Bound:
        """1 / k for one bit and the least error (as l1_sign, by block), times the spread."""
        if self.scale == "unbiased":
            return neither(
                "unbiased over rotations drawn uniformly: 0.571, 0.133, 0.0358, 0.0096 of the "
                "squared norm with 1 to 4 bits; Hadamard's small blocks are biased"
            )
        delta = lloyd_spread(self.bits) / max(k, 1)
        return contraction(delta, "ours: at least 1 / d for one bit, times 4 c C / (c + C)^2")


def lloyd_spread(bits: int) -> float:
    """4 c C / (c + C)^2 of the least and the greatest level: how far from equal magnitudes.

    Magnitudes and levels rise together, so <v, Q> >= ||v||_1 ||Q||_1 / k (Chebyshev), and
    ||Q||_1^2 is at least this part of k ||Q||^2 (Kantorovich). Hence the cosine of v and Q has
    cos^2 >= this times ||v||_1^2 / (k ||v||^2).
    """
    least, greatest = LEVELS[bits][0], LEVELS[bits][-1]
    return 4 * least * greatest / (least + greatest) ** 2
