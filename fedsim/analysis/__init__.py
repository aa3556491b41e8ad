"""Planes, curves, budgets and tables of results, and how numbers and colours look."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.analysis.style import GREYS, METHODS, ink
    from fedsim.analysis.times import Bandwidths, over_bandwidths, priced

__all__ = ["GREYS", "METHODS", "Bandwidths", "ink", "over_bandwidths", "priced"]

make_lazy(__name__)
