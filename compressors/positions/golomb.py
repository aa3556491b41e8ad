"""Golomb position coding (Sattler et al. 2018, Algorithms 3 and 4)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.base import check_share
from compressors.bits import BitReader, BitWriter
from compressors.errors import PayloadError
from compressors.kernels import rice

_PHI = (math.sqrt(5) + 1) / 2
_LEAST = 2.0**-40  # remainders stay far below the 64 bits of a word


def rice_parameter(p: float) -> int:
    """b* of the paper: the number of low bits of a gap when a fraction ``p`` of entries is sent.

    b* = max(0, 1 + floor(log2(ln(phi - 1) / ln(1 - p)))), the best Rice parameter for
    geometric gaps.

    Example:
        >>> [rice_parameter(p) for p in (0.5, 0.1, 0.01, 0.001)]
        [0, 3, 6, 9]
    """
    check_share("golomb: p", p)
    if p == 1:
        return 0
    return max(0, 1 + math.floor(math.log2(math.log(_PHI - 1) / math.log1p(-p))))


def expected_bits(p: float) -> float:
    """Bits a position for random positions of density ``p`` (Sattler et al. 2018, equation 5).

    Example:
        >>> round(expected_bits(0.01), 5)
        8.10791
    """
    b = rice_parameter(p)
    return b + 1 / (1 - (1 - p) ** (2**b))


@dataclass(frozen=True)
class Golomb:
    """Gaps between positions as Rice codes, in the paper's interleaved order.

    ``p`` fixes the density from which b* follows; None takes k / n of the tensor at
    hand, which both sides know.
    """

    p: float | None = None
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.p is not None:
            check_share("golomb: p", self.p)
            if self.p < _LEAST:
                raise ValueError(f"golomb: p is {self.p}: the least density is {_LEAST} (2**-40)")

    def _b(self, k: int, n: int) -> int:
        return rice_parameter(k / n if self.p is None else self.p)

    def write_positions(
        self, indices: np.ndarray, n: int, out: BitWriter, seed: int
    ) -> np.ndarray:
        """Writes every index exactly."""
        k = indices.size
        if k:
            b = self._b(k, n)
            out.reserve(k * (1 + b) + (n >> b))
            out.position = rice.encode(indices, b, out.words, out.position)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where the code runs past the end or past n."""
        if k == 0:
            return np.empty(0, np.int64)
        b = self._b(k, n)
        bits.need(k * (1 + b))
        indices = np.empty(k, np.int64)
        position = rice.decode(bits.words, bits.position, bits.end, n, b, indices)
        if position < 0:
            raise PayloadError(f"Golomb positions run past the payload's end or past entry {n - 1}")
        bits.position = position
        return indices
