"""The one table from a class to what theory knows of it; ``bound`` looks things up here."""

from collections.abc import Callable
from typing import Any

from compressors.coders.positions import Lossy
from compressors.quantize.compose import Then
from compressors.quantize.curvefit import FitPoly
from compressors.quantize.dexp import FitDExp
from compressors.quantize.dither import Dither
from compressors.quantize.floats import BFloat16, Float16, Float32
from compressors.quantize.grid import Codebook, MinMax
from compressors.quantize.integer import RandomInteger
from compressors.quantize.magnitudes import SharedMagnitude
from compressors.quantize.mean import Mean
from compressors.quantize.natural import Natural
from compressors.quantize.shrink import Shrink
from compressors.quantize.sign import OneBit, ScaledSign, Sign
from compressors.quantize.sketch import Sketch
from compressors.quantize.terngrad import TernGrad
from compressors.sparsify.blocks import Blocks
from compressors.sparsify.dryden import Dryden
from compressors.sparsify.gspar import GSpar
from compressors.sparsify.identity import Identity
from compressors.sparsify.randk import Bernoulli, RandK
from compressors.sparsify.rtopk import RTopK
from compressors.sparsify.threshold import Nonzero, Threshold
from compressors.sparsify.topk import OneSided, TopK
from compressors.theory import quantizers, sparsifiers
from compressors.theory.bound import Bound, compose, contraction, exact, neither, worst
from compressors.theory.sparsifiers import Kept
from compressors.whole.dgc import DGC
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import ByName, Flat, PerTensor
from compressors.whole.lowrank import LowRank
from compressors.whole.pipeline import Pipeline
from compressors.whole.raw import Raw
from compressors.whole.rotate import Rotate
from compressors.whole.sketchml import SketchML
from compressors.whole.threelc import ThreeLC


def _pipeline(one: Pipeline, d: int) -> Bound:
    """The sparsifier, then the quantizer on the values that are left (Theorem 5 or projections)."""
    if one.writes_positions and isinstance(one.positions, Lossy):
        return neither(f"{one.positions} may change which entries arrive")
    pair = PAIRS.get((type(one.sparsify), type(one.quantize)))
    better = pair(one, d) if pair else None
    if better is not None:
        return better
    left = kept(one.sparsify, d)
    return compose(left.bound, bound(one.quantize, left.most), left.projects)


def _then(one: Then, d: int) -> Bound:
    return compose(bound(one.first, d), bound(one.second, d), type(one.first) in PROJECTIONS)


def _shrink(one: Shrink, k: int) -> Bound:
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


def _fit_poly(one: FitPoly, k: int) -> Bound:
    """At least 1 / k where every piece has one sign: no fit is worse than its piece's mean."""
    if isinstance(one.segments, str) or one.segments < 2:
        return neither("one piece may hold both signs, and a constant through them be zero")
    return contraction(1 / max(k, 1), "ours: at least 1 / d, a piece's mean; far more for curves")


def _threelc(one: ThreeLC, d: int) -> Bound:
    """No entry's error exceeds it, and the largest is (s - 1) of itself off."""
    delta = one.sparsity * (2 - one.sparsity) / max(d, 1)
    return contraction(delta, "ours: s (2 - s) / d; the paper states none")


def _low_rank(_: Any, d: int) -> Bound:
    return neither("a projection, so the error never exceeds the update, but one power iteration "
                   "may miss a matrix; delta = r / min(n, m) once it has converged")  # fmt: skip


def _dgc(one: Any, d: int) -> Bound:
    return _with_memory(kept(TopK(one.p), d).bound)


def _with_memory(inner: Bound) -> Bound:
    return Bound(inner.kind, inner.omega, inner.delta, f"{inner.note}; of update plus memory")


