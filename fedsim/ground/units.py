"""Numbers as people read them: three significant digits and a unit, the same everywhere."""

import math
from collections.abc import Iterable

# Scores that are fractions: their differences are shown in percentage points.
FRACTIONS = frozenset({"accuracy", "top1", "top5", "hit_rate", "f1", "auc"})

OF_BITS = ("_bits", "_bits_per_client")
"""How the names of columns of bits end."""

_LONG = 1e6  # from such a deviation on, a mean is written with an exponent
_UNITS = ("bit", "kbit", "Mbit", "Gbit", "Tbit")


def bits(count: float | None) -> str:
    """A number of bits with three significant digits: `812 bit`, `13.8 Mbit` (1 kbit = 1000 bit).

    Empty where it is not known (None or NaN).
    """
    if _unknown(count):
        return ""
    value = float(count or 0)
    for unit in _UNITS[:-1]:
        if abs(value) < 999.5:
            return f"{_three(value, integer=unit == 'bit')} {unit}"
        value /= 1000
    return f"{_three(value)} Tbit"


def round_bits(count: float) -> str:
    """A round number of bits without the digits that are all 0: `500 bit`, `2 Mbit`.

    Example:
        >>> round_bits(2e6), round_bits(0.5), round_bits(1e16)
        ('2 Mbit', '0.5 bit', '10000 Tbit')
    """
    place = next((k for k in range(len(_UNITS) - 1, 0, -1) if count >= 0.9999 * 1000**k), 0)
    return f"{count / 1000.0**place:.6g} {_UNITS[place]}"


def ratio(value: float | None) -> str:
    """A compression ratio: `×3.21`, `×35.1`, `×24935`; empty where it is not known, or of 0 bits.

    Example:
        >>> ratio(35.06), ratio(0.0042), ratio(math.inf)
        ('×35.1', '×0.0042', '')
    """
    if _unknown(value) or value == math.inf:
        return ""
    number = float(value or 0)
    return f"×{number:.2g}" if 0 < number < 0.0995 else f"×{_three(number)}"


def score(value: float | None, name: str) -> str:
    """A metric: four decimals for a fraction such as accuracy, else four significant digits."""
    if _unknown(value):
        return ""
    return f"{value:.4f}" if name in FRACTIONS else f"{value:.4g}"


def difference(value: float | None, name: str, signed: bool = True) -> str:
    """A difference of two scores: percentage points for a fraction, else in the score's unit."""
    if _unknown(value):
        return ""
    # Rounded, so that equal scores do not differ by 4e-15, nor by -0.
    shown = round(float(value or 0), 9) + 0.0
    if name in FRACTIONS:
        return _signed(100 * shown, 2) if signed else f"{100 * shown:z.2f}"
    return f"{shown:{'+' if signed and shown else ''}.3g}"


def decimal_places(deviation: float, name: str) -> int:
    """Decimals of a mean with a deviation: four of a fraction, else as show two digits of that.

    Example:
        >>> [decimal_places(0.0126, name) for name in ("accuracy", "loss")]
        [4, 3]
    """
    if name in FRACTIONS:
        return 4
    if not math.isfinite(deviation):
        return 0
    return max(0, 1 - math.floor(math.log10(deviation))) if deviation > 0 else 2


def averaged(value: float | None, deviation: float | None, name: str) -> str:
    """The mean of seeds with their sample deviation, which one seed alone has not.

    Example:
        >>> averaged(0.71156, 0.01262, "accuracy"), averaged(31.4159, 0.1234, "perplexity")
        ('0.7116 ± 0.0126', '31.42 ± 0.12')
        >>> averaged(0.71156, float("nan"), "accuracy")
        '0.7116'
    """
    if _unknown(value) or _unknown(deviation):
        return score(value, name)
    if not float(deviation or 0) < _LONG:
        return f"{score(value, name)} ± {deviation:.2g}"
    decimals = decimal_places(float(deviation or 0), name)
    return f"{value:z.{decimals}f} ± {deviation:.{decimals}f}"


