"""Bits that a message's content takes for an ideal random source, where a formula exists.

Only for tables of theory: what a message costs is its length. The source: a vector (one
dimension) of distinct random values, each entry as likely to be chosen as any other. Gaps between
positions are those of an endless vector, as equation 5 has them: few entries take less.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compressors.base import nominal_count
from compressors.bounds import sparsity
from compressors.coders.golomb import golomb_parameter, rice_parameter
from compressors.grammar import is_foreign, name_of
from fedsim.measure.theory.positions import golomb_bits, ideal_position_bits, rice_bits


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


def _width(alphabet: int) -> int:
    return (alphabet - 1).bit_length()


Cost = Callable[[Any, int], tuple[float, float]]
"""Of a quantizer and a number of values: bits per value, and bits of side information."""

COSTS: dict[str, Cost] = {
    "float32": lambda one, k: (32, 0),
    "float16": lambda one, k: (16, 0),
    "bfloat16": lambda one, k: (16, 0),
    "mean": lambda one, k: (0, 32),
    "cnat": lambda one, k: (one.bits, 0),
    "dither": lambda one, k: (
        _width(one.alphabet),  # and a norm per bucket
        (1 if one.bucket is None else -(-k // one.bucket)) * (9 if one.norm_code == "cnat" else 32),
    ),
    "terngrad": lambda one, k: (2, 32),
    "minmax": lambda one, k: (one.bits, 64),
    "codebook": lambda one, k: (one.bits, 0),
    "sign": lambda one, k: (1, 0),
    "l1_sign": lambda one, k: (1, 32),
    "onebit": lambda one, k: (1, 64),
    "bins": lambda one, k: (one.bits, 32 << one.bits),
    "steps": lambda one, k: (one.bits, 32 * -(-k // (one.bucket or max(1, k)))),
    "lloyd": lambda one, k: (one.bits, 32 * k.bit_count()),
    "magnitude": lambda one, k: (one.bits, 32 * one.bits),
    "sketch": lambda one, k: (
        _width(min(one.buckets, k)),
        _width(one.buckets) + 32 * min(one.buckets, k),
    ),
}
"""With symbols of equal width (``fixed``). Not ``cint``: its alphabet depends on the values."""

_WRAPPERS = {
    "ef": "inner",
    "ef21": "inner",
    "diana": "inner",
    "per_tensor": "codec",
    "flat": "codec",
    "rotate": "codec",
    "dct": "codec",
}


def _name(thing: Any) -> str:
    """The name under which a formula may be known: none of a class from outside this package.

    Such a class may have the name of one of ours, and follow another rule.
    """
    return "" if is_foreign(thing) else name_of(thing)


def expected_bits(thing: Any, d: int) -> ExpectedBits | None:
    """Expected content bits of a codec's or compressor's message of one vector of ``d`` entries.

    Equation 5 times k, bits of the values, and side information; the message's header is not in it.
    Of few entries, positions take less. None where the values decide, or where no formula is known.

    Example:
        >>> from compressors import parse
        >>> expected_bits(parse("sbc(0.01)"), 10**6)
        ExpectedBits(positions=81079.10193969913, values=0.0, side=32.0)
        >>> expected_bits(parse("cint"), 100) is None
        True
    """
    name = _name(thing)
    if name in _WRAPPERS:
        return expected_bits(getattr(thing, _WRAPPERS[name]), d)
    if name == "raw":
        return ExpectedBits(0.0, 32.0 * d, 0.0)
    if name == "dgc":  # after its warm-up: topk(p) | float32 | golomb
        k = nominal_count(thing.p, d)
        return ExpectedBits(k * _position_bits(k / d), 32.0 * k, 0.0)
    if name != "pipeline":
        return None
    quantizer = thing.quantize  # of two only the second one's symbols travel
    while _name(quantizer) == "then":
        quantizer = quantizer.second
    mean, cost = sparsity(thing.sparsify, d).mean, COSTS.get(_name(quantizer))
    if mean is None or cost is None or _name(thing.symbols) != "fixed":
        return None
    positions = 0.0
    if thing.writes_positions:
        if _name(thing.positions) != "golomb" or thing.positions.kind == "fit":
            return None
        unit, p = thing.sparsify.unit, thing.positions.p
        units, chosen = -(-d // unit), mean / unit  # whole units have positions
        share = min(1.0, chosen / units)
        if thing.positions.kind == "exact" and share < 1:
            each = golomb_bits(share, golomb_parameter(share if p is None else p))
        else:
            each = _position_bits(share) if p is None else rice_bits(share, rice_parameter(p))
        positions = chosen * each
    each, side = cost(quantizer, max(1, round(mean)))
    if _name(thing.sparsify) == "bernoulli":  # no side information where nothing is drawn
        side *= 1 - (1 - thing.sparsify.q) ** d
    return ExpectedBits(positions, float(mean * each), float(side))


def _position_bits(share: float) -> float:
    """Of golomb, whose parameter follows from ``share``: one bit each where every entry is sent."""
    return ideal_position_bits(share) if share < 1 else 1.0
