"""Bits that a message's content takes for an ideal random source, where a formula exists.

Only for tables of theory: what a message costs is its length. The source: a vector (one
dimension) of distinct random values, each entry as likely to be chosen as any other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compressors.coders.fixed import Fixed
from compressors.coders.golomb import Golomb, rice_parameter
from compressors.quantize.compose import Then
from compressors.quantize.dither import Dither
from compressors.quantize.floats import BFloat16, Float16, Float32
from compressors.quantize.grid import Codebook, MinMax
from compressors.quantize.magnitudes import SharedMagnitude
from compressors.quantize.mean import Mean
from compressors.quantize.natural import Natural
from compressors.quantize.sign import OneBit, ScaledSign, Sign
from compressors.quantize.sketch import Sketch
from compressors.quantize.terngrad import TernGrad
from compressors.sparsify.topk import TopK
from compressors.theory.positions import ideal_position_bits, rice_bits
from compressors.theory.quantizers import dither_side, width
from compressors.theory.rules import kept
from compressors.whole.dgc import DGC
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import Flat, PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.raw import Raw
from compressors.whole.rotate import Rotate


@dataclass(frozen=True)
class ExpectedBits:
    """Expected bits of the parts of a message's content."""

    positions: float
    values: float
    side: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.positions + self.values + self.side


Cost = Callable[[Any, int], tuple[float, float]]
"""Of a quantizer and a number of values: bits a value, and bits of side information."""

COSTS: dict[type, Cost] = {
    Float32: lambda one, k: (32, 0),
    Float16: lambda one, k: (16, 0),
    BFloat16: lambda one, k: (16, 0),
    Mean: lambda one, k: (0, 32),
    Natural: lambda one, k: (one.bits, 0),
    Dither: lambda one, k: (width(one.alphabet), dither_side(one, k)),
    TernGrad: lambda one, k: (2, 32),
    MinMax: lambda one, k: (one.bits, 64),
    Codebook: lambda one, k: (one.bits, 0),
    Sign: lambda one, k: (1, 0),
    ScaledSign: lambda one, k: (1, 32),
    OneBit: lambda one, k: (1, 64),
    SharedMagnitude: lambda one, k: (one.bits, 32 * one.bits),
    Sketch: lambda one, k: (width(min(one.buckets, k)),
                            width(one.buckets) + 32 * min(one.buckets, k)),
}  # fmt: skip
"""With symbols of equal width (``fixed``). Not ``cint``: its alphabet depends on the values."""

_WRAPPERS = {ErrorFeedback: "inner", PerTensor: "codec", Flat: "codec", Rotate: "codec"}


def expected_bits(thing: Any, d: int) -> ExpectedBits | None:
    """Expected content bits of a codec's or compressor's message of one vector of ``d`` entries.

    Equation 5 times k, bits of the values, and side information; the message's header is not in it.
    None where the values decide, or where no formula is known.

    Example:
        >>> from compressors import parse
        >>> expected_bits(parse("sbc(0.01)"), 10**6)
        ExpectedBits(positions=81079.1019396991, values=0.0, side=32.0)
        >>> expected_bits(parse("cint"), 100) is None
        True
    """
    if type(thing) in _WRAPPERS:
        return expected_bits(getattr(thing, _WRAPPERS[type(thing)]), d)
    if isinstance(thing, Raw):
        return ExpectedBits(0.0, 32.0 * d, 0.0)
    if isinstance(thing, DGC):  # after its warm-up
        return expected_bits(Pipeline(TopK(thing.p), Float32()), d)
    return _pipeline(thing, d) if isinstance(thing, Pipeline) else None


def _pipeline(pipe: Pipeline, d: int) -> ExpectedBits | None:
    sent = pipe.quantize  # of two quantizers only the second one's symbols travel
    while isinstance(sent, Then):
        sent = sent.second
    k, cost = kept(pipe.sparsify, d).mean, COSTS.get(type(sent))
    if k is None or cost is None or not isinstance(pipe.symbols, Fixed):
        return None
    positions = _positions(pipe, k, d)
    if positions is None:
        return None
    each, side = cost(sent, round(k))
    return ExpectedBits(positions, float(k * each), float(side))


def _positions(pipe: Pipeline, k: float, d: int) -> float | None:
    """Bits of the positions of k entries; of whole units where those are sent."""
    if not pipe.writes_positions:
        return 0.0
    if not isinstance(pipe.positions, Golomb):
        return None
    unit = pipe.sparsify.unit
    units, chosen = -(-d // unit), k / unit
    share = min(1.0, chosen / units)
    fixed = pipe.positions.p
    each = ideal_position_bits(share) if fixed is None else rice_bits(share, rice_parameter(fixed))
    return chosen * (each if share < 1 or fixed else 1.0)
