"""Messages of updates on a GPU: selected, quantized and coded where they are; only bytes cross."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

GPU_DEVICES = {"cuda"}
"""Kinds of devices whose updates the kernels take. Tests add the CPU, for Triton's interpreter."""
_LARGEST = 1 << 31  # entries of updates: positions within a program are 32-bit numbers


def takes(*updates: Mapping[str, Any]) -> bool:
    """Whether all of these tensors lie on one device whose updates the kernels take together.

    The CPU makes every other message of tensors on a GPU (``compressors.elsewhere``), and all
    messages of methods without a plan (``compressors.segments.plan``).
    """
    tensors = [x for one in updates for x in one.values()]
    devices = {x.device for x in tensors if isinstance(x, Tensor)}
    if len(devices) != 1 or not 0 < sum(x.numel() for x in tensors) < _LARGEST:
        return False
    device = devices.pop()
    if device.type not in GPU_DEVICES:
        return False
    from compressors.kernels.gpu import tried  # which loads triton: that takes its time

    return tried.works(device)
