"""The search: which method, delay, fraction, coder and rate are best for a task and a budget."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.search.curves import ended, read_curve
    from fedsim.search.goal import Curve
    from fedsim.search.methods import OWN_CODER, select_methods
    from fedsim.search.space import Sizes

__all__ = [
    "OWN_CODER",
    "Curve",
    "Sizes",
    "ended",
    "read_curve",
    "select_methods",
]

make_lazy(__name__)
