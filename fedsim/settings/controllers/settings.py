"""Checks of a controller's settings: ``ValueError`` names the setting, the value and the rule."""

from typing import Any


def check_whole_number(name: str, value: Any) -> None:
    """Refuses what is not a whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}: give a whole number from 1")


def check_fraction(name: str, value: Any) -> None:
    """Refuses what does not lie in (0, 1]."""
    if not _is_number(value) or not 0 < value <= 1:
        raise ValueError(f"{name} is {value!r}: it lies in (0, 1]")


def check_above_zero(name: str, value: Any) -> None:
    """Refuses what is not a finite number above 0."""
    if not _is_number(value) or not 0 < value < float("inf"):
        raise ValueError(f"{name} is {value!r}: give a number above 0")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
