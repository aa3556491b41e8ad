"""The contract of a sparsifier: the first slot of a pipeline."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


class Sparsifier(Protocol):
    """Chooses units of a flat vector: single entries, or blocks of ``unit`` entries each.

    The last block of a vector may be shorter. Positions of units are what is coded.
    """

    @property
    def needs_seed(self) -> bool:
        """Whether the receiver draws the positions from the seed; then none are written."""
        ...

    @property
    def one_sign(self) -> bool:
        """Whether all chosen entries of a tensor have the same sign."""
        ...

    @property
    def unit(self) -> int:
        """Entries in a unit."""
        ...

    def count(self, n: int) -> int:
        """The nominal number of units sent of ``n`` units, which both sides know."""
        ...

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        """Sorted int64 units (k,) of the flat ``x`` (n,), and the factor on their values.

        Of a ``Weighted`` sparsifier the number is what its ``weigh`` takes.
        """
        ...


@runtime_checkable
class Weighted(Protocol):
    """A sparsifier that multiplies different values by different factors."""

    def weigh(self, values: Tensor, scale: float) -> Tensor:
        """What is sent for the chosen ``values`` (k,); ``scale`` is what ``select`` returned."""
        ...


@runtime_checkable
class Seeded(Protocol):
    """A sparsifier whose positions follow from the seed alone: the receiver draws them too."""

    def places(self, n: int, seed: int, device: torch.device) -> Tensor:
        """The sorted int64 positions (k,) that ``select`` chooses of ``n`` entries."""
        ...
