"""Bits that positions cost in theory, where each entry is sent with probability p by itself.

Gaps between sent entries are then geometric. Nothing here counts a message's bits: those are
the length of the message.
"""

import math

from compressors.coders.golomb import expected_position_bits
from compressors.settings import check_share


def ideal_position_bits(p: float) -> float:
    """Expected bits per position with b* (Sattler et al. 2018, equation 5); 0 for p = 1.

    Example:
        >>> round(ideal_position_bits(0.001), 5)
        11.49465
    """
    return 0.0 if p == 1 else expected_position_bits(p)


def rice_bits(p: float, b: int) -> float:
    """Equation 5 with any ``b`` in the place of b*.

    The paper prints 8.38 bits for p = 0.01: that is b = 7, and b* is 6.

    Example:
        >>> round(rice_bits(0.01, 7), 2), round(rice_bits(0.01, 6), 2)
        (8.38, 8.11)
    """
    check_share("p", p)
    if b < 0:
        raise ValueError(f"b is {b}: a number of bits is at least 0")
    return b - 1 / math.expm1(2**b * math.log1p(-p)) if p < 1 else b + 1.0


def entropy_bits(p: float) -> float:
    """Bits per position that no code can go below for random positions: H(p) / p.

    Example:
        >>> round(entropy_bits(0.01), 5)
        8.07931
    """
    check_share("p", p)
    if p == 1:
        return 0.0
    return -math.log2(p) - (1 - p) * math.log1p(-p) / (p * math.log(2))


def golomb_bits(p: float, m: int) -> float:
    """Expected bits per gap by a Golomb code of any whole ``m``, remainders in truncated binary.

    Example:
        >>> round(golomb_bits(0.01, 69), 5), golomb_bits(0.01, 64) == rice_bits(0.01, 6)
        (8.10501, True)
    """
    check_share("p", p)
    if m < 1:
        raise ValueError(f"m is {m}: a Golomb code's m is at least 1")
    if p == 1:
        only = _short_remainders(m) > 0  # remainder 0 is a short one
        return float((m - 1).bit_length() + 1 - int(only))
    log = math.log1p(-p)
    covered = -math.expm1(m * log)
    short = -math.expm1(_short_remainders(m) * log) / covered
    return (m - 1).bit_length() + 1 / covered - short


def _short_remainders(m: int) -> int:
    """How many of the ``m`` remainders take one bit less than the others."""
    return (1 << (m - 1).bit_length()) - m