SPARSIFIERS: dict[type, Callable[[Any, int], Kept]] = {
    Identity: sparsifiers.identity,
    TopK: sparsifiers.topk,
    OneSided: sparsifiers.one_sided,
    Dryden: sparsifiers.dryden,
    Threshold: sparsifiers.threshold,
    RandK: sparsifiers.randk,
    Bernoulli: sparsifiers.bernoulli,
    GSpar: sparsifiers.gspar,
    RTopK: sparsifiers.rtopk,
    Nonzero: sparsifiers.nonzero,
    Blocks: sparsifiers.blocks,
}
"""Each says what it keeps of d entries."""

RULES: dict[type, Callable[[Any, int], Bound]] = {
    Float32: quantizers.float32,
    Float16: quantizers.float16,
    BFloat16: quantizers.bfloat16,
    Mean: quantizers.mean,
    Natural: quantizers.natural,
    Dither: quantizers.dither,
    TernGrad: quantizers.terngrad,
    MinMax: quantizers.minmax,
    Codebook: quantizers.codebook,
    RandomInteger: quantizers.cint,
    Sign: quantizers.sign,
    ScaledSign: quantizers.scaled_sign,
    OneBit: quantizers.onebit,
    SharedMagnitude: quantizers.magnitude,
    Sketch: quantizers.sketch,
    FitPoly: _fit_poly,
    FitDExp: lambda one, k: neither("the search for two rates promises no fit"),
    Then: _then,
    Shrink: _shrink,
    Pipeline: _pipeline,
    Rotate: lambda one, d: bound(one.codec, d),  # orthonormal: norms stay
    ThreeLC: _threelc,
    SketchML: lambda one, d: neither("a collision may take most of the largest entry"),
    Raw: lambda one, d: exact(),
    PerTensor: lambda one, d: bound(one.codec, d),
    Flat: lambda one, d: bound(one.codec, d),
    ByName: lambda one, d: worst([bound(rule, d) for _, rule in one.rules]),
    ErrorFeedback: lambda one, d: _with_memory(bound(one.inner, d)),
    DGC: _dgc,
    LowRank: _low_rank,
}
"""Quantizers (of d values), codecs, and compressors (of an update of one tensor of d entries)."""

PAIRS: dict[tuple[type, type], Callable[[Any, int], Bound | None]] = {
    (OneSided, Mean): _sbc,
    (TopK, SharedMagnitude): _shared_mean,
    (TopK, ScaledSign): _shared_mean,
}
"""Pipelines of which more is known than of their parts (for some settings)."""

PROJECTIONS: frozenset[type] = frozenset(
    {Mean, ScaledSign, OneBit, SharedMagnitude, Sketch, FitPoly}
)
"""Biased quantizers with a bound whose error is orthogonal to what they decode."""


def bound(thing: Any, d: int) -> Bound:
    """The class of a sparsifier, quantizer, codec or compressor on ``d`` entries, and its number.

    Of a compressor the bound holds for one tensor of ``d`` entries; with ``PerTensor`` an
    update of several has the worst of theirs. Raises ``ValueError`` for d < 1 and for a class that
    no rule is known for.

    Example:
        >>> from compressors import parse
        >>> bound(parse("cnat"), 100).omega, bound(parse("topk(0.01) | cnat"), 1000).delta
        (0.125, 0.00875)
        >>> bound(parse("cint"), 100).kind
        'neither'
    """
    if d < 1:
        raise ValueError(f"d is {d}: a vector has at least 1 entry")
    if type(thing) in SPARSIFIERS:
        return kept(thing, d).bound
    if type(thing) not in RULES:
        raise ValueError(f"no rule is known for {thing!r}: add one for {type(thing).__name__}")
    return RULES[type(thing)](thing, d)


def kept(sparsifier: Any, d: int) -> Kept:
    """What a sparsifier leaves of ``d`` entries; ``ValueError`` for one without a rule."""
    if type(sparsifier) not in SPARSIFIERS:
        raise ValueError(f"no rule is known for {sparsifier!r}: add one to the table")
    return SPARSIFIERS[type(sparsifier)](sparsifier, d)
