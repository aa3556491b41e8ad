"""Figures: the sparsity plane, learning curves, what a budget of bits reaches, and the front.

Every figure is an object of its own on the Agg canvas. pyplot and its global state are not used,
so figures can be drawn both in threads and in notebooks. matplotlib is imported when the first
function is used. ``fedsim.plot`` is this room.
"""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:
    from fedsim.show.plot.figures import budget, curves, over_bandwidths, pareto
    from fedsim.show.plot.matrices import matrix
    from fedsim.show.plot.paper import plain_ticks, save, without_rc
    from fedsim.show.plot.partitions import partition
    from fedsim.show.plot.ranks import critical_difference

__all__ = [
    "budget",
    "critical_difference",
    "curves",
    "matrix",
    "over_bandwidths",
    "pareto",
    "partition",
    "plain_ticks",
    "save",
    "without_rc",
]

make_lazy(__name__)
