"""Rules for sparsifiers: their bound, and how many values they leave.

A sparsifier's error is what it drops, which is orthogonal to what it keeps: unless it scales
values it is a projection, and ``compose`` holds for it.
"""

import math
from dataclasses import dataclass
from typing import Any

from compressors.base import nominal_count
from compressors.sparsify.sampled import MOST, sample_size
from compressors.theory.bound import Bound, contraction, exact, neither, unbiased


@dataclass(frozen=True)
class Kept:
    """What is known of a sparsifier on d entries.

    ``most`` is the greatest number of values it leaves, ``mean`` the expected one, None where the
    values decide. ``projects``: values stay as they are.
    """

    bound: Bound
    most: int
    mean: float | None
    projects: bool = True


def identity(_: Any, d: int) -> Kept:
    """Every entry."""
    return Kept(exact("every entry"), d, d)


def topk(one: Any, d: int) -> Kept:
    """delta = k / d: the k largest of d squares are at least their share (Remark 1 of DeepReduce).

    By a sample's threshold at least 0.49 of it: fewer than k / 2 are sent only where as many of
    the sample, 25 or more, lie among them as are expected among k; by Chernoff's bound the
    chance is below (e / 4)^12.5 < 0.01.
    """
    k = one.count(d)
    if one.sample is None or sample_size(d, one.p, one.sample) >= d:
        return Kept(contraction(k / d, "k / d"), k, k)
    delta = max(1 / d, 0.49 * k / d)
    return Kept(contraction(delta, "ours: 0.49 k / d, about k / d"), min(d, MOST * k), k)


def chunk_topk(one: Any, d: int) -> Kept:
    """The least share of a chunk that is kept: of the whole ones, or of the last."""
    size = min(one.size, d)
    lengths = [size, d % size or size]
    share = min(nominal_count(one.p, m) / m for m in lengths)
    k = one.count(d)
    return Kept(contraction(share, "k / m of the worst chunk"), k, k)


def dryden(one: Any, d: int) -> Kept:
    """Each sign keeps max(1, round(p m)) of its m entries: the least share is at m = 1.5 / p."""
    delta = 1 / min(d, max(1, math.floor(1.5 / one.p)))
    most = min(d, math.floor(one.p * d) + 2)
    return Kept(contraction(delta, "ours: 2 p / 3, from rounding on each side"), most, one.count(d))


def threshold(one: Any, d: int) -> Kept:
    """None: all may lie below the threshold."""
    reason = f"where all entries lie below {one.t:g} nothing is sent: error at most d t^2"
    return Kept(neither(reason), d, None)


def nonzero(_: Any, d: int) -> Kept:
    """Lossless."""
    return Kept(exact(), d, None)


def randk(one: Any, d: int) -> Kept:
    """omega = d / k - 1 scaled, delta = k / d plain."""
    k = one.count(d)
    if one.scaled:
        return Kept(unbiased(d / k - 1, "d / k - 1"), k, k)
    return Kept(contraction(k / d, "k / d, in the mean"), k, k)


def bernoulli(one: Any, d: int) -> Kept:
    """omega = 1 / q - 1 scaled (S_q of Horváth et al. 2022), delta = q plain."""
    if one.scaled:
        share = max(1, round(one.q * 2**32)) / 2**32  # in the steps of the noise
        return Kept(unbiased(1 / share - 1, "1 / q - 1"), d, one.q * d)
    return Kept(contraction(one.q, "q, in the mean"), d, one.q * d)


def gspar(one: Any, d: int) -> Kept:
    """omega = d / k - 1: the least variance of all chances that sum to k, equal ones among them."""
    k = one.count(d)
    return Kept(unbiased(d / k - 1, "at most d / k - 1, where all entries are equal"), d, k)


def rtopk(one: Any, d: int) -> Kept:
    """delta = k / d plain; scaled by M / k it is (2 - M / k) M / d, while M < 2 k."""
    k, pool = one.count(d), nominal_count(one.m, d)
    if not one.scaled:
        return Kept(contraction(k / d, "k / d, in the mean"), k, k)
    if pool >= 2 * k:
        reason = "unbiased for topk(m) alone; scaled by m / p >= 2 it is not a contraction"
        return Kept(neither(reason), k, k, projects=False)
    delta = (2 - pool / k) * pool / d
    return Kept(contraction(delta, "ours: (2 - m / p) m"), k, k, projects=False)


def blocks(one: Any, d: int) -> Kept:
    """Lossless without p; else the share of the blocks, as for topk."""
    if one.p is None:
        return Kept(exact("only zeros are left out"), d, None)
    units = -(-d // one.b)
    chosen = one.count(units)
    most = min(d, chosen * one.b)
    return Kept(contraction(chosen / units, "the share of the blocks"), most, most)


def one_sided(one: Any, d: int) -> Kept:
    """delta = 1 / (1 + max(d - 1, min(k, d - 1)^2)): ours, for the paper states none.

    Let the side of the greater mean m be chosen. If it has one entry, it keeps m^2; the k
    largest of the other side sum to at most k m, so their squares to at most (k m)^2, and every
    further one is at most m. More entries on the chosen side keep more than they add.
    (1, -k, -0, ...) reaches it.
    """
    k = one.count(d)
    return Kept(contraction(one_sided_delta(k, d), "ours: 1 / (1 + max(d - 1, k^2))"), k, k)


def one_sided_delta(k: int, d: int) -> float:
    """delta of the ``k`` entries of the stronger side of ``d``, as they are or as their mean.

    Example:
        >>> one_sided_delta(1, 100), one_sided_delta(20, 100)
        (0.01, 0.0024937655860349127)
    """
    return 1 / (1 + max(d - 1, min(k, d - 1) ** 2))
