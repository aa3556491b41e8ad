"""Checks of a quantizer's settings: errors name the setting, the value and what is allowed."""

from dataclasses import fields
from typing import Any

import numpy as np

from compressors.base import shown


def plain(part: Any) -> None:
    """Puts Python's own numbers in the place of numpy's among a frozen part's settings.

    numpy's are as good as numbers, but not in a text, a JSON file or a comparison of types.

    Example:
        >>> from compressors import TopK
        >>> TopK(np.float32(0.5))
        TopK(p=0.5, sample=None)
    """
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(part, field.name, value.item())


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raises ``ValueError`` unless ``value`` is one of the words ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} is {shown(value)}: it is one of {', '.join(allowed)}")


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raises ``ValueError`` unless ``value`` is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} is {shown(value)}: it is a whole number from {low} to {high}")
