"""Which methods a memory of what was not sent can stand around (``ef``), and what to change.

The memory after a message is its error, C(x) - x, and x holds the memory of the message before.
It stays bounded where C is a contraction, or unbiased with omega < 1: E||C(x) - x||^2 is less than
||x||^2. It grows at most by what every update adds where no error is larger than what it is an
error of, but for a constant: in the Euclidean norm (sparsifiers, projections, values that are cut),
or entry by entry against the largest magnitude (levels between the extremes, or of the largest).
An unbiased part with omega >= 1 has neither: its noise comes back larger in every message. A class
that is neither says by ``faults_on`` when a memory grows around it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any, Protocol, runtime_checkable

from compressors.base import Compressor, Tensors
from compressors.bounds import Bound, bound, compose_omegas, sparsity
from compressors.coders.bloom import Bloom, expected_answers
from compressors.grammar import short_text, text
from compressors.quantize.compose import Shrink, Then
from compressors.quantize.dither import Dither, TernGrad
from compressors.quantize.grid import MinMax
from compressors.whole.lift import Flat, InParts, PerTensor, innermost
from compressors.whole.pipeline import Pipeline
from compressors.whole.rotate import Transform

SIZES = (2, 3, 8, 64, 4096, 2**20, 2**30)
"""Numbers of entries at which a method is tried before its tensors are known."""


@dataclass(frozen=True)
class Fault:
    """A part that makes a memory grow, why, and the part that would not."""

    part: Any
    reason: str
    cure: Any


@runtime_checkable
class StatesFaults(Protocol):
    """A codec or a sparsifier with a rule of its own for a memory around it."""

    def faults_on(self, d: int) -> tuple[Fault, ...]:
        """Why a memory around it grows without end, on ``d`` entries; empty where it does not."""
        ...


@runtime_checkable
class StatesScale(Protocol):
    """A sparsifier whose factor, if it is ``scaled``, does not follow from its omega."""

    def scale_on(self, d: int) -> float:
        """The nominal factor of the entries that it keeps of ``d``."""
        ...


@lru_cache(maxsize=1024)
def faults(codec: Any, d: int) -> tuple[Fault, ...]:
    """The parts of a codec on ``d`` entries around which a memory grows without end.

    A class that theory knows no rule for has none.

    Example:
        >>> from compressors import parse, text
        >>> [text(one.cure) for one in faults(parse("randk(0.1) | float32").codec, 100)]
        ['randk(0.1, false)']
        >>> faults(parse("topk(0.1) | cnat").codec, 100)
        ()
    """
    turned = False
    while isinstance(codec, Transform):
        turned = turned or codec.mixes
        d = codec.count(d)
        codec = codec.codec
    if getattr(codec, "scaled", False) and bound(codec, d).kind == "unbiased":
        return (Fault(codec, "multiplies what it keeps", replace(codec, scaled=False)),)
    if isinstance(codec, StatesFaults):
        return codec.faults_on(d)
    return tuple(_of_pipeline(codec, d, turned)) if isinstance(codec, Pipeline) else ()


def always_grows(compressor: Compressor, around: str = "ef") -> str | None:
    """Why a memory around ``compressor`` grows, if it does for tensors of any size, and the cure.

    ``around``: the method whose memory it is; empty: the memory is what ``compressor`` makes of it.

    Example:
        >>> from compressors import parse
        >>> always_grows(parse("qsgd(7)")) is None  # it depends on the tensors
        True
    """
    for codec in _codecs(compressor):
        if all(faults(codec, d) for d in SIZES):
            all_faults = {fault for d in SIZES for fault in faults(codec, d)}
            return _explained(compressor, all_faults, "", around)
    return None


def may_grow(compressor: Compressor) -> bool:
    """Whether a memory around ``compressor`` grows for tensors of one of the ``SIZES``."""
    return any(faults(codec, d) for codec in _codecs(compressor) for d in SIZES)


def grows(compressor: Compressor, template: Tensors, around: str = "ef") -> str | None:
    """Why a memory around ``compressor`` grows for tensors shaped like ``template``, and the cure.

    None where it does not, or where theory knows no rule. ``around``: see ``always_grows``.
    """
    for codec, name, d in _sized(compressor, template):
        if faulty := faults(codec, d):
            return _explained(compressor, set(faulty), f" on {name} of {d} entries", around)
    return None


def _explained(compressor: Compressor, faulty: set[Fault], where: str, around: str) -> str:
    reasons = "; ".join(dict.fromkeys(f"{text(f.part)} {f.reason}" for f in _in_order(faulty)))
    cured = short_text(_swapped(compressor, {f.part: f.cure for f in _in_order(faulty)}))
    cure = f"{around}({cured}), or leave {around} out" if around else cured
    return f"{reasons}{where}, so that the memory would grow without end: use {cure}"


def _in_order(faulty: set[Fault]) -> list[Fault]:
    return sorted(faulty, key=lambda f: (text(f.part), f.reason, text(f.cure)))


def _swapped(thing: Any, cures: dict[Any, Any]) -> Any:
    """``thing`` with the parts in ``cures`` replaced."""
    if isinstance(thing, tuple):
        return tuple(_swapped(part, cures) for part in thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    if thing in cures:
        return cures[thing]
    return replace(
        thing, **{f.name: _swapped(getattr(thing, f.name), cures) for f in fields(thing)}
    )


def _codecs(thing: Any) -> Iterator[Any]:
    """The codecs of one tensor inside a compressor."""
    return (one.codec for one in innermost(thing) if isinstance(one, PerTensor | Flat))


def _sized(thing: Any, template: Tensors) -> Iterator[tuple[Any, str, int]]:
    """Codecs with what they are given: its name, and the number of its entries."""
    if isinstance(thing, PerTensor):
        sizes = {name: x.numel() for name, x in template.items() if x.numel()}
        yield from ((thing.codec, f"tensor {name!r}", d) for name, d in sizes.items())
    elif isinstance(thing, Flat) and (d := sum(x.numel() for x in template.values())):
        yield thing.codec, "an update", d
    elif isinstance(thing, InParts):
        for rule, part in thing.parts(template):
            yield from _sized(rule, part)


def _of_pipeline(one: Pipeline, d: int, turned: bool) -> Iterator[Fault]:
    if one.writes_positions and isinstance(one.positions, Bloom) and one.positions.shifts:
        yield Fault(
            one.positions, "puts values at wrong places", replace(one.positions, policy="p2")
        )
    select: Any = one.sparsify
    left = sparsity(select, d)  # what the quantizer has at most, or nominally if that is unknown
    capacity = select.count(d) or d if left.bound.kind == "unknown" else left.capacity
    if one.writes_positions and isinstance(one.positions, Bloom) and one.positions.policy == "p0":
        capacity = min(d, ceil(expected_answers(capacity, d, one.positions.eps)))
    faulty = list(_of_quantizer(one.quantize, max(1, capacity), turned))
    yield from faulty
    if isinstance(select, StatesFaults):
        yield from select.faults_on(d)
    if not getattr(select, "scaled", False):
        return
    # An entry that comes with chance r, times s, has an error of 1 + r s (s (1 + omega) - 2) in the
    # mean, omega the quantizer's: at least all of it from s (1 + omega) = 2 on, whatever r is. So
    # neither a pool of the largest nor a position code that is lossy changes what is refused.
    select_bound = bound(select, d)
    omega = select_bound.omega  # s - 1
    if isinstance(select, StatesScale) and select_bound.kind != "unknown":
        omega = select.scale_on(d) - 1
    noise = bound(one.quantize, max(1, capacity)).omega
    if omega is None:
        return
    if omega >= 1:
        yield Fault(select, "multiplies what it keeps", replace(select, scaled=False))
    elif not faulty and noise is not None and compose_omegas(omega, noise) >= 1:
        reason = f"and {text(one.quantize)} together add noise of omega >= 1"
        yield Fault(select, reason, replace(select, scaled=False))


def _of_quantizer(one: Any, k: int, turned: bool) -> Iterator[Fault]:
    quantizer_bound = bound(one, k)
    if isinstance(one, Then) and not quantizer_bound.holds:
        yield from _of_quantizer(one.first, k, turned)
        yield from _of_quantizer(one.second, k, turned)
    elif _noisy(quantizer_bound) and (turned or not _within_the_largest(one)):
        yield Fault(one, "is unbiased with omega >= 1", Shrink(one))


def _within_the_largest(quantizer: Any) -> bool:
    """Whether no entry's error exceeds the largest magnitude among the values.

    Of two levels from the least value to the greatest it may: they can be twice that apart.
    """
    if isinstance(quantizer, Dither):
        return quantizer.norm == "inf" and quantizer.norm_code == "float32"
    return isinstance(quantizer, TernGrad) or (isinstance(quantizer, MinMax) and quantizer.bits > 1)


def _noisy(quantizer_bound: Bound) -> bool:
    return quantizer_bound.omega is not None and quantizer_bound.omega >= 1
