"""Bits, rates and times as texts have them: numbers with units, and how they vary."""

import contextlib
import math
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.ground.errors import UsageError, parse_call

_SIZES = {"": 1.0, "bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
_RATES = {unit: size for unit, size in _SIZES.items() if unit}
_TIMES = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_BYTES = {"": 1.0, "b": 1.0} | {
    f"{prefix}{unit}": float(base**power)
    for unit, base in (("b", 1000), ("ib", 1024))
    for power, prefix in enumerate("kmgt", start=1)
}
_OTHER_TIMES = {
    "d": (24, "h"),
    "day": (24, "h"),
    "hr": (1, "h"),
    "hour": (1, "h"),
    "m": (1, "min"),
    "min": (1, "min"),
    "minute": (1, "min"),
    "sec": (1, "s"),
    "second": (1, "s"),
    "msec": (1, "ms"),
    "millisecond": (1, "ms"),
}
_FLOPS = {f"{prefix}flop": 1e3**power for power, prefix in enumerate(("", "k", "m", "g", "t", "p"))}
_JOULES = {"pJ": 1e-12, "nJ": 1e-9, "uJ": 1e-6, "mJ": 1e-3, "J": 1.0, "kJ": 1e3}
_WATTS = {"uW": 1e-6, "mW": 1e-3, "W": 1.0, "kW": 1e3}
_QUANTITY = re.compile(r"(\+?[0-9.]+(?:e[+-]?[0-9]+)?) *([a-z]*)(/[a-z]+)?", re.IGNORECASE)

QuantityKind = Literal[
    "bits",
    "rate",
    "time",
    "delay",
    "factor",
    "bytes",
    "flops",
    "flop rate",
    "joules",
    "joules per bit",
    "joules per flop",
    "watts",
]
_KINDS: dict[QuantityKind, tuple[dict[str, float], str]] = {
    "bits": (_SIZES, "a number of bits above 0, such as 2e6, 500kbit, 2Mbit or 1Gbit"),
    "rate": (
        _RATES,
        "a number above 0 with a unit (bit, kbit, Mbit, Gbit or Tbit, each per second), "
        "such as 5Mbit, or inf",
    ),
    "bytes": (_BYTES, "a number of bytes above 0, such as 500MB or 2GiB"),
    "time": (_TIMES, "a time above 0, such as 90s, 30min or 2h"),
    "delay": (_TIMES, "a number of seconds, such as 50ms, 0.2s, 10min or 0"),
    "factor": ({"": 1.0}, "a number without a unit before measured, as in 2*measured"),
    "flops": (_FLOPS, "a number of floating-point operations above 0, such as 300MFLOP"),
    "flop rate": (
        _FLOPS,
        "a number above 0 with a unit (MFLOP/s, GFLOP/s or TFLOP/s), such as 2GFLOP/s",
    ),
    "joules": (
        {"": 1.0} | _JOULES,
        "an energy above 0 in mJ, J or kJ, such as 50J or 2kJ",
    ),
    "joules per bit": (
        _JOULES,
        "an energy above 0 per bit, in pJ, nJ, uJ, mJ or J, such as 1uJ/bit",
    ),
    "joules per flop": (
        _JOULES,
        "an energy above 0 per operation, in pJ, nJ or uJ, such as 50pJ/FLOP",
    ),
    "watts": (_WATTS, "a power above 0 in mW, W or kW, such as 2W"),
}
_PER: dict[QuantityKind, tuple[str, ...]] = {
    "rate": ("", "/s"),
    "flop rate": ("/s",),
    "joules per bit": ("/bit",),
    "joules per flop": ("/flop",),
}
"""What may, or must, follow the unit; nothing where a kind is not listed."""
_CASED = (_JOULES, {"": 1.0} | _JOULES, _WATTS)  # units whose case counts: mJ is not MJ

_MOST_SIGMA = 5.0
"""Greatest sigma of a logarithm: beyond it one client in three is over 148 times off the median."""


@dataclass(frozen=True)
class Varying:
    """A number that differs between clients: drawn once per client, and fixed from then on.

    Example:
        >>> Varying("uniform", 1.0, 2.0).draw(np.random.default_rng(0), 2).round(3).tolist()
        [1.637, 1.27]
    """

    kind: Literal["constant", "lognormal", "uniform"]
    first: float  # the constant, the median of the lognormal, or the least value
    second: float = 0.0  # sigma of the logarithm (lognormal), or the greatest value (uniform)

    def draw(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Values of `count` clients, float64. A constant draws nothing from the generator."""
        if self.kind == "lognormal":
            return self.first * np.exp(self.second * generator.standard_normal(count))
        if self.kind == "uniform":
            return generator.uniform(self.first, self.second, count)
        return np.broadcast_to(self.first, count)  # which takes no memory


def parse_varying(text: str, name: str, kind: QuantityKind) -> Varying:
    """A quantity: `5Mbit`, `lognormal(5Mbit, 1)` (median, sigma) or `uniform(1Mbit, 9Mbit)`.

    ``name``: the setting, as the message calls it; ``kind``: of the numbers, such as `rate`,
    `delay` or `flop rate`.

    Raises ``UsageError`` where the text is none of these.

    Example:
        >>> parse_varying("lognormal(5Mbit, 1)", "up", "rate")
        Varying(kind='lognormal', first=5000000.0, second=1.0)
        >>> parse_varying("50ms", "latency", "delay").first
        0.05
    """
    allowed = "a number with a unit, lognormal(MEDIAN, SIGMA) or uniform(LOW, HIGH)"
    call = parse_call(text, name, allowed)
    if not call.called:
        return Varying("constant", quantity(text, name, kind))
    parts = [str(part) for part in call.arguments if not call.named]
    if call.name == "lognormal" and len(parts) == 2:
        median, sigma = quantity(parts[0], name, kind), math.nan
        with contextlib.suppress(ValueError):
            sigma = float(parts[1])
        if not 0 <= sigma <= _MOST_SIGMA:
            raise UsageError(
                f"{name}: sigma is {parts[1]!r}; it is that of the logarithm, from 0 to "
                f"{_MOST_SIGMA:g}, such as 0.5: of sigma 1 a third of all clients is more than 2.7 "
                "times off the median"
            )
        return Varying("lognormal", median, sigma)
    if call.name == "uniform" and len(parts) == 2:
        low, high = (quantity(part, name, kind) for part in parts)
        if not low <= high < math.inf:
            raise UsageError(f"{name} is {text}: uniform(LOW, HIGH) takes LOW <= HIGH, both finite")
        return Varying("uniform", low, high)
    raise UsageError(f"{name} is {text!r}: give {allowed}")


def quantity(value: object, name: str, kind: QuantityKind) -> float:
    """A number with a unit of its kind, in bits, bits per second, seconds or bytes.

    Without a unit it is in these already; a rate has one, for 5 bit/s would be read for 5 Mbit/s.

    Args:
        value: `2e6`, `"2Mbit"`, `"2 Mbit"` (as `bits` prints it); of a rate also `"5Mbit/s"` and
            `"inf"`; of a time `"50ms"`, `"30s"`, `"10min"`, `"2h"`.
        name: the setting, as the message calls it.
        kind: `bits`, `rate` (bits per second), `time`, `delay`: a time that may be 0, `factor`: of
            a measured time, which has no unit, `bytes`, `flops`, `flop rate` (per second),
            `joules`, `joules per bit`, `joules per flop` or `watts`. Energies and watts have
            case: mJ is a thousandth of J, and MJ is refused.

    Raises:
        UsageError: it is none of its kind, negative, or 0 where that is not allowed, or a rate
            without a unit.

    Example:
        >>> quantity("1.5 Mbit", "--budget", "bits"), quantity("768 kbit/s", "up", "rate")
        (1500000.0, 768000.0)
        >>> quantity("30min", "--time", "time"), quantity(0, "latency", "delay")
        (1800.0, 0.0)
        >>> quantity("2GiB", "--memory", "bytes") / 2**30
        2.0
        >>> quantity("2GFLOP/s", "compute", "flop rate"), quantity("3mJ", "battery", "joules")
        (2000000000.0, 0.003)
    """
    units, allowed = _KINDS[kind]
    text = str(value).strip()
    parsed = None if isinstance(value, bool) else _QUANTITY.fullmatch(text)
    if kind == "rate" and text == "inf":
        return math.inf
    number = math.nan
    if parsed is not None and (parsed[3] or "").lower() in _PER.get(kind, ("",)):
        unit = parsed[2] if units in _CASED else parsed[2].lower()
        with contextlib.suppress(KeyError, ValueError):  # another unit; 1.2.3
            number = float(parsed[1]) * units[unit]
    if not (0 < number < math.inf or number == 0 and kind in ("delay", "factor")):
        raise UsageError(f"{name} is {value!r}: give {allowed}{_meant(text, kind)}")
    return number


def _meant(text: str, kind: QuantityKind) -> str:
    """Words for what a quantity may mean whose unit is not known; empty where none comes near."""
    parts = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?) *(\S+)", text)
    number, unit = (float(parts[1]), parts[2]) if parts else (0.0, "")
    if not number and kind != "delay":  # 0 is refused with any unit
        return ""
    if _KINDS[kind][0] is _TIMES:
        factor, meant = _OTHER_TIMES.get(unit.removesuffix("s"), (0, ""))
        return f"; did you mean {number * factor:g}{meant}?" if meant else ""
    bit = re.fullmatch(r"([kmgt]?)b(?:its?|ytes?)?(?:ps|/s)?", unit, re.IGNORECASE)
    if bit is None or kind not in ("bits", "rate"):
        return ""
    prefix = bit[1].lower() if bit[1] in ("k", "K") else bit[1].upper()
    byte = "B" in unit or "yte" in unit
    explanation = " (8 bits a byte)" if byte else ""
    return f"; did you mean {number * (8 if byte else 1):g}{prefix}bit{explanation}?"
