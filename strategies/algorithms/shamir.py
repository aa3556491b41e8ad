"""Shamir's secret sharing over the field of 2**255 - 19 elements."""

import hashlib
from collections.abc import Mapping, Sequence

PRIME = 2**255 - 19
SHARE_BYTES = 32
"""Of a share, and of a secret."""


def split_secret(secret: int, threshold: int, count: int, seed: int) -> list[int]:
    """Shares of a secret: the i-th is f(i + 1); any ``threshold`` of them give the secret back.

        f(x) = secret + sum_{j=1}^{threshold-1} a_j x^j  mod p

    Fewer than ``threshold`` shares are independent of the secret.

    Args:
        secret: 0 to p - 1.
        threshold: 1 to ``count``.
        count: how many shares.
        seed: of the coefficients a_j, which SHA-512 draws.

    Source: Shamir 1979 (How to share a secret, https://doi.org/10.1145/359168.359176).

    Example:
        >>> shares = split_secret(7, threshold=2, count=3, seed=1)
        >>> join_shares({1: shares[0], 3: shares[2]}), join_shares({2: shares[1]}) == 7
        (7, False)
    """
    coefficients = [secret, *(_drawn(seed, j) for j in range(1, threshold))]
    return [_value(coefficients, x) for x in range(1, count + 1)]


def join_shares(shares: Mapping[int, int]) -> int:
    """The secret of shares by their x, the number of the share from 1 on: f(0)."""
    weights = lagrange_weights([*shares])
    return sum(w * y for w, y in zip(weights, shares.values(), strict=True)) % PRIME


def lagrange_weights(points: Sequence[int]) -> list[int]:
    """The weights of f at ``points`` in f(0): prod_{k != j} x_k / (x_k - x_j)  mod p."""
    weights = []
    for x in points:
        numerator = denominator = 1
        for other in points:
            if other != x:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - x) % PRIME
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return weights


def _value(coefficients: Sequence[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value


def _drawn(seed: int, number: int) -> int:
    digest = hashlib.sha512(f"shamir/{seed}/{number}".encode()).digest()
    return int.from_bytes(digest, "little") % PRIME
