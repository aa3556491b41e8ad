"""Every entry travels."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors.bounds import Sparsity, exact
from compressors.parts import BasePart


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
