"""Views of results: planes, curves, budgets and times, in tables, figures and a page."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.show.style import GREYS, METHODS, ink
    from fedsim.show.times import Bandwidths, priced, times_over_bandwidths

__all__ = ["GREYS", "METHODS", "Bandwidths", "ink", "times_over_bandwidths", "priced"]

make_lazy(__name__)
