"""Figures: the sparsity plane, learning curves, what a budget of bits reaches, and the front.

Every figure is an object of its own on the Agg canvas; pyplot and its global state are not used,
so that figures can be drawn in threads and in notebooks alike.
"""

from fedsim.plot.bits import budget, pareto
from fedsim.plot.canvas import save
from fedsim.plot.learning import curves
from fedsim.plot.planes import matrix

__all__ = ["budget", "curves", "matrix", "pareto", "save"]
