"""Momentum factor masking: momentum is forgotten where entries were sent."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from compressors import Sent, State
from compressors.device import GPU_DEVICES

_MOMENTA = ("momentum_buffer", "exp_avg")  # SGD's and Adam's first moment


class Masking(NamedTuple):
    """The arguments of ``mask_momentum``."""

    optimizer: State
    sent: Sent


class Masked(NamedTuple):
    """The result of a ``Masking``, and how long it took."""

    optimizer: State
    seconds: float = 0.0


def mask_momentum(optimizer: State, sent: Sent) -> State:
    """The optimizer state with first moments set to zero where entries were sent.

    Lin et al.'s momentum factor masking, as SBC adopts it (supplement A). A tensor that
    was sent whole is left alone: nothing of it is held back, so nothing goes stale.
    """
    return mask_all([Masking(optimizer, sent)])[0]


def mask_all(maskings: Sequence[Masking]) -> list[State]:
    """The same for several clients. On a GPU one launch masks all of their tensors."""
    chosen = [
        {
            key: tensor.indices
            for name, tensor in sent.items()
            if isinstance(tensor.indices, Tensor)
            for kind in _MOMENTA
            if (key := f"{kind}/{name}") in optimizer
        }
        for optimizer, sent in maskings
    ]
    pairs = zip(maskings, chosen, strict=True)
    moments_of = [{key: one.optimizer[key] for key in indices} for one, indices in pairs]
    kernels = None
    if GPU_DEVICES & {x.device.type for moments in moments_of for x in moments.values()}:
        from compressors.device.numbers import (
            masked_copies,  # and triton, which takes its time to load
        )

        kernels = masked_copies(moments_of, chosen)
    if kernels is None:
        for moments, indices in zip(moments_of, chosen, strict=True):
            for key, moment in moments.items():
                moments[key] = moment.clone(memory_format=torch.contiguous_format)
                moments[key].view(-1).index_fill_(0, indices[key], 0.0)
    return [one.optimizer | x for one, x in zip(maskings, kernels or moments_of, strict=True)]
