"""Figures: the sparsity plane, learning curves, what a budget of bits reaches, and the front.

Every figure is an object of its own on the Agg canvas; pyplot and its global state are not used,
so that figures can be drawn in threads and in notebooks alike. matplotlib is imported with the
first of them that is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsim.plot.bits import budget, pareto
    from fedsim.plot.canvas import plain_ticks, save
    from fedsim.plot.learning import curves
    from fedsim.plot.planes import matrix
    from fedsim.plot.times import over_bandwidths

__all__ = ["budget", "curves", "matrix", "over_bandwidths", "pareto", "plain_ticks", "save"]

_HOMES = {
    "budget": "bits", "curves": "learning", "matrix": "planes",
    "over_bandwidths": "times", "pareto": "bits", "plain_ticks": "canvas", "save": "canvas",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports what is used, when it is used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """What there is, for completion."""
    return sorted(__all__)
