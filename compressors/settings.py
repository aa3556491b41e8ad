"""Checks of a part's settings: errors name the setting, the value and what is allowed."""

import math
from collections.abc import Callable
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from compressors.grammar import plain_text, shown


def plain(part: Any) -> None:
    """Puts Python's own numbers and texts in the place of others among a frozen part's settings.

    numpy's, and those of subclasses of ``int`` or ``str``, are as good as numbers and texts, but
    not in a text form, a JSON file or a comparison of types. A whole number becomes a float where
    the setting is one: equal parts have one text.

    Example:
        >>> from compressors import TopK
        >>> TopK(np.float32(0.5)), TopK(1)
        (TopK(p=0.5, sample=None), TopK(p=1.0, sample=None))
    """
    for field in fields(part):
        value = getattr(part, field.name)
        converted = _plain_value(value, field.type in (float, float | None))
        if converted is not value:
            object.__setattr__(part, field.name, converted)


def _plain_value(value: Any, is_float: bool) -> Any:
    """A number or a text, or each of a tuple, as Python has it; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(_plain_value(one, is_float) for one in value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, Integral) and not is_float:
        return int(value)
    return float(value) if isinstance(value, Real) else value


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raises ``ValueError`` unless ``value`` is one of the words ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} is {shown(value)}: give one of {', '.join(allowed)}")


def check_whole(name: str, value: object, low: int, high: float = math.inf) -> None:
    """Raises ``ValueError`` unless ``value`` is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        text = repr(value) if isinstance(value, float) else shown(value)  # 2.0 is not 2 here
        allowed = f"of at least {low}" if high == math.inf else f"from {low} to {high}"
        raise ValueError(f"{name} is {text}: give a whole number {allowed}")


def check_number(name: str, value: Any, fits: Callable[[float], bool], allowed: str) -> None:
    """Raises ``ValueError``, with what is ``allowed``, unless ``value`` is a number that fits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not fits(value):
        raise ValueError(f"{name} is {shown(value)}: {allowed}")


def check_flags(name: str, **flags: object) -> None:
    """Raises ``ValueError`` for a flag that is neither true nor false."""
    for setting, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name}: {setting} is {shown(value)}: give true or false")


def check_share(name: str, p: float) -> None:
    """Raises ``ValueError`` unless ``p`` is a number with 0 < p <= 1."""
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 < p <= 1:
        raise ValueError(f"{name} is {shown(p)}: a fraction of entries lies above 0 and at most 1")


def check_codec(name: str, thing: object) -> None:
    """Raises ``ValueError`` unless ``thing`` is a codec of one tensor."""
    if hasattr(thing, "init") or not hasattr(thing, "read"):
        raise ValueError(
            f"{name} takes a codec of one tensor (topk(p) | float32), not {shown(thing)}"
        )


def check_compressor(name: str, thing: object) -> None:
    """Raises ``ValueError`` unless ``thing`` is a compressor of a whole update."""
    if not hasattr(thing, "init"):
        raise ValueError(f"{name} takes a compressor of a whole update, not {shown(thing)}")
