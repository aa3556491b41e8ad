"""A random share of the largest entries (Elibol et al. 2020; Barnes et al. 2020, rTop-k)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from compressors.base import nominal_count
from compressors.bounds import Sparsity, contraction, neither
from compressors.kernels import select
from compressors.parts import BasePart
from compressors.settings import check_flags, check_share
from compressors.sparsify.fraction import Fraction
from compressors.sparsify.randk import drawn
from compressors.sparsify.topk import largest


@dataclass(frozen=True)
class RTopK(BasePart, Fraction):
    """k = round(p n) entries at random of the round(m n) of largest magnitude.

        T = {the round(m n) largest |x_i| > 0},  S ~ U(subsets of k entries of T)
        x_hat_i = x_i for i in S, else 0

    rTop-k (Barnes et al. 2020; Elibol et al. 2020), without replacement; p <= m. Positions are
    written. Only non-zero entries are drawn from: where there are t < round(m n) of them, min(k, t)
    of those travel. ``scaled`` sends them times t / k (nominally m / p): an unbiased estimate of
    the ``topk(m)`` of the tensor, not of the tensor. p = m is ``topk(p)``, m = 1 a random k of all
    but zeros.

    Example:
        >>> RTopK(0.25, 0.5, scaled=True).select(torch.tensor([1.0, -3.0, 0.5, 2.0]), 1)[1]
        2.0
    """

    codec_id: ClassVar[str] = "rtopk"
    m: float
    scaled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("rtopk: m", self.m)
        check_flags("rtopk", scaled=self.scaled)
        if self.p > self.m:
            raise ValueError(f"rtopk: p is {self.p} and m is {self.m}: p is at most m")

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        """See ``Sparsifier.select``; the seed chooses among the largest."""
        n = x.numel()
        top = largest(x, nominal_count(self.m, n), select.MAGNITUDE)
        chosen = top[drawn(top.numel(), self.count(n), seed)]
        scale = top.numel() / chosen.numel() if self.scaled and chosen.numel() else 1.0
        return chosen, scale

    def scale_on(self, d: int) -> float:
        """m / p, in whole entries."""
        return nominal_count(self.m, d) / self.count(d)

    def kept_of(self, d: int) -> Sparsity:
        """delta = k / d plain; scaled by M / k it is (2 - M / k) M / d, while M < 2 k."""
        k, pool = self.count(d), nominal_count(self.m, d)
        if not self.scaled:
            return Sparsity(contraction(k / d, "k / d, in the mean"), k, k)
        if pool >= 2 * k:
            reason = "unbiased for topk(m) alone; scaled by m / p >= 2 it is not a contraction"
            return Sparsity(neither(reason), k, k, projects=False)
        delta = (2 - pool / k) * pool / d
        return Sparsity(contraction(delta, "ours: (2 - m / p) m"), k, k, projects=False)
