"""The tables from a name to what theory knows of it; ``bound`` looks things up here.

Names are those that classes carry (``codec_id``), so that theory needs none of the classes and
those that ask it (``shrink``, ``ef``) may stand above it.
"""

import math
from collections.abc import Callable
from typing import Any

from compressors.base import nominal_count
from compressors.printing import is_foreign, name_of, shown
from compressors.theory import quantizers, sparsifiers
from compressors.theory.bound import (
    Bound,
    compose,
    contraction,
    exact,
    neither,
    unbiased,
    unknown,
    worst,
)
from compressors.theory.sparsifiers import Kept


def _pipeline(one: Any, d: int) -> Bound:
    """The sparsifier, then the quantizer on the values that are left (Theorem 5 or projections)."""
    if one.writes_positions and hasattr(one.positions, "shifts"):
        return neither(f"{shown(one.positions)} may change which entries arrive")
    pair = PAIRS.get((known_name(one.sparsify), known_name(one.quantize)))
    better = pair(one, d) if pair else None
    if better is not None:
        return better
    left = kept(one.sparsify, d)
    return compose(left.bound, bound(one.quantize, left.most), left.projects)


def _then(one: Any, d: int) -> Bound:
    return compose(bound(one.first, d), bound(one.second, d), known_name(one.first) in PROJECTIONS)


def _shrink(one: Any, k: int) -> Bound:
    """1 / (1 + omega): the least error of a multiple of an unbiased value."""
    omega = bound(one.inner, k).omega or 0.0
    return contraction(1 / (1 + omega), "1 / (1 + omega) (Basu et al. 2019)")


def _shared_mean(one: Any, d: int) -> Bound | None:
    """min(1 / k, k / d) of the k largest with their mean magnitude, or finer means.

    With the least of them at v, (sum)^2 / (k ||x||^2) is least where one is 1 and all others v, at
    either end of 0 <= v <= 1.
    """
    k = one.sparsify.count(d)
    finer = getattr(one.quantize, "value", "avg") != "min"
    if one.sparsify.sample is not None or not finer:
        return None
    return contraction(min(1 / k, k / d), "ours: min(1 / k, k / d)")


def _sbc(one: Any, d: int) -> Bound:
    """The mean of the stronger side: the same delta as the entries themselves, and reached too."""
    delta = sparsifiers.one_sided_delta(one.sparsify.count(d), d)
    return contraction(delta, "ours: 1 / (1 + max(d - 1, k^2)); the paper states none")


def _fit_poly(one: Any, k: int) -> Bound:
    """At least 1 / k where every piece has one sign: no fit is worse than its piece's mean."""
    if isinstance(one.segments, str) or one.segments < 2:
        return neither("one piece may hold both signs, and a constant through them be zero")
    return contraction(1 / max(k, 1), "ours: at least 1 / d, a piece's mean; far more for curves")


def _threelc(one: Any, d: int) -> Bound:
    """No entry's error exceeds it, and the largest is (s - 1) of itself off."""
    delta = one.sparsity * (2 - one.sparsity) / max(d, 1)
    return contraction(delta, "ours: s (2 - s) / d; the paper states none")


def _rotated(one: Any, d: int) -> Bound:
    """The codec's: norms stay. Of rotated values more is known of their levels.

    By Khintchine's inequality with its best constant (Szarek 1976) a rotated entry has
    E|y| >= ||x|| / sqrt(2 d), so that E||y||_1^2 >= d ||x||^2 / 2, whatever the block.
    """
    quantizer: Any = getattr(one.codec, "quantize", None)
    dense = known_name(getattr(one.codec, "sparsify", None)) == "identity"
    if dense and known_name(quantizer) == "lloyd" and quantizer.scale == "least":
        delta = quantizers.lloyd_spread(quantizer.bits) / 2
        return contraction(delta, "1 / 2 for one bit, in the mean (Vargaftik et al. 2021)")
    return bound(one.codec, d)


def _subset(one: Any, d: int) -> Bound:
    k = one.count(d)
    drawn = contraction(k / d, "the share that is drawn, in the mean")
    return compose(drawn, bound(one.codec, k))


def _bounded(one: Any, d: int) -> Bound:
    """d (bound spread)^2 of error, and spread^2 <= 2 ||x||^2, as for minmax."""
    lost = 2 * d * one.bound**2
    if lost >= 1:
        return neither("each error is within the bound, and d of them may exceed the update")
    return contraction(1 - lost, "1 - 2 d bound^2")


def _atomo(one: Any, d: int) -> Bound:
    """Of a matrix of at most sqrt(d) atoms: as gspar of its singular values."""
    share = min(1.0, one.rank / max(1, math.isqrt(d)))
    if one.scaled:
        return unbiased(1 / share - 1, "sqrt(d) / rank - 1 for a square matrix of equal atoms")
    return contraction(share, "rank / sqrt(d), in the mean: larger atoms are likelier")


def _low_rank(_: Any, d: int) -> Bound:
    return neither("a projection, so the error never exceeds the update, but one power iteration "
                   "may miss a matrix; delta = r / min(n, m) once it has converged")  # fmt: skip


