"""By what clients are weighted in a mean."""


def check_weighting(weighting: str) -> None:
    """Refuses a weighting that is neither ``uniform`` nor ``samples``.

    Raises ``ValueError``, which names it.

    Example:
        >>> check_weighting("samples")
    """
    if weighting not in ("uniform", "samples"):
        raise ValueError(f"weighting is {weighting!r}: give uniform or samples")
