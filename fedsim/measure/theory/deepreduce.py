"""Bloom filters and curve fitting in theory: the lemmas of Kostopoulou et al. 2021.

``sent`` is r, the number of indices in the filter; ``d`` the entries of the tensor; ``epsilon`` the
rate of false positives. Lemma numbers are the appendix's; its Lemma 10 is Lemma 1 of the text.
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


def false_positive_rate(bits: float, hashes: float, sent: float) -> float:
    """(1 - e^(-k r / m))^k (Lemma 2).

    Example:
        >>> round(false_positive_rate(filter_bits(50, 0.01), filter_hashes(0.01), 50), 12)
        0.01
    """
    return float((-math.expm1(-hashes * sent / bits)) ** hashes)


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


def deterministic_policy_error(num_chosen: float, sent: float) -> float:
    """1 - |I1| / r: relative error of an inherently sparse gradient (Lemma 7 i).

    ``num_chosen`` of the ``sent`` true indices are chosen. Lemma 7 (ii), 1 - r / d for a sparsified
    one, is ``deterministic_policy_error(r, d)``; both are means over random positions.

    Example:
        >>> deterministic_policy_error(90, 100)
        0.1
    """
    return (sent - num_chosen) / sent


def random_policy_errors(
    num_chosen: float, wrong: float, sent: float, positives: float
) -> tuple[float, float]:
    """E1 and E2 of Lemma 8, relative to ||g_P||^2: 1 - k1/r and 1 - k2/(|P| - r).

    The first takes all of g_P to lie in the true support and the second none of it. Their sum
    bounds the error (Lemma 8 iii).

    Example:
        >>> random_policy_errors(4, 2, 6, 10)  # Figure 14
        (0.33333333333333337, 0.5)
    """
    return 1 - num_chosen / sent, 1 - wrong / (positives - sent) if positives > sent else 0.0


def p1_expected_error(sent: float, positives: float) -> float:
    """E||g_P - C(g)||^2 / ||g_P||^2 of policy P1: 1 - r/|P|, r of |P| indices at random.

    Not in the paper, whose Lemma 8 takes k1 as given: its mean is r^2 / |P|.

    Example:
        >>> round(p1_expected_error(100, 110), 4)
        0.0909
    """
    return 1 - sent / positives


def constant_fit_error(variation: float, knots: int) -> float:
    """M / (2 p + 2): piece-wise constants with p knots, largest error (Lemma 9).

    Example:
        >>> constant_fit_error(8.0, 3)
        1.0
    """
    return variation / (2 * knots + 2)


def linear_fit_error(slope_variation: float, knots: int) -> float:
    """2 M / p^2: piece-wise lines with p knots, largest error (Lemma 10).

    Example:
        >>> linear_fit_error(8.0, 4)
        1.0
    """
    return 2 * slope_variation / knots**2


def linear_fit_distance(slope_variation: float, knots: int, d: int) -> float:
    """2 sqrt(d) M / p^2: the same as a distance of vectors (Remark 5).

    Example:
        >>> linear_fit_distance(8.0, 4, d=100)
        10.0
    """
    return math.sqrt(d) * linear_fit_error(slope_variation, knots)


def linear_knots(slope_variation: float) -> int:
    """ceil(2 sqrt(M)): the paper's number of pieces, which depends on the gradient's scale.

    Example:
        >>> linear_knots(4.0), linear_knots(1e-6)
        (4, 1)
    """
    return math.ceil(2 * math.sqrt(slope_variation))


def constant_knots(variation: float) -> int:
    """ceil(M / sqrt(2) - 1), the same for constants (Remark 4).

    Example:
        >>> constant_knots(8.0)
        5
    """
    return max(0, math.ceil(variation / math.sqrt(2) - 1))


def sorted_distance(cosine: float) -> float:
    """||x - x_S||^2 / ||x||^2 = 2 (1 - cos): a vector against itself in order (Lemma 3).

    The paper leaves out the square on the left.

    Example:
        >>> sorted_distance(0.75)
        0.5
    """
    return 2 * (1 - cosine)


def second_moment(delta: float, biased: bool) -> float:
    """E||C(g)||^2 / ||g||^2 of a delta-compressor: at most 2 - delta, or twice that (Lemma 4).

    Example:
        >>> second_moment(0.5, biased=False), second_moment(0.5, biased=True)
        (1.5, 3.0)
    """
    return (2 - delta) * (2 if biased else 1)


def fitted_second_moment(
    delta: float, fit: float, cosine: float, cosine_back: float, biased: bool, printed: bool = False
) -> float:
    """E||C(g)||^2 / ||g||^2 after piece-wise lines: Lemma 11.

    ``fit`` is d M^2 / (p^4 ||g||^2), ``cosine`` between the sparse gradient and its sorted
    form, ``cosine_back`` between the lines and what is rebuilt. For a biased compressor the
    paper's last step leaves out a factor 2 of its own inequality; ``printed`` gives equation
    11 as printed, otherwise what the proof supports.

    Example:
        >>> fitted_second_moment(0.5, 0.0, 1.0, 1.0, biased=False)
        3.0
        >>> fitted_second_moment(0.5, 0.0, 1.0, 1.0, biased=True)
        4.0
    """
    size = second_moment(delta, biased)
    sorting = 2 * sorted_distance(cosine) * size
    fitting = 4 * sorted_distance(cosine_back) * (4 * fit + size)
    separate = sorting + 16 * fit + 2 * fitting
    if biased and not printed:
        return 2 * (2 * (1 - delta) + 2 * separate) + 2
    return 2 * (1 - delta + separate) + 2


def _check_rate(epsilon: float) -> None:
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon is {epsilon}: a rate of false positives lies between 0 and 1")
