"""Table 1 of Horváth et al. 2022: how much sooner compressed SGD ends where only sending costs.

The speedup is 32 d over T' times the bits of an iteration; T' = (omega + 1)^theta is by how much
the iterations grow, theta = 1 for few workers or a small target and 0 for very many.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log2

from compressors.bounds import natural_omega, standard_omega


@dataclass(frozen=True)
class Speedup:
    """One row of the table: our range and what the paper prints.

    ``low`` is for theta = 1 and ``high`` for theta = 0; of a row with levels the best s at either
    end, which is what the printed ranges mean.
    """

    approach: str
    low: float
    high: float
    printed: str
    note: str


def speedup(d: int, omega: float, bits: float, theta: float = 1.0) -> float:
    """32 d / ((omega + 1)^theta bits), ``bits`` an iteration and worker.

    Example:
        >>> round(speedup(10**6, 1 / 8, 9e6), 3), round(speedup(10**6, 1 / 8, 9e6, theta=0), 3)
        (3.16, 3.556)
    """
    return 32 * d / ((omega + 1) ** theta * bits)


def standard_bits(d: int, s: int) -> float:
    """Bits of D_sta with 2^(s-1) levels: 31 + d (1 + s).

    The table prints 31 + d (2 + s); its own upper end, 15.9, needs 1 + s: a sign and
    s bits for a level.
    """
    return 31 + d * (1 + s)


def natural_bits(d: int, s: int) -> float:
    """Bits of D_nat with s levels, as printed: 31 + d (2 + log2 s).

    Example:
        >>> natural_bits(1000, 8)
        5031.0
    """
    return 31 + d * (2 + log2(s))


LevelBits = Callable[[int, int], float]
Omega = Callable[[int, int], float]
_LEVELS = range(1, 33)


def best_levels(
    d: int, omega: Omega, bits: LevelBits, theta: float, levels: Iterable[int] = _LEVELS
) -> int:
    """The s with the greatest speedup.

    Example:
        >>> best_levels(10**6, natural_omega, natural_bits, theta=1)
        14
    """
    return max(levels, key=lambda s: speedup(d, omega(d, s), bits(d, s), theta))


def table1(d: int = 10**6, share: float = 0.1) -> list[Speedup]:
    """The rows of Table 1, with q = ``share`` d entries kept and the 2-norm.

    Example:
        >>> [(round(row.low, 3), round(row.high, 3)) for row in table1()[1:4]]
        [(3.16, 3.556), (0.605, 6.046), (0.95, 10.691)]
    """
    q, width = share * d, log2(d)
    ratio = d / q
    return [
        Speedup("identity", 1.0, 1.0, "1", ""),
        _plain("cnat", d, 1 / 8, 9.0 * d, "3.2-3.6", ""),
        _plain("S_q", d, ratio - 1, (33 + width) * q, "0.6-6.0", f"q = {share:g} d"),
        _plain("cnat after S_q", d, 9 / 8 * ratio - 1, (10 + width) * q, "1.0-10.7",
               "Theorem 5: 9/8 d/q"),
        _best("D_sta, 2^(s-1) levels", d, lambda n, s: standard_omega(n, 2 ** (s - 1)),
              standard_bits, "1.8-15.9",
              "1 + s bits per coordinate, where 2 + s is printed: 15.9 needs it; 1.8 is what "
              "2 + s and kappa = 1 give"),
        _best("D_nat, s levels", d, natural_omega, natural_bits, "4.1-16.0",
              "4.1 is what kappa = 1 and cnat on top give (81/64 + 9/8 d^(1/r) 2^(1-s))"),
    ]  # fmt: skip


def _plain(name: str, d: int, omega: float, bits: float, printed: str, note: str) -> Speedup:
    return Speedup(name, speedup(d, omega, bits), speedup(d, omega, bits, 0.0), printed, note)


def _best(name: str, d: int, omega: Omega, bits: LevelBits, printed: str, note: str) -> Speedup:
    best = best_levels(d, omega, bits, 1.0)
    chosen = f"s = {best} and s = {best_levels(d, omega, bits, 0.0)}; {note}"
    return Speedup(name, _top(d, omega, bits, 1.0), _top(d, omega, bits, 0.0), printed, chosen)


def _top(d: int, omega: Omega, bits: LevelBits, theta: float) -> float:
    s = best_levels(d, omega, bits, theta)
    return speedup(d, omega(d, s), bits(d, s), theta)
