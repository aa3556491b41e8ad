"""Momentum that is forgotten where entries were sent, on a GPU."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from compressors.device.plan import takes
from compressors.kernels.gpu.clear import cleared
from compressors.kernels.gpu.layout import on


def masked(
    groups: Sequence[Mapping[str, Tensor]], chosen: Sequence[Mapping[str, Tensor]]
) -> list[dict[str, Tensor]] | None:
    """Copies of tensors that are zero at the ``chosen`` flat positions of the same names.

    The copies of one group share memory. None where kernels do not take them: on the CPU, without
    a Triton that works, of another type than float32.
    """
    tensors = [x for one in groups for x in one.values()]
    if not takes(*groups) or any(x.dtype != torch.float32 for x in tensors):
        return None
    device = tensors[0].device
    with on(device):
        where = [[places[name].to(device) for name in one]
                 for one, places in zip(groups, chosen, strict=True)]  # fmt: skip
        counts = cleared([[*one.values()] for one in groups], where)
    return [dict(zip(one, parts, strict=True)) for one, parts in zip(groups, counts, strict=True)]
