"""Momentum factor masking: momentum is forgotten where entries were sent."""

from torch import Tensor

from compressors import Sent, State

_MOMENTA = ("momentum_buffer", "exp_avg")  # SGD's and Adam's first moment


def mask_momentum(optimizer: State, sent: Sent) -> State:
    """The optimizer state with first moments set to zero where entries were sent.

    Lin et al.'s momentum factor masking, as SBC adopts it (supplement A). A tensor that
    was sent whole is left alone: nothing of it is held back, so nothing goes stale.
    """
    masked = dict(optimizer)
    for name, tensor in sent.items():
        for kind in _MOMENTA:
            key = f"{kind}/{name}"
            if key in masked and isinstance(tensor.indices, Tensor):
                flat = masked[key].contiguous().reshape(-1).clone()
                flat[tensor.indices] = 0.0
                masked[key] = flat.view(masked[key].shape)
    return masked
