"""Momentum that is forgotten where entries were sent, on a GPU."""

from collections.abc import Mapping

import torch
from torch import Tensor

from compressors.device.plan import takes
from compressors.kernels.gpu.clear import cleared
from compressors.kernels.gpu.layout import on


def masked(tensors: Mapping[str, Tensor], chosen: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Copies of ``tensors`` that are zero at the ``chosen`` flat positions of the same names.

    None where kernels do not take them: on the CPU, without a Triton that works, of another type
    than float32.
    """
    if not takes({**tensors}) or any(x.dtype != torch.float32 for x in tensors.values()):
        return None
    device = next(iter(tensors.values())).device
    with on(device):
        found = cleared(list(tensors.values()), [chosen[name].to(device) for name in tensors])
    return dict(zip(tensors, found, strict=True))
