"""Bounds of a method: unbiased with omega, a contraction with delta, neither, or unknown.

For all x of d entries: an *unbiased* method has E C(x) = x and E||C(x) - x||^2 <= omega ||x||^2
(Horváth et al. 2022, Definition 2); a *contraction* has E||C(x) - x||^2 <= (1 - delta) ||x||^2 with
0 < delta <= 1 (Kostopoulou et al. 2021, equation 6). Exact arithmetic is meant: float32 rounds
sums, denormal numbers have fewer digits, and the largest saturate.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from compressors.grammar import is_foreign, shown

Class = Literal["unbiased", "contraction", "neither", "unknown"]


@dataclass(frozen=True)
class Bound:
    """The class of a method, its number, and where that comes from or why there is none.

    ``omega`` is set for "unbiased" alone and ``delta`` for "contraction" alone. "neither": no bound
    holds for every vector; "unknown": no rule is known.
    """

    kind: Class
    omega: float | None
    delta: float | None
    note: str

    @property
    def holds(self) -> bool:
        """Whether there is a bound."""
        return self.kind in ("unbiased", "contraction")


def unbiased(omega: float, note: str) -> Bound:
    """Unbiased with a relative variance of at most ``omega``."""
    check_omega("omega", omega)
    return Bound("unbiased", omega, None, note)


def contraction(delta: float, note: str) -> Bound:
    """Takes at least the fraction ``delta`` of the squared norm away from the error."""
    if not 0 < delta <= 1:
        raise ValueError(f"delta is {delta}: it lies above 0 and at most 1")
    return Bound("contraction", None, delta, note)


def neither(reason: str) -> Bound:
    """No bound holds for every vector, or none of two together is known: says why."""
    return Bound("neither", None, None, reason)


def unknown(name: str) -> Bound:
    """No rule is known of what is called ``name``."""
    return Bound("unknown", None, None, f"no rule known of {name}")


def exact(note: str = "lossless") -> Bound:
    """C(x) = x."""
    return unbiased(0.0, note)


def compose_omegas(first: float, second: float) -> float:
    """omega of one unbiased method on top of another: w1 w2 + w1 + w2 (Theorem 5).

    Example:
        >>> compose_omegas(1 / 8, 1 / 8)
        0.265625
    """
    return first * second + first + second


def compose(first: Bound, then: Bound, projects: bool = True) -> Bound:
    """The bound of ``then`` applied to what ``first`` leaves (Theorem 5 where both are unbiased).

    ``projects``: whether the values that a biased ``first`` decodes are orthogonal to its error, as
    for a sparsifier that keeps entries as they are, and for means. Both errors then add up, and a
    contraction stays one with delta1 delta2, or with delta1 (1 - omega2) for omega2 < 1. Otherwise
    the triangle inequality is all there is.

    Example:
        >>> top, natural = contraction(0.01, "topk"), unbiased(1 / 8, "cnat")
        >>> compose(top, natural).delta
        0.00875
    """
    for one, other in ((first, then), (then, first)):
        if not one.holds:
            return one
        if one.omega == 0:
            return other
    if first.omega is not None and then.omega is not None:
        both = compose_omegas(first.omega, then.omega)
        return unbiased(both, "Theorem 5 (Horváth et al. 2022)")
    if first.omega is not None:
        return neither(f"unbiased, then biased ({then.note}): no rule is known")
    delta = real(first.delta)
    error = math.sqrt(1 - delta)
    if projects:  # ||C1 x||^2 is ||x||^2 less the first error, and the second error adds to that
        delta *= 1 - then.omega if then.omega is not None else real(then.delta)
    elif then.omega is not None:  # ||C1 x|| <= (1 + e) ||x||; an unbiased error adds its square
        delta = 1 - (error**2 + then.omega * (1 + error) ** 2)
    else:
        delta = 1 - (error + math.sqrt(1 - real(then.delta)) * (1 + error)) ** 2
    if delta <= 0:
        number = f"delta = {then.delta:.4g}" if then.omega is None else f"omega = {then.omega:.4g}"
        return neither(f"biased, then {number}: too much for a contraction, unless scaled")
    return contraction(delta, f"{first.note}; then {then.note}")


def as_contraction(one: Bound) -> float | None:
    """delta of a method read as a contraction: 1 - omega where that is above zero."""
    if one.omega is not None:
        return 1 - one.omega if one.omega < 1 else None
    return one.delta


def worst(bounds: list[Bound]) -> Bound:
    """What holds where each of several methods handles a part of an update of its own."""
    for one in bounds:
        if not one.holds:
            return one
    if all(one.omega is not None for one in bounds):
        return max(bounds, key=lambda one: real(one.omega))
    deltas = [as_contraction(one) for one in bounds]
    if None in deltas:
        return neither("some parts are unbiased with omega >= 1 and others biased")
    return contraction(min(map(real, deltas)), "the smallest delta of its parts")


def natural_omega(d: int, s: int, norm: float = 2) -> float:
    """omega of D_nat^{p,s} on ``d`` entries (Theorem 7).

    1/8 + d^(1/r) 2^(1-s) min(1, d^(1/r) 2^(1-s)), with ``norm`` the p of the p-norm, 1 <= p <= inf,
    and r = min(p, 2).

    Example:
        >>> round(natural_omega(1000, 4), 4), natural_omega(10**6, 8)
        (4.0778, 7.9375)
    """
    _check_levels(s)
    return 0.125 + _tail(d, 2.0 ** (1 - s), norm)


def standard_omega(d: int, u: int, norm: float = 2) -> float:
    """omega of D_sta^{p,u} on ``d`` entries: kappa d^(1/r) / u (Table 1; QSGD for p = 2).

    Example:
        >>> standard_omega(10**6, 128) == natural_omega(10**6, 8) - 1 / 8
        True
    """
    _check_levels(u)
    return _tail(d, 1 / u, norm)


def _tail(d: int, step: float, norm: float) -> float:
    """What entries below the first level above zero, at ``step``, can add to the variance."""
    if not norm >= 1:
        raise ValueError(f"norm is {norm!r}: p of a p-norm is at least 1")
    spread = d ** (1 / min(norm, 2)) * step
    return spread * min(1.0, spread)


def _check_levels(levels: int) -> None:
    if levels < 1:
        raise ValueError(f"levels is {levels}: dithering has at least 1 level above zero")


def check_omega(name: str, value: float) -> None:
    """Raises ``ValueError`` unless ``value`` is a finite number of at least zero."""
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"{name} is {value}: a relative variance is finite and at least 0")


def real(value: float | None) -> float:
    """A number that is there, as the class of its bound says."""
    assert value is not None
    return value


def with_memory(inner: Bound) -> Bound:
    """What holds of the update and a memory together."""
    return Bound(inner.kind, inner.omega, inner.delta, f"{inner.note}; of update plus memory")


@dataclass(frozen=True)
class Sparsity:
    """The bound of a sparsifier on d entries, and how many values it leaves.

    ``capacity`` is the greatest number of values it leaves, ``mean`` the expected one, None where
    the values decide. ``projects``: values stay as they are.
    """

    bound: Bound
    capacity: int
    mean: float | None
    projects: bool = True


def bound(thing: Any, d: int) -> Bound:
    """The class of a sparsifier, quantizer, codec or compressor on ``d`` entries, and its number.

    A class states it by a method ``bound_on(d)``, a sparsifier what it keeps by ``kept_of(d)``. The
    bound of a compressor holds for one tensor of ``d`` entries; with ``PerTensor`` an update of
    several has the worst of theirs. Where no rule is known the note says so. Raises ``ValueError``
    for d < 1.

    Example:
        >>> from compressors import parse
        >>> bound(parse("cnat"), 100).omega, bound(parse("topk(0.01) | cnat"), 1000).delta
        (0.125, 0.00875)
        >>> bound(parse("cint"), 100).kind
        'neither'
        >>> bound("mine", 100).note
        "no rule known of 'mine'"
    """
    if d < 1:
        raise ValueError(f"d is {d}: a vector has at least 1 entry")
    if _states(thing, "kept_of"):
        return sparsity(thing, d).bound
    stated: Bound = thing.bound_on(d) if _states(thing, "bound_on") else unknown(shown(thing))
    return stated


def sparsity(sparsifier: Any, d: int) -> Sparsity:
    """What a sparsifier leaves of ``d`` entries: any number of them where no rule is known."""
    if not _states(sparsifier, "kept_of"):
        return Sparsity(unknown(shown(sparsifier)), d, None)
    stated: Sparsity = sparsifier.kept_of(d)
    return stated


def _states(thing: Any, rule: str) -> bool:
    """Whether a class states a rule: one from outside the package does not inherit it."""
    return rule in vars(type(thing)) or (not is_foreign(thing) and hasattr(thing, rule))
