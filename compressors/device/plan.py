"""Which updates the kernels of a GPU take: of the methods that ``segments.plan`` has a plan for.

The CPU makes every other message of tensors on a GPU (``compressors.elsewhere``).
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from compressors.device import GPU_DEVICES
from compressors.kernels.gpu.tried import works

_LARGEST = 1 << 31  # entries of updates: positions within a program are 32-bit numbers


def takes(*updates: Mapping[str, Any]) -> bool:
    """Whether all of these tensors lie on one device whose updates the kernels take together."""
    tensors = [x for one in updates for x in one.values()]
    places = {x.device for x in tensors if isinstance(x, Tensor)}
    return (
        len(places) == 1
        and next(iter(places)).type in GPU_DEVICES
        and 0 < sum(x.numel() for x in tensors) < _LARGEST
        and works(next(iter(places)))
    )
