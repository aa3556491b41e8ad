"""By what clients are weighted in a mean."""


def check_weighting(given: str) -> None:
    """Refuses a weighting that is neither ``uniform`` nor ``samples``.

    Raises ``ValueError``, which names it.

    Example:
        >>> check_weighting("samples")
    """
    if given not in ("uniform", "samples"):
        raise ValueError(f"weighting is {given!r}: give uniform or samples")