def _dgc(one: Any, d: int) -> Bound:
    return _with_memory(contraction(nominal_count(one.p, d) / d, "k / d"))


def _with_memory(inner: Bound) -> Bound:
    return Bound(inner.kind, inner.omega, inner.delta, f"{inner.note}; of update plus memory")


SPARSIFIERS: dict[str, Callable[[Any, int], Kept]] = {
    "identity": sparsifiers.identity,
    "topk": sparsifiers.topk,
    "chunk_topk": sparsifiers.chunk_topk,
    "one_sided": sparsifiers.one_sided,
    "dryden": sparsifiers.dryden,
    "threshold": sparsifiers.threshold,
    "randk": sparsifiers.randk,
    "bernoulli": sparsifiers.bernoulli,
    "gspar": sparsifiers.gspar,
    "rtopk": sparsifiers.rtopk,
    "nonzero": sparsifiers.nonzero,
    "blocks": sparsifiers.blocks,
}
"""Each says what it keeps of d entries."""

RULES: dict[str, Callable[[Any, int], Bound]] = {
    "float32": quantizers.float32,
    "float16": quantizers.float16,
    "bfloat16": quantizers.bfloat16,
    "mean": quantizers.mean,
    "cnat": quantizers.natural,
    "dither": quantizers.dither,
    "terngrad": quantizers.terngrad,
    "minmax": quantizers.minmax,
    "codebook": quantizers.codebook,
    "cint": quantizers.cint,
    "sign": quantizers.sign,
    "l1_sign": quantizers.scaled_sign,
    "onebit": quantizers.onebit,
    "magnitude": quantizers.magnitude,
    "sketch": quantizers.sketch,
    "lloyd": quantizers.lloyd,
    "bins": quantizers.bins,
    "steps": quantizers.steps,
    "fit_poly": _fit_poly,
    "fit_dexp": lambda one, k: neither("the search for two rates promises no fit"),
    "then": _then,
    "shrink": _shrink,
    "pipeline": _pipeline,
    "rotate": _rotated,
    "dct": lambda one, d: bound(one.codec, d),  # orthonormal too
    "subset": _subset,
    "sz": _bounded,
    "inceptionn": lambda one, d: neither(f"the bound of 2^-{one.b} per entry is absolute"),
    "atomo": _atomo,
    "variance_based": lambda one, d: neither("what waits for a sign of its own may be everything"),
    "count_sketch": lambda one, d: neither("a collision in most rows may take all of an entry"),
    "adacomp": lambda one, d: neither("its magnitude is a mean of several bins' largest entries"),
    "threelc": _threelc,
    "sketchml": lambda one, d: neither("a collision may take most of the largest entry"),
    "raw": lambda one, d: exact(),
    "per_tensor": lambda one, d: bound(one.codec, d),
    "flat": lambda one, d: bound(one.codec, d),
    "by_name": lambda one, d: worst([bound(rule, d) for _, rule in one.rules]),
    "ef": lambda one, d: _with_memory(bound(one.inner, d)),
    "ef21": lambda one, d: _with_memory(bound(one.inner, d)),  # of the difference
    "diana": lambda one, d: _with_memory(bound(one.inner, d)),  # of update less shift
    "marina": lambda one, d: _with_memory(bound(one.inner, d)),  # of the difference
    "dgc": _dgc,
    "lowrank": _low_rank,
}
"""Quantizers (of d values), codecs, and compressors (of an update of one tensor of d entries)."""

PAIRS: dict[tuple[str, str], Callable[[Any, int], Bound | None]] = {
    ("one_sided", "mean"): _sbc,
    ("topk", "magnitude"): _shared_mean,
    ("topk", "l1_sign"): _shared_mean,
}
"""Pipelines of which more is known than of their parts (for some settings)."""

PROJECTIONS: frozenset[str] = frozenset(
    {"mean", "l1_sign", "onebit", "magnitude", "sketch", "fit_poly", "lloyd", "bins"}
)
"""Biased quantizers with a bound whose error is orthogonal to what they decode."""


def known_name(thing: Any) -> str:
    """The name under which theory may know ``thing``: none of a class from outside this package.

    Such a class may have the name of one of ours, and follow another rule.
    """
    if is_foreign(thing):
        return ""
    try:
        return name_of(thing)
    except ValueError:
        return ""


def bound(thing: Any, d: int) -> Bound:
    """The class of a sparsifier, quantizer, codec or compressor on ``d`` entries, and its number.

    Of a compressor the bound holds for one tensor of ``d`` entries; with ``PerTensor`` an
    update of several has the worst of theirs. Where no rule is known the note says so. Raises
    ``ValueError`` for d < 1.

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
    name = known_name(thing)
    if name in SPARSIFIERS:
        return kept(thing, d).bound
    return RULES[name](thing, d) if name in RULES else unknown(shown(thing))


def kept(sparsifier: Any, d: int) -> Kept:
    """What a sparsifier leaves of ``d`` entries: any number of them where no rule is known."""
    name = known_name(sparsifier)
    if name not in SPARSIFIERS:
        return Kept(unknown(shown(sparsifier)), d, None)
    return SPARSIFIERS[name](sparsifier, d)
