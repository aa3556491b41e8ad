"""Neighbouring entries: whole blocks that travel, and the largest entries of every chunk."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import nominal_count
from compressors.bounds import Sparsity, contraction, exact
from compressors.kernels.chunks import energies, largest_of_chunks
from compressors.parts import BasePart
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


def chunk_counts(p: float, size: int, n: int) -> np.ndarray:
    """How many entries of each chunk of ``size`` a fraction ``p`` means: int64 (chunks,)."""
    full, remainder = divmod(n, size)
    counts = np.full(full + (remainder > 0), nominal_count(p, size), np.int64)
    if remainder:
        counts[-1] = nominal_count(p, remainder)
    return counts


@dataclass(frozen=True)
class ChunkTopK(BasePart):
    """The fraction ``p`` of largest magnitude of every ``size`` neighbouring entries.

        S = union over chunks c of {the k_c largest |x_i|, i in c},  k_c = max(1, round(p m_c))
        x_hat_i = x_i for i in S, else 0

    m_c is the number of entries of chunk c. SparseLoCo (Sarfi, Thérien, Lidin & Belilovsky 2025,
    https://arxiv.org/abs/2508.15706) and DeMo (Peng, Quesnelle & Kingma 2024,
    https://arxiv.org/abs/2411.19870) choose so: no chunk is left out, and chunks are chosen from
    side by side. The last chunk may be shorter. Ties go to the lowest index and zeros are never
    sent, as with ``topk``. Entries are those of the tensor in its order; the papers cut matrices
    into tiles.

    Args:
        p: 0 < p <= 1.
        size: entries of a chunk, 1 to 2**24.

    Raises ``ValueError`` for any other.

    Example:
        >>> ChunkTopK(0.5, 2).select(torch.tensor([1.0, -3.0, 0.0, 0.0, 2.0]), 0)
        (tensor([1, 4]), 1.0)
    """

    codec_id: ClassVar[str] = "chunk_topk"
    p: float
    size: int = 4096

    def __post_init__(self) -> None:
        plain(self)
        check_share("chunk_topk: p", self.p)
        check_whole("chunk_topk: size", self.size, 1, 1 << 24)

    def count(self, n: int) -> int:
        """The sum over chunks of max(1, round(p m))."""
        full, remainder = divmod(n, self.size)  # not chunk by chunk: theory asks of 10**12 entries
        return full * nominal_count(self.p, self.size) + nominal_count(self.p, remainder)

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        counts = chunk_counts(self.p, self.size, x.numel())
        positions = np.empty(int(counts.sum()), np.int64)
        size = min(self.size, max(1, x.numel()))
        taken = largest_of_chunks(x.detach().numpy(), size, counts, positions)
        return torch.from_numpy(positions[:taken]), 1.0

    def kept_of(self, d: int) -> Sparsity:
        """The least share of a chunk that is kept: of the whole ones, or of the last."""
        size = min(self.size, d)
        lengths = [size, d % size or size]
        share = min(nominal_count(self.p, m) / m for m in lengths)
        k = self.count(d)
        return Sparsity(contraction(share, "k / m of the worst chunk"), k, k)
