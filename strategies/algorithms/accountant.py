"""What Gaussian noise promises: the privacy loss of several rounds, exact and without sampling.

A round that adds noise of standard deviation z C to a sum that one client moves by C at most, is a
Gaussian mechanism of noise multiplier z. Rounds of multipliers z_1, z_2, ... are together one of
``mu = sqrt(sum of 1 / z_t^2)``, where mu is the distance of the two means over the deviation. That
holds with equality, also where what is asked in a round follows from the rounds before it.
"""

import math

import torch

_FAR = 200  # halvings of an interval: more than a float has digits


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta with which a Gaussian mechanism is (epsilon, delta)-private.

    ``delta = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)``

    Args:
        mu: above 0: the sensitivity over the noise's standard deviation, of several rounds together
            ``sqrt(sum of 1 / z_t^2)``.
        epsilon: 0 at least.

    Source: Balle & Wang 2018 (Improving the Gaussian mechanism for differential privacy,
    https://arxiv.org/abs/1805.06530), Theorem 8; several rounds: Dong, Roth & Su 2022 (Gaussian
    differential privacy, https://arxiv.org/abs/1905.02383), Corollary 3.3.

    Example:
        >>> round(delta_of(1.0, 1.0), 6)
        0.126937
    """
    one, other = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    first, second = _log_cdf(one), epsilon + _log_cdf(other)
    return max(0.0, math.exp(first) - math.exp(min(second, first)))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon with which a Gaussian mechanism is (epsilon, delta)-private.

    Args:
        mu: as ``delta_of``; 0: nothing was released.
        delta: in (0, 1).

    Returns epsilon; where its last digit is open, the larger.

    Example:
        >>> round(epsilon_of(1.0, 1e-5), 4)
        4.3772
    """
    if mu == 0 or delta_of(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_of(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(_FAR):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if delta_of(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _log_cdf(x: float) -> float:
    """log Phi(x), of the standard normal distribution."""
    return float(torch.special.log_ndtr(torch.tensor(x, dtype=torch.float64, device="cpu")))
