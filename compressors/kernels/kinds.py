"""What a symbol can be: numbers that the loops of the CPU and the kernels of a GPU share."""

from dataclasses import dataclass

import torch

FLOAT32, SHARED, NATURAL, SIGN, COINS, LEVELS, POWERS = range(7)
"""The float itself; nothing, for all values are one number; a power of two; the sign of a number;
the same with coins for zeros; a level from even ones, or from powers of two."""


@dataclass(frozen=True)
class SymbolKind:
    """The kind of a symbol (one of the numbers above), its dtype, and the quantizer's settings."""

    number: int
    dtype: torch.dtype
    random: bool = False
    settings: tuple[int, int, int] = (0, 0, 0)
