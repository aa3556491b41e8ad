"""How a method uses a budget of a client's upstream bits: its fraction, and its rounds."""

import contextlib
from dataclasses import dataclass
from functools import lru_cache
from math import floor, log10

from fedsim.search import OWN_CODER, Sizes

KEPT = 1.03
"""A run may exceed its budget by this: its length follows from the size of one message."""

_HALVINGS = 24


@dataclass(frozen=True)
class Use:
    """A fraction (None: the method takes none) and the number of rounds."""

    fraction: float | None
    rounds: int


class Budgets:
    """What fits into budgets, by one model's messages.

    Args:
        sizes: of the model's messages.
    """

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self.use = lru_cache(maxsize=None)(self._use)

    def _use(self, text: str, bits: float, rounds: int) -> Use | None:
        """The largest fraction whose rounds fit; with the smallest, as many rounds as fit.

        Args:
            text: the method; ``{p}`` is where its fraction goes.
            bits: that a client may send in all.
            rounds: as many as there may be.

        Returns:
            None where not one message fits.
        """
        if "{p}" not in text:
            rounds = min(rounds, floor(bits / self._sizes.bits(text, None, OWN_CODER)))
            return Use(None, rounds) if rounds else None
        # The largest that is tried: a half, or what the method takes. At p = 1 every method sends
        # float32 (``fedsim.settings.methods``).
        for most in (0.5, 0.25, 0.1):
            with contextlib.suppress(ValueError):
                self._sizes.bits(text, most, OWN_CODER)
                break
        else:
            raise AssertionError(text)
        low, high = log10(1 / self._sizes.entries), log10(most)
        if self._bits(text, low) * rounds > bits:
            rounds = floor(bits / self._bits(text, low))
            return Use(_two(10**low), rounds) if rounds else None
        if self._bits(text, high) * rounds <= bits:
            return Use(_two(10**high), rounds)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            fits = self._bits(text, middle) * rounds <= bits
            low, high = (middle, high) if fits else (low, middle)
        return Use(_two(10**low), rounds)

    def _bits(self, text: str, power: float) -> int:
        return self._sizes.bits(text, _two(10**power), OWN_CODER)


def _two(value: float) -> float:
    """Two significant digits, downwards."""
    scale = 10.0 ** (floor(log10(value)) - 1)
    return float(f"{floor(value / scale * (1 + 1e-9)) * scale:.2g}")
