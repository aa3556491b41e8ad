"""Which methods go in one pass over all tensors, and how: on the CPU and on a GPU alike.

A message goes that way where ``plan_of`` finds a plan for its method. Every other message is made
part by part, as the contracts say (``parts``), with the same bytes as its plan would give.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.base import mean
from compressors.coders.fixed import Fixed
from compressors.coders.golomb import Golomb, rice_parameter
from compressors.kernels import kinds
from compressors.kernels.kinds import SymbolKind
from compressors.kernels.sign import sign_means
from compressors.parts import code_dtype
from compressors.quantize.compose import Shrink
from compressors.quantize.dither import Dither, TernGrad
from compressors.quantize.floats import Float32
from compressors.quantize.levels import NORMS, bucket_norms
from compressors.quantize.magnitudes import Mean, SharedMagnitude
from compressors.quantize.natural import Natural
from compressors.quantize.sign import ScaledSign, Sign
from compressors.sparsify.threshold import Identity
from compressors.sparsify.topk import OneSided, TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import ByName, Flat, PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.raw import Raw


@dataclass(frozen=True)
class Number:
    """The float32 number of a segment that a quantizer sends, or holds: a mean or a norm.

    Args:
        norm: the ``"mean"`` of the magnitudes, or their norm ``"inf"``, ``"1"`` or ``"2"``.
        by_host: the same of values (k,) on the host, as the compiled loops sum them.
        clip: standard deviations above which the number is cut off; None: it is not.
    """

    norm: str
    by_host: Callable[[Tensor], float]
    clip: float | None = None


@dataclass(frozen=True)
class Scheme:
    """How a quantizer's symbols are made.

    Args:
        kind: what they are.
        width: bits per symbol.
        number: the number that each segment needs, where it needs one.
        known: a number that both sides know, where there is no ``number``.
        table: number and kind of levels (``quantize.levels.level_table``), where there are levels.
        bucket: entries that share a number; None: all of a segment.
        powers: whether numbers travel as powers of two, 9 bits each; else as float32.
        factor: of the number of entries, what values are multiplied by in the end; None: nothing.
    """

    kind: SymbolKind
    width: int
    number: Number | None = None
    constant: float = 0.0
    table: tuple[int, bool] | None = None
    bucket: int | None = None
    powers: bool = False
    factor: Callable[[int], float] | None = None

    @property
    def alphabet(self) -> int:
        """How many symbols there are."""
        return 1 << self.width if self.table is None else 2 * self.table[0] + 1

    @property
    def number_bits(self) -> int:
        """Bits of a number in a message."""
        if self.number is None:
            return 0
        return 9 if self.powers else 32

    def factors(self, counts: np.ndarray) -> np.ndarray:
        """By what the values of each segment are multiplied in the end, where there is a factor."""
        assert self.factor is not None
        return np.array([self.factor(int(k)) for k in counts], np.float32)


def scheme_of(part: Any) -> Scheme | None:
    """The way of a quantizer; None where it, or one of its settings, has no kernels.

    Example:
        >>> scheme_of(Dither(7, bucket=64)).width, scheme_of(Dither(7, norm=3))
        (4, None)
    """
    kind = type(part)
    if kind is Float32:
        return Scheme(SymbolKind(kinds.FLOAT32, torch.int32), 32)
    if kind is Mean:
        return Scheme(SymbolKind(kinds.SHARED, torch.uint8), 0, Number("mean", mean))
    if kind is Natural:
        window = (part.lowest + 127, part.highest + 127, part.bits - 1)
        dtype, random = code_dtype(1 << part.bits), part.rounding == "random"
        return Scheme(SymbolKind(kinds.NATURAL, dtype, random, window), part.bits)
    if kind is Sign:
        return Scheme(SymbolKind(kinds.COINS, torch.uint8, True), 1, constant=part.magnitude)
    if kind is ScaledSign:
        number = Number("mean", lambda x: mean(x.abs()))
        return Scheme(SymbolKind(kinds.SIGN, torch.uint8), 1, number)
    if kind is SharedMagnitude and (part.value, part.bits) == ("avg", 1):
        number = Number(
            "mean", lambda x: float(sign_means(x.abs().numpy(), np.array([x.numel()]))[0, 0])
        )
        return Scheme(SymbolKind(kinds.SIGN, torch.uint8), 1, number)
    if kind is Dither and part.norm in NORMS:
        scheme = _levels(part.levels, str(part.norm), part.kind == "natural")
        return replace(scheme, bucket=part.bucket, powers=part.norm_code == "cnat")
    if kind is TernGrad:
        number = Number("inf", lambda x: float(part.scale(x)[0]), part.clip)
        return replace(_levels(1, "inf", False), number=number)
    if kind is Shrink and (inner := scheme_of(part.inner)) is not None:
        return replace(inner, factor=part.factor)
    return None


def _levels(levels: int, norm: str, natural: bool) -> Scheme:
    """A level and a sign in one symbol."""
    number = Number(norm, lambda x: float(bucket_norms(x, norm, x.numel())[0]))
    kind, alphabet = kinds.POWERS if natural else kinds.LEVELS, 2 * levels + 1
    return Scheme(
        SymbolKind(kind, code_dtype(alphabet), True, (levels, 0, 0)),
        (alphabet - 1).bit_length(),
        number,
        table=(levels, natural),
    )


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
