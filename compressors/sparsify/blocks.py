"""Whole blocks of neighbouring entries (OmniReduce; Fei et al. 2020)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors.base import nominal_count
from compressors.bounds import Sparsity, contraction, exact
from compressors.kernels.energy import energies
from compressors.settings import check_share, check_whole, plain


def block_norms(x: Tensor, b: int) -> Tensor:
    """Squared L2 norms (units,) float64 of each ``b`` entries of flat ``x`` (float32)."""
    b = max(1, min(b, x.numel()))
    return torch.from_numpy(energies(x.detach().numpy(), b))


@dataclass(frozen=True)
class Blocks:
    """Blocks of ``b`` neighbouring entries travel whole, those that hold a non-zero.

        S = {i : ||x_B(i)||_2 > 0},  x_hat_i = x_i for i in S, else 0

    B(i) is the block of entry i (OmniReduce; Fei et al. 2020). With ``p`` at most the fraction p of
    the blocks, those of largest L2 norm: norms are summed in float64 and ties go to the lowest
    block. A block of zeros never travels. Positions are those of blocks: one a block.

    Example:
        >>> Blocks(2).select(torch.tensor([0.0, 0, 0, 3, 1]), 0)  # of the blocks 0, 1, 2
        (tensor([1, 2]), 1.0)
    """

    codec_id: ClassVar[str] = "blocks"
    b: int
    p: float | None = None
    needs_seed: ClassVar[bool] = False
    one_sign: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        check_whole("blocks: b", self.b, 1, 1 << 53)
        if self.p is not None:
            check_share("blocks: p", self.p)

    @property
    def unit(self) -> int:
        return self.b

    def count(self, n: int) -> int:
        """Of ``n`` blocks max(1, round(p n)); without ``p`` nominally none."""
        return 0 if self.p is None else nominal_count(self.p, n)

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        """See ``Sparsifier.select``: numbers of blocks; needs no seed."""
        norms = block_norms(x, self.b)
        k = int((norms > 0).sum())
        if self.p is not None:
            k = min(k, self.count(norms.numel()))
        if k == 0:
            return torch.empty(0, dtype=torch.int64, device="cpu"), 1.0
        order = torch.sort(norms, descending=True, stable=True).indices
        return order[:k].sort().values, 1.0

    def kept_of(self, d: int) -> Sparsity:
        """Lossless without p; else the share of the blocks, as for topk."""
        if self.p is None:
            return Sparsity(exact("only zeros are left out"), d, None)
        units = -(-d // self.b)
        chosen = self.count(units)
        capacity = min(d, chosen * self.b)
        return Sparsity(contraction(chosen / units, "the share of the blocks"), capacity, capacity)
