"""Rates and times as a network's text has them: numbers with units, and how they vary."""

import math
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.errors import UsageError, bits_meant, time_meant

Kind = Literal["rate", "time"]
"""A rate is in bits per second, a time in seconds."""

_UNITS: dict[Kind, dict[str, float]] = {
    "rate": {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9},
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0},
}
_ALLOWED: dict[Kind, str] = {
    "rate": "a number of bits per second above 0, such as 5Mbit, 768kbit, 1Gbit or inf",
    "time": "a number of seconds, such as 50ms, 0.2s, 10min or 0",
}
_MOST_SIGMA = 5.0
"""Of a logarithm: beyond it a client in three is more than 148 times off the median."""
_NUMBER = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?) *([a-z]*)(/s)?", re.IGNORECASE)
_CALL = re.compile(r"([a-z_]+)\((.*)\)")


@dataclass(frozen=True)
class Varying:
    """A number that differs between clients: drawn once per client, and fixed from then on.

    Args:
        kind: "constant", "lognormal" or "uniform".
        first: the constant, the median of the lognormal, or the least value.
        second: sigma of the logarithm (lognormal), or the greatest value (uniform).

    Example:
        >>> Varying("uniform", 1.0, 2.0).draw(np.random.default_rng(0), 2).round(3).tolist()
        [1.637, 1.27]
    """

    kind: Literal["constant", "lognormal", "uniform"]
    first: float
    second: float = 0.0

    def draw(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Values of `count` clients, float64. A constant draws nothing from the generator."""
        if self.kind == "lognormal":
            return self.first * np.exp(self.second * generator.standard_normal(count))
        if self.kind == "uniform":
            return generator.uniform(self.first, self.second, count)
        return np.full(count, self.first)


def parse_varying(text: str, name: str, kind: Kind) -> Varying:
    """A rate or a time from its text.

    Args:
        text: `5Mbit`, `lognormal(5Mbit, 1)` (median and sigma), `uniform(1Mbit, 20Mbit)`.
        name: the setting, as the message calls it.
        kind: what the numbers are.

    Raises:
        UsageError: the text is none of these.

    Example:
        >>> parse_varying("lognormal(5Mbit, 1)", "up", "rate")
        Varying(kind='lognormal', first=5000000.0, second=1.0)
        >>> parse_varying("50ms", "latency", "time").first
        0.05
    """
    call = _CALL.fullmatch(text.strip())
    if call is None:
        return Varying("constant", parse_number(text, name, kind))
    parts = [part.strip() for part in call[2].split(",")]
    if call[1] == "lognormal" and len(parts) == 2:
        return Varying("lognormal", parse_number(parts[0], name, kind), _sigma(parts[1], name))
    if call[1] == "uniform" and len(parts) == 2:
        low, high = (parse_number(part, name, kind) for part in parts)
        if not low <= high < math.inf:
            raise UsageError(f"{name} is {text}: uniform(LOW, HIGH) takes LOW <= HIGH, both finite")
        return Varying("uniform", low, high)
    raise UsageError(
        f"{name} is {text!r}: it is {_ALLOWED[kind]}, lognormal(MEDIAN, SIGMA) or "
        "uniform(LOW, HIGH)"
    )


def parse_number(text: str, name: str, kind: Kind) -> float:
    """A number with a unit of its kind; without one it is in bits per second or in seconds.

    Raises:
        UsageError: it is none, is negative, or is a rate of 0.

    Example:
        >>> parse_number("768 kbit/s", "up", "rate"), parse_number("inf", "up", "rate")
        (768000.0, inf)
    """
    if kind == "rate" and text.strip() == "inf":
        return math.inf
    matched = _NUMBER.fullmatch(text.strip())
    unit = (matched[2].lower() if matched else "") or ("bit" if kind == "rate" else "s")
    try:
        value = float(matched[1]) * _UNITS[kind][unit] if matched else math.nan
    except (KeyError, ValueError):  # another unit; 1.2.3
        value = math.nan
    if matched and matched[3] and kind == "time":  # 50ms/s
        value = math.nan
    if not (0 <= value < math.inf) or (kind == "rate" and value == 0):
        meant = bits_meant(text) if kind == "rate" else time_meant(text)
        raise UsageError(f"{name} is {text!r}: it is {_ALLOWED[kind]}{meant}")
    return value


def _sigma(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _MOST_SIGMA:
        raise UsageError(
            f"{name}: sigma is {text!r}; it is that of the logarithm, from 0 to {_MOST_SIGMA:g}, "
            "such as 0.5: of sigma 1 a third of all clients is more than 2.7 times off the median"
        )
    return value
