"""The k largest entries of a vector on any device, exactly."""

import torch
from torch import Tensor

from compressors.kernels import select


def keys_torch(x: Tensor, side: int) -> Tensor:
    """The integer keys (n,) int32 of flat ``x`` (float32), as in ``kernels.select``."""
    bits = x.detach().view(torch.int32)
    return (bits & 0x7FFFFFFF, bits, bits ^ -(1 << 31))[side]


def largest_torch(x: Tensor, k: int, side: int) -> Tensor:
    """The slow, obvious twin of ``kernels.select.largest_of_segments``, for any device."""
    key = keys_torch(x, side)
    k = min(k, int((key > 0).sum()))
    if k == 0:
        return torch.empty(0, dtype=torch.int64, device=x.device)
    edge = torch.topk(key, k).values[-1]
    above = key > edge
    at_edge = (key == edge).nonzero().flatten()[: k - int(above.sum())]
    above[at_edge] = True
    return above.nonzero().flatten()


def largest(x: Tensor, k: int, side: int) -> Tensor:
    """Sorted indices of the ``k`` entries of flat ``x`` (float32) with the largest key.

    ``side``: ``select.MAGNITUDE`` |x|, ``select.POSITIVE`` x, ``select.NEGATIVE`` -x.
    Entries whose key is not above zero are left out.
    """
    if x.device.type != "cpu":
        return largest_torch(x, k, side)
    return torch.from_numpy(select.select_largest(x.detach().numpy(), k, side))
