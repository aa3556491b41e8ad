"""Means over seeds with their intervals, ties, and how many repetitions a paired test needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from statistics import fmean, stdev

CONFIDENCE = 0.95

POWER = 0.8
"""The chance with which a difference that is there is to be found."""

_MOST = 10_000


@dataclass(frozen=True)
class Mean:
    """A mean and half the width of its interval, NaN of one value.

    ``count`` is the number of values; infinite ones (a target that was not reached) make the mean
    infinite.
    """

    value: float
    half: float
    count: int


def mean(values: Sequence[float]) -> Mean:
    """The mean of a few values and its interval of 95 %, by Student's t.

    Example:
        >>> accuracy = mean([0.9, 0.92, 0.94])
        >>> round(accuracy.value, 3), round(accuracy.half, 3)
        (0.92, 0.05)
    """
    if not values or not all(map(isfinite, values)):
        return Mean(inf if values else nan, nan, len(values))
    if len(values) == 1:
        return Mean(values[0], nan, 1)
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    t = float(stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2))
    return Mean(fmean(values), t * stdev(values) / sqrt(len(values)), len(values))


def wilson(share: float, count: float) -> tuple[float, float]:
    """The interval of 95 % of a share of ``count`` independent samples (Wilson 1927).

    With z = 1.96 and n samples: (share + z^2 / 2n ± z sqrt(share (1 - share) / n + z^2 / 4n^2))
    / (1 + z^2 / n). It holds what chance is in the choice of the samples, and none of training's.

    Args:
        share: from 0 to 1.
        count: of samples, above 0.

    Returns:
        The lower and the upper end, in [0, 1].

    Example:
        >>> low, high = wilson(0.95, 600)
        >>> round(low, 4), round(high, 4)
        (0.9295, 0.9648)
    """
    from scipy.special import ndtri

    z = float(ndtri(0.5 + CONFIDENCE / 2))
    middle = share + z * z / (2 * count)
    half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    below = 1 + z * z / count
    return max(0.0, (middle - half) / below), min(1.0, (middle + half) / below)


def half_of(deviation: float, seeds: int, freedom: int) -> float:
    """Half the width of the interval of 95 % of a mean of so many seeds, by Student's t.

    ``deviation``: the sample standard deviation, with ``freedom`` degrees of freedom, which are
    more than seeds - 1 where several settings share it.
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * deviation / sqrt(seeds)


def tied(first: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two lots of values, of the same seeds in order, cannot be told apart.

    They can where the interval of the mean of their differences leaves 0 out, or where all
    differences are the same and not 0. One seed tells nothing apart. Values that are not finite
    must be of the same seeds, and are left out.

    Example:
        >>> tied([0.90, 0.91, 0.92], [0.80, 0.81, 0.83]), tied([0.9, 0.8], [0.8, 0.9])
        (False, True)
    """
    if [isfinite(a) for a in first] != [isfinite(b) for b in other]:
        return False
    differences = [a - b for a, b in zip(first, other, strict=True) if isfinite(a)]
    if len(differences) < 2:
        return True
    difference = mean(differences)
    return abs(difference.value) <= difference.half


def repetitions(difference: float, deviation: float, tests: int = 1) -> int | None:
    """The fewest pairs with which a paired t-test finds a difference in four cases of five.

    The power of n pairs is P(T > t). T has Student's noncentral distribution with n - 1 degrees of
    freedom and the noncentrality abs(difference) / deviation * sqrt(n); t is the two-sided critical
    value at 5 % (Cohen 1988, chapter 2). The far tail is left out. Of several tests it is that at
    5 % over their number, the first step of Holm's correction: more pairs than needed where other
    tests find a difference, too.

    Args:
        difference: the mean difference that is to be found.
        deviation: the standard deviation of the paired differences, in the same unit.
        tests: how many tests are corrected together.

    Returns:
        The number of pairs, 2 or more; None where no number up to 10,000 is enough, or where
        difference or deviation is not finite or is 0.

    Example:
        >>> repetitions(0.5, 1.0), repetitions(-1.0, 1.0), repetitions(0.0, 1.0)
        (34, 10, None)
        >>> repetitions(0.5, 1.0, tests=15)
        62
    """
    if not (isfinite(difference) and isfinite(deviation) and difference and deviation > 0):
        return None
    from scipy.special import stdtrit  # scipy.stats takes a second to import
    from scipy.stats import nct

    effect = abs(difference) / deviation

    def power(pairs: int) -> float:
        """The power of so many pairs."""
        critical = float(stdtrit(pairs - 1, 1 - 0.025 / tests))
        return float(nct.sf(critical, pairs - 1, effect * sqrt(pairs)))

    if power(2) >= POWER:
        return 2
    low, high = 2, 4
    while power(high) < POWER:
        low, high = high, 2 * high
        if low > _MOST:
            return None
    while high - low > 1:  # power(low) is too little, power(high) is enough
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high if high <= _MOST else None
