"""The columns of a tensor, and what is shared within one.

1-bit SGD (Seide et al. 2014) and Dryden et al. 2016 share reconstruction values within a
column of a weight matrix. Their layers compute ``W^T v + a``: a column holds the weights into
one unit of the next layer. torch stores that matrix transposed, with the units along the first
axis, so a column here is all that stands at one index of the first axis (of a convolution: one
filter). Tensors of one dimension, biases and the like, are one column.
"""

import torch
from torch import Tensor

from compressors.kernels import sign
from compressors.parts import Place


def lengths(place: Place, columns: bool = True) -> Tensor:
    """How many of the k values lie in each column that has any, in order: int64 (c,).

    Both sides know it: it follows from the shape and the positions. ``columns`` False: the
    whole tensor counts as one column. Without values the result is empty.

    Example:
        >>> lengths(Place(torch.tensor([0, 1, 5]), torch.Size((2, 3))))
        tensor([2, 1])
    """
    indices, shape = place
    if place.k == 0:
        return torch.zeros(0, dtype=torch.int64, device="cpu")
    if not columns or len(shape) < 2:
        return torch.tensor([place.k], device="cpu")
    width = shape.numel() // shape[0]
    if indices is None:
        return torch.full((shape[0],), width, dtype=torch.int64, device="cpu")
    return torch.unique_consecutive(indices // width, return_counts=True)[1]


def two_means(values: Tensor, counts: Tensor) -> Tensor:
    """The mean of the values at or above zero, and of those below, of each column: float32 (c, 2).

    ``values`` (k,) float32 are ordered by column, ``counts`` (c,) of them in each. Sums in
    float64. The mean of none is zero.
    """
    means = sign.sign_means(values.detach().contiguous().numpy(), counts.numpy())
    return torch.from_numpy(means)
