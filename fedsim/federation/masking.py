"""Momentum factor masking: momentum is forgotten where entries were sent."""

import torch
from torch import Tensor

from compressors import Sent, State
from compressors.device import DEVICES

_MOMENTA = ("momentum_buffer", "exp_avg")  # SGD's and Adam's first moment


def mask_momentum(optimizer: State, sent: Sent) -> State:
    """The optimizer state with first moments set to zero where entries were sent.

    Lin et al.'s momentum factor masking, as SBC adopts it (supplement A). A tensor that
    was sent whole is left alone: nothing of it is held back, so nothing goes stale. On a GPU one
    kernel masks all tensors.
    """
    wanted = {
        key: tensor.indices
        for name, tensor in sent.items() if isinstance(tensor.indices, Tensor)
        for kind in _MOMENTA if (key := f"{kind}/{name}") in optimizer
    }  # fmt: skip
    moments = {key: optimizer[key] for key in wanted}
    if any(x.device.type in DEVICES for x in moments.values()):
        from compressors.device.masks import masked  # and triton, which takes its time to load

        if (found := masked(moments, wanted)) is not None:
            return optimizer | found
    for key, moment in moments.items():
        moments[key] = moment.clone(memory_format=torch.contiguous_format)
        moments[key].view(-1).index_fill_(0, wanted[key], 0.0)
    return optimizer | moments
