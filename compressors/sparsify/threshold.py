"""Every entry, every entry that is not zero, and entries above a fixed magnitude."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bounds import Sparsity, exact, neither
from compressors.kernels import select
from compressors.parts import BasePart
from compressors.settings import check_number, plain

_ZERO = 2.0**-150  # at most this becomes zero as a float32
_INFINITE = 2.0**128 - 2.0**103  # and this infinity
_LEAST_NORMAL = 2.0**-126
_DENORMALS = 2.0**149  # of float32 in one


def reaching(x: Tensor, magnitude: float) -> Tensor:
    """Sorted int64 indices of the entries of flat ``x`` (float32) with |x| >= ``magnitude``.

    No zero is among them. The magnitude is compared as a float32, by its IEEE bits.
    """
    if magnitude < _LEAST_NORMAL:  # a denormal's bits, in a thread that flushes denormals too
        floor = round(magnitude * _DENORMALS)
    else:
        floor = int(np.float32(magnitude).view(np.int32))
    indices, _ = select.at_least(x.detach().numpy(), floor, select.MAGNITUDE)
    return torch.from_numpy(indices.copy())


@dataclass(frozen=True)
class Threshold(BasePart):
    """Every entry of magnitude ``t`` or more (Strom 2015).

        S = {i : |x_i| >= t},  x_hat_i = x_i for i in S, else 0

    The paper sends t with the sign of x_i; here values are the quantizer's.

    The number sent follows from the data and travels. ``t`` is compared as a float32;
    ``ValueError`` where that is not above zero and finite.

    Example:
        >>> Threshold(2).select(torch.tensor([1.0, -3.0, 0.0, 2.0]), 0)
        (tensor([1, 3]), 1.0)
    """

    codec_id: ClassVar[str] = "threshold"
    t: float

    def __post_init__(self) -> None:
        plain(self)
        allowed = "a magnitude lies above 0, in reach of float32"
        check_number("threshold: t", self.t, lambda t: _ZERO < t < _INFINITE, allowed)

    def count(self, n: int) -> int:
        """Nominally none: the true number travels."""
        return 0

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        return reaching(x, self.t), 1.0

    def kept_of(self, d: int) -> Sparsity:
        """None: all may lie below the threshold."""
        reason = f"where all entries lie below {self.t:g} nothing is sent: error at most d t^2"
        return Sparsity(neither(reason), d, None)


@dataclass(frozen=True)
class Nonzero(BasePart):
    """Every entry that is not zero: lossless, for updates that are sparse by themselves.

        S = {i : x_i != 0},  x_hat_i = x_i

    Example:
        >>> Nonzero().select(torch.tensor([0.0, -3.0, -0.0, 2.0]), 0)
        (tensor([1, 3]), 1.0)
    """

    codec_id: ClassVar[str] = "nonzero"

    def count(self, n: int) -> int:
        """Nominally none: the true number travels."""
        return 0

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        return reaching(x, 0.0), 1.0

    def kept_of(self, d: int) -> Sparsity:
        """Lossless."""
        return Sparsity(exact(), d, None)


@dataclass(frozen=True)
class Identity(BasePart):
    """All entries, zeros too, and no positions: what a pipeline without a sparsifier means.

        S = {1, ..., n},  x_hat_i = x_i

    Example:
        >>> from compressors import parse, text
        >>> text(parse("identity | float32"))
        'per_tensor(float32)'
    """

    codec_id: ClassVar[str] = "identity"

    def count(self, n: int) -> int:
        """All of them."""
        return n

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        """Every index; a pipeline never asks for them."""
        return torch.arange(x.numel(), device=x.device), 1.0

    def kept_of(self, d: int) -> Sparsity:
        """Every entry."""
        return Sparsity(exact("every entry"), d, d)
