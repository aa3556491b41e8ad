"""Golomb position coding (Sattler et al. 2018, Algorithms 3 and 4)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import check_rising
from compressors.errors import PayloadError
from compressors.kernels import golomb
from compressors.settings import check_one_of, check_share, plain

_PHI = (math.sqrt(5) + 1) / 2
_LEAST = 2.0**-40  # remainders stay far below the 64 bits of a word
KINDS = ("rice", "exact", "fit")
ORDERS = ("interleaved", "split")
_FIT_BITS = 6  # a fitted parameter is below 64


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


def expected_position_bits(p: float) -> float:
    """Bits per position for random positions of density ``p`` (Sattler et al. 2018, equation 5).

    Example:
        >>> round(expected_position_bits(0.01), 5)
        8.10791
    """
    b = rice_parameter(p)
    return b - 1 / math.expm1(2**b * math.log1p(-p)) if p < 1 else b + 1.0


def golomb_parameter(p: float) -> int:
    """The best m of any Golomb code for geometric gaps of density ``p``, seldom a power of two.

    The least m with (1 - p)**m + (1 - p)**(m + 1) <= 1.

    Source: Gallager & Van Voorhis 1975 (Optimal source codes for geometrically distributed
    integer alphabets).

    Example:
        >>> [golomb_parameter(p) for p in (0.5, 0.1, 0.01, 0.001)]
        [1, 7, 69, 693]
    """
    check_share("p", p)
    if p == 1:
        return 1
    return max(1, math.ceil(math.log(2 - p) / -math.log1p(-p)))


def fitted_parameter(indices: np.ndarray) -> int:
    """The number of low bits with which Rice codes of these very gaps are shortest.

    Sorted ``indices`` (k,), k >= 1. With the mean mu of gap - 1 the best lies between
    log2(2 (mu + 1) / 3), rounded down, and log2(mu), rounded up; the lowest of equals is taken.

    Source: Kiely 2004 (Selecting the Golomb parameter in Rice coding), section III.

    Example:
        >>> fitted_parameter(np.array([9, 19, 29])), fitted_parameter(np.array([0, 1, 2]))
        (2, 0)
    """
    mean = (int(indices[-1]) + 1 - indices.size) / indices.size
    low = max(0, math.floor(math.log2(2 * (mean + 1) / 3)))
    high = max(low, math.ceil(math.log2(mean)) if mean > 1 else 0)
    return min(range(low, high + 1), key=lambda b: int(golomb.count_rice_bits(indices, b)))


@dataclass(frozen=True)
class Golomb:
    """Gaps between positions as Golomb codes, by default the paper's Rice codes.

    ``p`` fixes the density from which the parameter follows; None takes k / n of the tensor
    at hand, which both sides know. ``kind`` is "rice" (b* of the paper), "exact" (the best m
    that need not be a power of two, with remainders in truncated binary) or "fit" (the best
    Rice parameter for the gaps at hand, carried in 6 bits; it takes no ``p``). ``order`` is
    "interleaved" as in the paper, or "split": all unary parts, then all remainders, of the
    same length. A kind alone may take the place of ``p``: ``golomb(exact)``.

    Raises ``ValueError`` for a ``p`` that is not a share, and for other kinds and orders.

    Example:
        >>> Golomb("exact") == Golomb(kind="exact")
        True
    """

    codec_id: ClassVar[str] = "golomb"
    p: float | None = None
    kind: str = "rice"
    order: str = "interleaved"
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        if self.p in KINDS and self.kind == "rice":
            object.__setattr__(self, "kind", self.p)
            object.__setattr__(self, "p", None)
        check_one_of("golomb: kind", self.kind, KINDS)
        check_one_of("golomb: order", self.order, ORDERS)
        if self.p is None:
            return
        check_share("golomb: p", self.p)
        if self.p < _LEAST:
            raise ValueError(f"golomb: p is {self.p}: the least density is {_LEAST} (2**-40)")
        if self.kind == "fit":
            raise ValueError(f"golomb: p is {self.p}: a fitted parameter takes none")

    def _m(self, k: int, n: int, indices: np.ndarray | None = None) -> int:
        """The parameter that both sides know; that of the ``indices`` where it is fitted."""
        if indices is not None and self.kind == "fit":
            return 1 << fitted_parameter(indices)
        p = k / n if self.p is None else self.p
        return golomb_parameter(p) if self.kind == "exact" else 1 << rice_parameter(p)

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        if indices.size == 0:
            return 0
        m = self._m(indices.size, n, indices)
        choice_bits = _FIT_BITS if self.kind == "fit" else 0
        return choice_bits + int(
            golomb.count_golomb_bits(indices, m)
            if m & (m - 1)
            else golomb.count_rice_bits(indices, _log2(m))
        )

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        check_rising(indices, n)
        k = indices.size
        if k == 0:
            return indices
        m = self._m(k, n, indices)
        if self.kind == "fit":
            out.uint(_log2(m), _FIT_BITS)
        out.reserve(k * (1 + (m - 1).bit_length()) + int(indices[-1]) // m)
        if self.order == "split":
            out.position = golomb.encode_split(indices, m, out.words, out.position)
        elif m & (m - 1):
            out.position = golomb.encode_golomb(indices, m, out.words, out.position)
        else:
            out.position = golomb.encode_rice(indices, _log2(m), out.words, out.position)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where the code runs past the end or past n."""
        if k == 0:
            return np.empty(0, np.int64)
        if self.kind == "fit":
            low = bits.uint(_FIT_BITS)
            if low > (n - 1).bit_length():  # than an index has
                raise PayloadError(f"golomb: gaps of {low} low bits in a tensor of {n} entries")
            m = 1 << low
        else:
            m = self._m(k, n)
        bits.need(k * m.bit_length())  # at least a zero and the shorter remainder
        indices, parameter, kernel = np.empty(k, np.int64), m, golomb.decode_golomb
        if self.order == "split":
            kernel = golomb.decode_split
        elif not m & (m - 1):
            kernel, parameter = golomb.decode_rice, _log2(m)
        refusal = f"Golomb positions run past the payload's end or past entry {n - 1}"
        bits.decode(kernel, n, parameter, indices, refusals=[refusal])
        return indices


def _log2(m: int) -> int:
    return m.bit_length() - 1
