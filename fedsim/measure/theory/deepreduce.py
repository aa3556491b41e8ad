"""Bloom filters in theory: Lemmas 5 and 6 and Remark 2 of Kostopoulou et al. 2021.

``sent`` is r, the number of indices in the filter; ``d`` the entries of the tensor; ``epsilon`` the
rate of false positives.
"""

import math

LN2 = math.log(2)


def filter_bits(sent: float, epsilon: float) -> float:
    """m = -r ln eps / (ln 2)^2, the size of the best filter (Remark 2); real, not rounded up.

    Example:
        >>> [round(filter_bits(1, epsilon), 3) for epsilon in (0.01, 0.001, 0.0001)]
        [9.585, 14.378, 19.17]
    """
    _check_rate(epsilon)
    return -sent * math.log(epsilon) / LN2**2


def filter_hashes(epsilon: float) -> float:
    """k = -ln eps / ln 2, how many hash functions that filter has (Remark 2); real.

    Example:
        >>> round(filter_hashes(0.001), 3)
        9.966
    """
    _check_rate(epsilon)
    return -math.log(epsilon) / LN2


def expected_positives(sent: float, d: float, epsilon: float) -> float:
    """E|P| = r + eps (d - r): how many indices the filter answers for.

    Lemma 5 prints it as an upper bound on |P|; it is a mean.

    Example:
        >>> round(expected_positives(1, 100, 0.001), 3)
        1.099
    """
    _check_rate(epsilon)
    return sent + epsilon * (d - sent)


def p0_bits_an_index(share: float, epsilon: float, value_bits: float = 32) -> float:
    """Expected bits per index under policy P0: the filter, and the values of false positives.

    ``share`` is r / d. The values of the r true ones are not in it.

    Example:
        >>> [round(p0_bits_an_index(0.01, epsilon), 1) for epsilon in (0.001, 0.004, 0.01)]
        [17.5, 24.2, 41.3]
    """
    extra = expected_positives(share, 1, epsilon) / share - 1
    return filter_bits(1, epsilon) + value_bits * extra


def p0_delta(sent: float, d: float, epsilon: float) -> float:
    """beta = E|P| / d: delta of top-r or random-r with false positives' true values (Lemma 6).

    Example:
        >>> p0_delta(10, 1000, 0.001) > 10 / 1000
        True
    """
    return expected_positives(sent, d, epsilon) / d


def p1_expected_error(sent: float, positives: float) -> float:
    """E||g_P - C(g)||^2 / ||g_P||^2 of policy P1: 1 - r/|P|, r of |P| indices at random.

    Not in the paper, whose Lemma 8 takes k1 as given: its mean is r^2 / |P|.

    Example:
        >>> round(p1_expected_error(100, 110), 4)
        0.0909
    """
    return 1 - sent / positives


def _check_rate(epsilon: float) -> None:
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon is {epsilon}: a rate of false positives lies between 0 and 1")
