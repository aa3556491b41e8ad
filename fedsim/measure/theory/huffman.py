"""Entropies of the Huffman-based encoders (Gajjala et al. 2020), in bits."""

import math
from collections.abc import Sequence


def entropy(probabilities: Sequence[float]) -> float:
    """H(P), the least bits per character on average (section 2.1).

    Huffman's average length lies between H(P) and H(P) + 1 (Lemma 1).

    Example:
        >>> entropy([0.5, 0.25, 0.25])
        1.5
    """
    if any(p < 0 for p in probabilities) or abs(sum(probabilities) - 1) > 1e-9:
        raise ValueError("probabilities are not a distribution: at least 0 each, and 1 in sum")
    return -sum(p * math.log2(p) for p in probabilities if p > 0)


def shs_entropy(zeros: float, others: Sequence[float], cap: float = math.inf) -> float:
    """Entropy of the characters of SHS: others, and runs of zeros up to ``cap`` (section 3.3).

    ``zeros`` is p, the share of zeros; ``others`` the shares of the other states, 1 - p in sum.

    Example:
        >>> others = [0.05, 0.05, 0.2]  # the paper's example
        >>> round(shs_entropy(0.7, others, cap=5), 4), round(shs_entropy(0.7, others), 4)
        (2.8194, 3.3131)
    """
    if not 0 < zeros < 1 or abs(zeros + sum(others) - 1) > 1e-9:
        raise ValueError(f"zeros is {zeros} and others sum to {sum(others)}: together they are 1")
    positive = -sum(p * math.log2(p) for p in others if p > 0)
    if math.isinf(cap):
        return positive - zeros * math.log2(1 - zeros) - zeros * math.log2(zeros) / (1 - zeros)
    runs = [zeros**i * (1 - zeros) for i in range(1, int(cap))] + [zeros**cap]
    return positive - sum(p * math.log2(p) for p in runs)


def shs_cap_cost(zeros: float, cap: int) -> float:
    """Delta of Lemmas 2 and 3: H(P_cap) - H(P_inf). It is below zero: longer runs, more entropy.

    Example:
        >>> round(shs_cap_cost(0.7, 5), 4) == round(
        ...     shs_entropy(0.7, [0.3], 5) - shs_entropy(0.7, [0.3]), 4)
        True
    """
    return zeros ** (cap + 1) * math.log2(zeros) / (1 - zeros) + zeros**cap * math.log2(1 - zeros)


def bits_a_source_symbol(bits_a_token: float, tokens: int, symbols: int) -> float:
    """A run-length code's bits per token told as bits per symbol of the source.

    Entropies of tokens and of symbols cannot be compared otherwise: for ``0001002000100`` the
    7 run tokens have 1.9502 bits each and the 13 symbols 0.9913, so "H(P_RLH) <= H(P)" fails;
    a symbol costs 1.0501 bits by runs.

    Example:
        >>> tokens = entropy([2 / 7, 2 / 7, 2 / 7, 1 / 7])
        >>> round(tokens, 4), round(bits_a_source_symbol(tokens, 7, 13), 4)
        (1.9502, 1.0501)
        >>> round(entropy([10 / 13, 2 / 13, 1 / 13]), 4)
        0.9913
    """
    return bits_a_token * tokens / symbols
