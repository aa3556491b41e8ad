"""Shamir's secret sharing over the field of p = 2**255 - 19 elements."""

import hashlib
from collections.abc import Iterable, Sequence

PRIME = 2**255 - 19
SHARE_BYTES = 32  # of a share, and of a secret


def polynomial(secret: int, threshold: int, seed: int) -> list[int]:
    """The coefficients of f, whose values at 1, 2, ... are the shares of a secret.

        f(x) = secret + sum_{j=1}^{threshold-1} a_j x^j  mod p

    Any ``threshold`` of the shares give f(0), the secret. Fewer are independent of it.

    Args:
        secret: 0 to p - 1.
        threshold: 1 or more.
        seed: of the coefficients a_j, which SHA-512 draws.

    Source: Shamir 1979 (How to share a secret, https://doi.org/10.1145/359168.359176).

    Example:
        >>> shares = [share_at(x, polynomial(7, threshold=2, seed=1)) for x in (1, 3)]
        >>> join_shares(lagrange_weights([1, 3]), shares)
        7
    """
    return [secret, *(_drawn(seed, j) for j in range(1, threshold))]


def share_at(x: int, coefficients: Sequence[int]) -> int:
    """f(x)."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value


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


def join_shares(weights: Iterable[int], shares: Iterable[int]) -> int:
    """The secret, f(0); ``weights``: of the shares' points."""
    return sum(w * y for w, y in zip(weights, shares, strict=True)) % PRIME


def _drawn(seed: int, number: int) -> int:
    digest = hashlib.sha512(f"shamir/{seed}/{number}".encode()).digest()
    return int.from_bytes(digest, "little") % PRIME