def averaged_difference(value: float | None, deviation: float | None, name: str) -> str:
    """A mean difference of two scores with its deviation, in percentage points for a fraction.

    Example:
        >>> averaged_difference(-0.0648, 0.0042, "accuracy"), averaged(-1e-9, 0.01, "loss")
        ('-6.48 ± 0.42', '0.000 ± 0.010')
        >>> difference(-0.00001, "accuracy"), averaged_difference(-0.001, 0.5, "loss")
        ('0.00', '0.00 ± 0.50')
    """
    if _unknown(value) or _unknown(deviation) or not round(float(deviation or 0), 9):
        return difference(value, name)
    if name in FRACTIONS:
        return f"{difference(value, name)} ± {difference(deviation, name, signed=False)}"
    if not float(deviation or 0) < _LONG:
        return f"{difference(value, name)} ± {deviation:.2g}"
    decimals = decimal_places(float(deviation or 0), name)
    return f"{_signed(value or 0, decimals)} ± {deviation:.{decimals}f}"


def digits(value: float | None) -> str:
    """Three significant digits of a number that is not tiny: `0.00232`, `1.00`, `35.1`, `24935`.

    Example:
        >>> digits(0.99998), digits(0.00232)
        ('1.00', '0.00232')
    """
    if _unknown(value):
        return ""
    return _three(float(value or 0)) if abs(value or 0) >= 0.9995 else f"{value:.3g}"


def scale(counts: Iterable[float]) -> tuple[float, str]:
    """What to divide numbers of bits by in a column, and that unit: `(1e6, "Mbit")`.

    The unit is that of the geometric mean of the least and the greatest.

    Example:
        >>> scale([232e3, 821e6])
        (1000000.0, 'Mbit')
    """
    positive = [float(count) for count in counts if count > 0]
    middle = math.sqrt(min(positive) * max(positive)) if positive else 0.0
    place = next((k for k in range(4, 0, -1) if middle >= 1000**k), 0)
    return 1000.0**place, _UNITS[place]


def memory(count: float) -> str:
    """Bytes with the unit that shows them best, three significant digits.

    Example:
        >>> memory(1), memory(256_000), memory(3 * 2**30)
        ('1 B', '250 KiB', '3 GiB')
        >>> memory(999.6 * 1024), memory(2**41)
        ('0.976 MiB', '2 TiB')
    """
    names = ("B", "KiB", "MiB", "GiB", "TiB")
    power = max(p for p in range(5) if count >= 999.5 * 1024 ** (p - 1) or p == 0)
    value = count / 1024**power
    return f"{value:.0f} {names[power]}" if value >= 999.5 else f"{value:.3g} {names[power]}"


def seconds(value: float | None) -> str:
    """A time in seconds, without its unit: `0.42`, `12.3`, `4120`; empty where not known."""
    return "" if _unknown(value) else _three(float(value or 0))


def duration(value: float | None) -> str:
    """A time with its unit, three significant digits: `42 ms`, `12.3 s`, `4.07 min`, `2.5 days`.

    Example:
        >>> duration(0.0421), duration(244), duration(86400 * 2.5), duration(float("nan"))
        ('42.1 ms', '4.07 min', '2.50 days', '')
    """
    if _unknown(value):
        return ""
    seconds = float(value or 0)
    for limit, unit, length in (
        (0.9995, "ms", 1e-3),
        (99.95, "s", 1.0),
        (5997, "min", 60.0),
        (172_728, "h", 3600.0),
    ):
        if seconds < limit:
            return f"{_three(seconds / length)} {unit}"
    return f"{_three(seconds / 86400)} days"


def plain(value: float | None) -> str:
    """A setting or a fraction as it would be typed: `0.001`, `1e-05`, `10`."""
    return "" if _unknown(value) else f"{value:.6g}"


def fraction(value: float | None) -> str:
    """A share of entries, three significant digits: `0.000327`, `0.5`; empty where not known."""
    return "" if _unknown(value) else f"{value:.3g}"


def _three(value: float, integer: bool = False) -> str:
    if integer and value == int(value) or abs(value) >= 99.95:
        return f"{value:.0f}"
    # 9.995 prints as 10.0, not as 10.00: the digits follow from the rounded value.
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}"


def _signed(value: float, decimals: int) -> str:
    """A number with its sign, which one that reads 0 has not."""
    text = f"{value:z.{decimals}f}"
    return f"+{text}" if value > 0 and float(text) else text


def _unknown(value: float | None) -> bool:
    return value is None or math.isnan(value)
