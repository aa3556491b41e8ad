"""How a method is tuned at a budget: the same number of trials for each, one after the other.

First every delay at the rate where the search begins; then, at the best delay, rates three times
higher and lower than the best so far, and when both are tried, steps half and a quarter as long;
at last a rate beyond the ends.
"""

from collections.abc import Mapping, Sequence
from math import inf, log10, sqrt

Trial = tuple[int, float]
"""A delay n, and the factor on the rate."""

FACTOR = 3.0
_MOST = 100.0


def next_trial(tried: Mapping[Trial, float], delays: Sequence[int], most: int) -> Trial | None:
    """What is tried next; None: nothing, ``most`` trials are done.

    Args:
        tried: the loss of every trial so far, infinite where it diverged.
        delays: those at which a message fits the budget, upwards.
        most: how many trials there are to be.

    Example:
        >>> next_trial({}, [1, 10], 4), next_trial({(1, 1.0): 0.3}, [1, 10], 4)
        ((1, 1.0), (10, 1.0))
        >>> next_trial({(1, 1.0): 0.3, (10, 1.0): 0.2}, [1, 10], 4)
        (10, 3.0)
    """
    for delay in delays:
        if (delay, 1.0) not in tried and len(tried) < most:
            return delay, 1.0
    if len(tried) >= most or not tried:
        return None
    delay, rate = best(tried)
    if all(loss == inf for loss in tried.values()):
        return delay, round(min(f for _, f in tried) / FACTOR, 6)
    ladder = sorted(factor for n, factor in tried if n == delay)
    steps = (FACTOR, sqrt(FACTOR), sqrt(sqrt(FACTOR)))
    about = [factor for step in steps for factor in (rate * step, rate / step)]
    for factor in (*about, ladder[-1] * FACTOR, ladder[0] / FACTOR):
        near = any(abs(log10(factor / other)) < 0.1 for other in ladder)  # of a power of ten
        if 1 / _MOST <= factor <= _MOST and not near:
            return delay, round(factor, 6)
    return None


def best(tried: Mapping[Trial, float]) -> Trial:
    """The trial of the least loss; of equals the first."""
    return min(tried, key=lambda trial: tried[trial])
