"""A real deployment on this machine: a SuperLink and SuperNodes, and what stops them."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.engines.deploy.deployment import NODE_FOLDER, Deployment

__all__ = ["NODE_FOLDER", "Deployment"]

make_lazy(__name__)
