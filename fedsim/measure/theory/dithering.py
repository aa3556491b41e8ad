"""Random dithering, natural and standard: Theorems 7 and 8 of Horváth et al. 2022.

Levels are given from 1 down to 0: ``natural_levels(s)`` halves, ``standard_levels(u)`` steps
evenly. ``norm`` is p of the p-norm, 1 <= p <= inf. ``compressors.bounds`` has omega of both, which
the quantizers use.
"""

import math
from collections.abc import Sequence

import numpy as np


def natural_levels(s: int) -> tuple[float, ...]:
    """1, 1/2, ..., 2^(1-s), 0: the s levels of D_nat, and zero (section 3.2).

    Example:
        >>> natural_levels(3)
        (1.0, 0.5, 0.25, 0.0)
    """
    _check(s)
    return (*(2.0**-j for j in range(s)), 0.0)


def standard_levels(u: int) -> tuple[float, ...]:
    """1, (u - 1)/u, ..., 0: the u even steps of D_sta.

    Example:
        >>> standard_levels(2)
        (1.0, 0.5, 0.0)
    """
    _check(u)
    return tuple((u - j) / u for j in range(u + 1))


def variance_gain(s: int) -> float:
    """How many times more variance D_sta has with as many levels as D_nat: 2^(s-1) / s (Theorem 8).

    Example:
        >>> variance_gain(4), variance_gain(8)
        (2.0, 16.0)
    """
    _check(s)
    return 2.0 ** (s - 1) / s


def relative_variance(values: Sequence[float], levels: Sequence[float], norm: float = 2) -> float:
    """E||D(x) - x||^2 / ||x||^2 of one vector, exactly: no draws.

    An entry between the levels l < u has the variance (y - l)(u - y), y its share of the norm.

    Example:
        >>> round(relative_variance([1.0] * 1000, natural_levels(4)), 4)
        2.9528
    """
    x = np.abs(np.asarray(values, np.float64))
    length = float(np.linalg.norm(x, ord=norm))
    if length == 0:
        return 0.0
    return float(_spread(x / length, levels).sum() * length**2 / (x**2).sum())


def equal_entries_variance(d: int, levels: Sequence[float]) -> float:
    """``relative_variance`` of ``d`` equal entries, without making them.

    Example:
        >>> round(equal_entries_variance(10**6, natural_levels(8)), 4)
        6.8125
    """
    share = d**-0.5
    return float(_spread(np.array([share]), levels)[0]) / share**2


def gaussian_variance(d: int, levels: Sequence[float]) -> float:
    """``relative_variance`` of ``d`` independent normal entries for the 2-norm, d large.

    The norm is taken as sqrt(d) and the mean over the normal density is an integral.

    Example:
        >>> few, many = gaussian_variance(10**5, natural_levels(6)), standard_levels(6)
        >>> round(gaussian_variance(10**5, many) / few, 2)
        5.96
    """
    z = np.linspace(0, 10, 50_001)
    z = (z[1:] + z[:-1]) / 2
    density = np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2) * (10 / z.size)
    y = np.minimum(z / math.sqrt(d), 1.0)
    return float((_spread(y, levels) * density).sum() * d)


def _spread(shares: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """The variance of each rounded share (0 <= y <= 1) of the norm."""
    rising = np.array(levels[::-1])
    shares = np.minimum(shares, 1.0)  # the largest entry's share may round above 1
    upper = np.clip(np.searchsorted(rising, shares), 1, rising.size - 1)
    return (shares - rising[upper - 1]) * (rising[upper] - shares)


def _check(levels: int) -> None:
    if levels < 1:
        raise ValueError(f"levels is {levels}: dithering has at least 1 level above zero")
