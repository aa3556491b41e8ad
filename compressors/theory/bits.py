"""Bits that a message's content takes for an ideal random source, where a formula exists.

Only for tables of theory: what a message costs is its length. The source: a vector (one
dimension) of distinct random values, each entry as likely to be chosen as any other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compressors.base import nominal_count
from compressors.bounds import kept
from compressors.coders.golomb import rice_parameter
from compressors.printing import is_foreign, name_of
from compressors.theory.positions import ideal_position_bits, rice_bits


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
    """Bits of a symbol of equal width."""
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
    "sketch": lambda one, k: (_width(min(one.buckets, k)),
                            _width(one.buckets) + 32 * min(one.buckets, k)),
}  # fmt: skip
"""With symbols of equal width (``fixed``). Not ``cint``: its alphabet depends on the values."""

_WRAPPERS = {"ef": "inner", "ef21": "inner", "diana": "inner", "per_tensor": "codec",
             "flat": "codec", "rotate": "codec", "dct": "codec"}  # fmt: skip


def _name(thing: Any) -> str:
    """The name under which a formula may be known: none of a class from outside this package.

    Such a class may have the name of one of ours, and follow another rule.
    """
    return "" if is_foreign(thing) else name_of(thing)


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
    name = _name(thing)
    if name in _WRAPPERS:
        return expected_bits(getattr(thing, _WRAPPERS[name]), d)
    if name == "raw":
        return ExpectedBits(0.0, 32.0 * d, 0.0)
    if name == "dgc":  # after its warm-up: topk(p) | float32 | golomb
        k = nominal_count(thing.p, d)
        return ExpectedBits(k * _position_bits(k / d), 32.0 * k, 0.0)
    return _pipeline(thing, d) if name == "pipeline" else None


def _pipeline(pipe: Any, d: int) -> ExpectedBits | None:
    sent = pipe.quantize  # of two quantizers only the second one's symbols travel
    while _name(sent) == "then":
        sent = sent.second
    k, cost = kept(pipe.sparsify, d).mean, COSTS.get(_name(sent))
    if k is None or cost is None or _name(pipe.symbols) != "fixed":
        return None
    positions = _positions(pipe, k, d)
    if positions is None:
        return None
    each, side = cost(sent, round(k))
    return ExpectedBits(positions, float(k * each), float(side))


def _positions(pipe: Any, k: float, d: int) -> float | None:
    """Bits of the positions of k entries; of whole units where those are sent."""
    if not pipe.writes_positions:
        return 0.0
    if _name(pipe.positions) != "golomb":
        return None
    unit = pipe.sparsify.unit
    units, chosen = -(-d // unit), k / unit
    share, fixed = min(1.0, chosen / units), pipe.positions.p
    if fixed is None:
        return chosen * _position_bits(share)
    return chosen * rice_bits(share, rice_parameter(fixed))


def _position_bits(share: float) -> float:
    """Of golomb, whose parameter follows from ``share``: one bit each where every entry is sent."""
    return ideal_position_bits(share) if share < 1 else 1.0
