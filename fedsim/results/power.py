"""The power of Student's t test: how many repetitions a paired test needs."""

from math import isfinite, sqrt

POWER = 0.8
"""The chance with which a difference that is there is to be found."""

_MOST = 10_000


def repetitions(difference: float, deviation: float, level: float = 0.05) -> int | None:
    """The fewest pairs with which a paired t-test finds a difference in four cases of five.

    The power of n pairs is P(T > t). T has Student's noncentral distribution with n - 1 degrees of
    freedom and the noncentrality abs(difference) / deviation * sqrt(n); t is the two-sided critical
    value at ``level`` (Cohen 1988, chapter 2). The far tail is left out.

    Args:
        difference: the mean difference that is to be found.
        deviation: the standard deviation of the paired differences, in the same unit.
        level: the two-sided level of the test.

    Returns:
        The number of pairs, 2 or more; None where no number up to 10,000 is enough, or where
        difference or deviation is not finite or is 0.

    Example:
        >>> repetitions(0.5, 1.0), repetitions(-1.0, 1.0), repetitions(0.0, 1.0)
        (34, 10, None)
    """
    if not (isfinite(difference) and isfinite(deviation) and difference and deviation > 0):
        return None
    from scipy.special import stdtrit  # scipy.stats takes a second to import
    from scipy.stats import nct

    effect = abs(difference) / deviation

    def power(pairs: int) -> float:
        """The power of so many pairs."""
        critical = float(stdtrit(pairs - 1, 1 - level / 2))
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
