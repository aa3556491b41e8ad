"""Rules for quantizers: the bound on k values, and bits per value and per vector.

Quantizers that send means project onto what they can say, as does a sign with the mean
magnitude: their error is orthogonal to what is decoded, and ``compose`` holds for them.
"""

import math
from typing import Any

from compressors.kernels.centroids import LEVELS
from compressors.theory.bound import (
    Bound,
    compose_omegas,
    contraction,
    exact,
    neither,
    unbiased,
)
from compressors.theory.dithering import natural_omega, standard_omega


def float32(_: Any, k: int) -> Bound:
    """Lossless."""
    return exact()


def float16(_: Any, k: int) -> Bound:
    """None: its range is narrower than that of updates."""
    return neither("below 2^-25 all is lost; relative error at most 2^-11 in 2^-14 to 65504")


def bfloat16(_: Any, k: int) -> Bound:
    """Half a step of 2^-7 of each entry."""
    return contraction(1 - 2.0**-16, "relative error at most 2^-8, denormal numbers apart")


def mean(_: Any, k: int) -> Bound:
    """delta = 1 / k: values of one sign, so (sum v)^2 >= sum v^2."""
    return contraction(1 / max(k, 1), "1 / k: values of one sign; one entry against k - 1 zeros")


def natural(one: Any, k: int) -> Bound:
    """1/8 (Theorem 3), 8/9 for the nearer power; none for a narrow window of exponents."""
    window = f"2^{one.lowest} to 2^{one.highest}"
    if one.bits < 9:
        return neither(f"entries are cut above {window.split()[2]}; omega = 1/8 in {window}")
    if one.rounding == "nearest":
        return contraction(8 / 9, f"within a third of each entry in {window}")
    return unbiased(1 / 8, f"Theorem 3 (Horváth et al. 2022), for entries in {window} and zero")


def dither(one: Any, k: int) -> Bound:
    """Theorem 7 or its standard twin, a bucket at a time; Theorem 5 for a compressed norm."""
    entries = max(1, k if one.bucket is None else min(k, one.bucket))
    norm, natural_levels = float(one.norm), one.kind == "natural"
    omega = (natural_omega if natural_levels else standard_omega)(entries, one.levels, norm)
    source = "Theorem 7" if natural_levels else "Table 1: kappa d^(1/r) / u"
    if one.norm_code == "cnat":
        omega, source = compose_omegas(omega, 1 / 8), f"{source}; Theorem 5 for the norm"
    return unbiased(omega, f"{source} (Horváth et al. 2022)")


def terngrad(one: Any, k: int) -> Bound:
    """(sqrt k - 1) / 2, the most of ||x||_inf ||x||_1 / ||x||^2 - 1; clipping is biased."""
    if one.clip is not None:
        return neither("clipping is biased; without it omega = (sqrt(d) - 1) / 2")
    return unbiased((math.sqrt(max(k, 1)) - 1) / 2, "(sqrt(d) - 1) / 2, reached")


def minmax(one: Any, k: int) -> Bound:
    """k / (2 (2^b - 1)^2): (greatest - least)^2 <= 2 ||x||^2 (Suresh et al. 2017)."""
    return unbiased(k / (2 * (2**one.bits - 1) ** 2), "d / (2 (2^b - 1)^2) (Suresh et al. 2017)")


def codebook(_: Any, k: int) -> Bound:
    """None: the step does not scale."""
    return neither("the step is absolute and values outside the grid are cut; "
                   "inside unbiased, at most step^2 / 4 per entry")  # fmt: skip


def cint(_: Any, k: int) -> Bound:
    """None (Theorem 4)."""
    return neither("unbiased, but no omega is finite: near 0 the second moment is |x|, not x^2 "
                   "(Theorem 4 of Horváth et al. 2022); at most 1/4 per entry")  # fmt: skip


def sign(_: Any, k: int) -> Bound:
    """None: the magnitude is fixed."""
    return neither("the magnitude does not follow the values")


def scaled_sign(_: Any, k: int) -> Bound:
    """||v||_1^2 / (k ||v||_2^2), at least 1 / k (Karimireddy et al. 2019)."""
    return contraction(1 / max(k, 1), "at least ||x||_1^2 / (d ||x||_2^2) >= 1 / d")


def onebit(_: Any, k: int) -> Bound:
    """At least 1 / k, and one over the longest column."""
    return contraction(1 / max(k, 1), "at least 1 / d; one over the length of a column")


def magnitude(one: Any, k: int) -> Bound:
    """1 / k for means; none for minima."""
    if one.value == "min":
        return neither("the smallest magnitude may be anything above 0: delta tends to 0")
    return contraction(1 / max(k, 1), "at least 1 / d: ||x||_1^2 / (d ||x||_2^2)")


def lloyd(one: Any, k: int) -> Bound:
    """1 / k for one bit and the least error (as l1_sign, by block); of more bits see ``spread``."""
    if one.scale == "unbiased":
        return neither(
            "unbiased over rotations drawn uniformly: 0.571, 0.133, 0.0358, 0.0096 of the squared "
            "norm with 1 to 4 bits; Hadamard's small blocks are biased"
        )
    delta = lloyd_spread(one.bits) / max(k, 1)
    return contraction(delta, "ours: at least 1 / d for one bit, times 4 c C / (c + C)^2")


def lloyd_spread(bits: int) -> float:
    """4 c C / (c + C)^2 of the least and the greatest level: how far from equal magnitudes.

    Magnitudes and levels rise together, so <v, Q> >= ||v||_1 ||Q||_1 / k (Chebyshev), and
    ||Q||_1^2 is at least this part of k ||Q||^2 (Kantorovich). Hence the cosine of v and Q has
    cos^2 >= this times ||v||_1^2 / (k ||v||^2).
    """
    least, greatest = LEVELS[bits][0], LEVELS[bits][-1]
    return 4 * least * greatest / (least + greatest) ** 2


def bins(_: Any, k: int) -> Bound:
    """min(1, 2 / k): no means are worse than two, of what is below the mean m and of the rest.

    These two hold k m^2 + (sum |x - m|)^2 / k at least, and a sum of numbers that cancel has
    (sum |y|)^2 >= 2 sum y^2.
    """
    return contraction(min(1.0, 2 / max(k, 1)), "ours: 2 / d, where one entry is above the mean "
                       "and one below; far more for spread values")  # fmt: skip


def steps(one: Any, k: int) -> Bound:
    """4 m^2 / (4 m^2 + k - 1), m = 2^(b - 1) - 1 steps: the largest arrives, others lose half one.

    No error exceeds its entry or half a step. Most is lost where all others are half a step.
    """
    entries = max(1, k if one.bucket is None else min(k, one.bucket))
    square = 4 * (2 ** (one.bits - 1) - 1) ** 2
    return contraction(square / (square + entries - 1), "ours: 4 m^2 / (4 m^2 + d - 1), reached")


def sketch(_: Any, k: int) -> Bound:
    """At least 1 / k: one entry may share its bucket with all others."""
    return contraction(1 / max(k, 1), "at least 1 / d: a bucket's mean; far more for spread values")


def dither_side(one: Any, k: int) -> float:
    """Bits of the norms."""
    buckets = 1 if one.bucket is None else -(-k // one.bucket)
    return buckets * (9 if one.norm_code == "cnat" else 32)


def width(alphabet: int) -> int:
    """Bits of a symbol of equal width.

    Example:
        >>> width(1), width(3), width(512)
        (0, 2, 9)
    """
    return (alphabet - 1).bit_length()
