"""Which methods go in one pass over all tensors, and how: on the CPU and on a GPU alike.

A message goes that way where ``plan_of`` finds a plan for its method. Every other message is made
part by part, as the contracts say (``parts``), with the same bytes as its plan would give.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from compressors.coders.fixed import Fixed
from compressors.coders.golomb import Golomb, rice_parameter
from compressors.quantize.floats import Float32
from compressors.segments.ways import Scheme, scheme_of
from compressors.sparsify.identity import Identity
from compressors.sparsify.topk import OneSided, TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import ByName, Flat, PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.raw import Raw

_SIDES = {Identity: 0, TopK: 1, OneSided: 2}  # of the sparsifiers that have kernels
_MOST_LOW = 32  # bits of a remainder that fit beside 32 of a unary part


@dataclass(frozen=True)
class Plan:
    """A method that goes in one pass: its parts, as the loops and kernels take them.

    Args:
        pipeline: its parts.
        scheme: how its quantizer's symbols are made.
        sides: 0 where every entry is sent, 1 for the largest magnitudes, 2 for the stronger side.
        keeps: whether a residual is kept.
        joined: whether the update is one vector; else each tensor is by itself.
    """

    pipeline: Pipeline
    scheme: Scheme
    sides: int
    keeps: bool
    joined: bool


@dataclass(frozen=True)
class Rules:
    """Rules for different tensors, each of which has a plan.

    Args:
        names: which tensors each rule is for.
        plans: of each rule.
        keeps: whether one residual is kept around all rules; else each rule has its own or none.
    """

    names: ByName
    plans: tuple[Plan, ...]
    keeps: bool


@lru_cache(maxsize=256)
def plan_of(compressor: Hashable) -> Plan | Rules | None:
    """The plan of a method; None where a part of it has no kernels.

    Example:
        >>> from compressors import parse
        >>> plan_of(parse("sbc(0.01)")).sides, plan_of(parse("sketch(16)"))
        (2, None)
    """
    keeps = type(compressor) is ErrorFeedback
    if isinstance(compressor, ErrorFeedback) and compressor.decay != 1:
        return None
    inner: Any = compressor.inner if isinstance(compressor, ErrorFeedback) else compressor
    if type(inner) is ByName:
        rules: tuple[tuple[str, Any], ...] = inner.rules
        plans = [plan_of(rule) for _, rule in rules]
        inner_plans = [replace(p, keeps=keeps or p.keeps) for p in plans if isinstance(p, Plan)]
        return Rules(inner, tuple(inner_plans), keeps) if len(inner_plans) == len(plans) else None
    if type(inner) is Raw:
        inner = PerTensor(Pipeline(Identity(), Float32()))
    if type(inner) not in (PerTensor, Flat) or type(inner.codec) is not Pipeline:
        return None
    pipeline, joined = inner.codec, type(inner) is Flat
    sides = _SIDES.get(type(pipeline.sparsify))
    if getattr(pipeline.sparsify, "sample", None) is not None:
        return None
    scheme = scheme_of(pipeline.quantize)
    if sides is None or scheme is None or pipeline.symbols != Fixed():
        return None
    code: Any = pipeline.positions
    if sides and (type(code) is not Golomb or (code.kind, code.order) != ("rice", "interleaved")):
        return None
    if sides and code.p is not None and rice_parameter(code.p) > _MOST_LOW:
        return None
    if sides == 2 and scheme.number and scheme.number.norm != "mean":
        return None
    return Plan(pipeline, scheme, sides, keeps, joined)
