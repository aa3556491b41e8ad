"""Checks of a quantizer's settings: errors name the setting, the value and what is allowed."""


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raises ``ValueError`` unless ``value`` is one of the words ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: it is one of {', '.join(allowed)}")


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raises ``ValueError`` unless ``value`` is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}: it is a whole number from {low} to {high}")
