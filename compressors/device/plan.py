"""Which methods have kernels on a GPU, and how: the one table of them.

A message goes through the kernels where ``plan_of`` finds a plan for its method and ``takes`` its
tensors. Every other message of tensors on a GPU goes through the host, part by part, with the
same bytes: torch's operations choose and round, and the compiled loops write positions and bits.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.base import mean
from compressors.coders.fixed import Fixed
from compressors.coders.golomb import Golomb, rice_parameter
from compressors.device import DEVICES
from compressors.kernels.gpu import codes
from compressors.kernels.gpu.codes import Kind
from compressors.kernels.gpu.language import present
from compressors.kernels.sign import two_means
from compressors.parts import code_dtype
from compressors.quantize.dither import Dither
from compressors.quantize.floats import Float32
from compressors.quantize.levels import NORMS, bucket_norms
from compressors.quantize.magnitudes import SharedMagnitude
from compressors.quantize.mean import Mean
from compressors.quantize.natural import Natural
from compressors.quantize.sign import ScaledSign, Sign
from compressors.quantize.terngrad import TernGrad
from compressors.sparsify.identity import Identity
from compressors.sparsify.topk import OneSided, TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import Flat, PerTensor
from compressors.whole.pipeline import Pipeline

_LARGEST = 1 << 31  # entries of an update: positions within a program are 32-bit numbers
_MOST_LOW = 32  # bits of a remainder that fit beside 32 of a unary part


@dataclass(frozen=True)
class Number:
    """The float32 number of a segment that a quantizer sends, or holds: a mean or a norm.

    Args:
        norm: the ``"mean"`` of the magnitudes, or their norm ``"inf"``, ``"1"`` or ``"2"``.
        by_host: the same of values (k,) on the host, as the compiled loops sum them.
    """

    norm: str
    by_host: Callable[[Tensor], float]


@dataclass(frozen=True)
class Way:
    """How a quantizer's symbols are made: what they are, how wide, and the number they need.

    ``known`` is a number that both sides know, where there is no ``number``.
    """

    kind: Kind
    width: int
    number: Number | None = None
    known: float = 0.0
    table: tuple[int, bool] | None = None

    @property
    def alphabet(self) -> int:
        """How many symbols there are."""
        return 1 << self.width if self.table is None else 2 * self.table[0] + 1


@dataclass(frozen=True)
class Plan:
    """A method that has kernels: its parts, as the kernels take them.

    Args:
        pipeline: its parts.
        way: how its quantizer's symbols are made.
        sides: 0 where every entry is sent, 1 for the largest magnitudes, 2 for the stronger side.
        keeps: whether a residual is kept.
        joined: whether the update is one vector; else each tensor is by itself.
    """

    pipeline: Pipeline
    way: Way
    sides: int
    keeps: bool
    joined: bool


def takes(tensors: Mapping[str, Any]) -> bool:
    """Whether all of these tensors lie on one device whose updates the kernels take."""
    places = {x.device for x in tensors.values() if isinstance(x, Tensor)}
    return (
        len(places) == 1
        and next(iter(places)).type in DEVICES
        and present()
        and 0 < sum(x.numel() for x in tensors.values()) < _LARGEST
    )


@lru_cache(maxsize=256)
def plan_of(compressor: Hashable) -> Plan | None:
    """The plan of a method; None where a part of it has no kernel and it goes through the host.

    Example:
        >>> from compressors import parse
        >>> plan_of(parse("sbc(0.01)")).sides, plan_of(parse("sketch(16)"))
        (2, None)
    """
    keeps = type(compressor) is ErrorFeedback
    if isinstance(compressor, ErrorFeedback) and compressor.decay != 1:
        return None
    lift: Any = compressor.inner if isinstance(compressor, ErrorFeedback) else compressor
    if type(lift) not in (PerTensor, Flat) or type(lift.codec) is not Pipeline:
        return None
    pipeline, joined = lift.codec, type(lift) is Flat
    sides = _SIDES.get(type(pipeline.sparsify), _none)(pipeline.sparsify)
    way = _WAYS.get(type(pipeline.quantize), _none)(pipeline.quantize)
    if sides is None or way is None or pipeline.symbols != Fixed():
        return None
    if sides and not _is_rice(pipeline.positions):
        return None
    if sides == 2 and way.number and way.number.norm != "mean":
        return None
    return Plan(pipeline, way, sides, keeps, joined)


def _none(part: Any) -> None:
    """The part has no kernel."""


def _is_rice(positions: Any) -> bool:
    if type(positions) is not Golomb or positions.kind != "rice":
        return False
    if positions.order != "interleaved":
        return False
    return positions.p is None or rice_parameter(positions.p) <= _MOST_LOW


_SIDES: dict[type, Callable[[Any], int | None]] = {
    Identity: lambda part: 0,
    TopK: lambda part: 1 if part.sample is None else None,
    OneSided: lambda part: 2,
}


def _natural(part: Natural) -> Way:
    settings = (part.lowest + 127, part.highest + 127, part.bits - 1)
    kind = Kind(codes.NATURAL, code_dtype(1 << part.bits), part.rounding == "random", settings)
    return Way(kind, part.bits)


def _dither(part: Dither) -> Way | None:
    if part.bucket is not None or part.norm_code != "float32" or part.norm not in NORMS:
        return None
    return _levels(part.levels, str(part.norm), part.kind == "natural")


def _levels(levels: int, norm: str, natural: bool) -> Way:
    number = Number(norm, lambda x: float(bucket_norms(x, norm, x.numel())[0]))
    kind = codes.POWERS if natural else codes.LEVELS
    alphabet = 2 * levels + 1
    return Way(
        Kind(kind, code_dtype(alphabet), True, (levels, 0, 0)), (alphabet - 1).bit_length(),
        number, table=(levels, natural),
    )  # fmt: skip


def _scaled(part: ScaledSign) -> Way:
    return Way(Kind(codes.SIGN, torch.uint8), 1, Number("mean", lambda x: mean(x.abs())))


def _magnitude(part: SharedMagnitude) -> Way | None:
    if (part.value, part.bits) != ("avg", 1):
        return None
    return Way(Kind(codes.SIGN, torch.uint8), 1, Number("mean", _mean_magnitude))


def _mean_magnitude(x: Tensor) -> float:
    return float(two_means(x.abs().numpy(), np.array([x.numel()]))[0, 0])


_WAYS: dict[type, Callable[[Any], Way | None]] = {
    Float32: lambda part: Way(Kind(codes.FLOAT32, torch.int32), 32),
    Mean: lambda part: Way(Kind(codes.SHARED, torch.uint8), 0, Number("mean", mean)),
    Natural: _natural,
    Sign: lambda part: Way(Kind(codes.COINS, torch.uint8, True), 1, known=part.magnitude),
    ScaledSign: _scaled,
    SharedMagnitude: _magnitude,
    Dither: _dither,
    TernGrad: lambda part: None if part.clip is not None else _levels(1, "inf", False),
}
"""How the symbols of each quantizer that has a kernel are made; None where a setting has none."""
