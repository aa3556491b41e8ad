"""The largest entries of every chunk: what SparseLoCo and DeMo send."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import nominal_count
from compressors.bounds import Sparsity, contraction
from compressors.kernels import chunks as kernel
from compressors.parts import BasePart
from compressors.settings import check_share, check_whole, plain


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
        taken = kernel.largest_of_chunks(x.detach().numpy(), size, counts, positions)
        return torch.from_numpy(positions[:taken]), 1.0

    def kept_of(self, d: int) -> Sparsity:
        """The least share of a chunk that is kept: of the whole ones, or of the last."""
        size = min(self.size, d)
        lengths = [size, d % size or size]
        share = min(nominal_count(self.p, m) / m for m in lengths)
        k = self.count(d)
        return Sparsity(contraction(share, "k / m of the worst chunk"), k, k)
