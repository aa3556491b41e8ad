"""Entries chosen by chance or by sign: GSpar, rTop-k, and Dryden et al. 2016."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import nominal_count
from compressors.bounds import Sparsity, contraction, neither, unbiased
from compressors.kernels import select
from compressors.kernels.noise import words
from compressors.kernels.sign import signs
from compressors.parts import BasePart
from compressors.settings import check_flags, check_share
from compressors.sparsify.randk import drawn
from compressors.sparsify.topk import Fraction, TopK, largest
from compressors.whole.growth import Fault

_WORDS = 2.0**32  # how many noise words there are


def least_sent(magnitudes: np.ndarray, k: int) -> float:
    """The magnitude 1 / lambda for which min(1, lambda |x|), summed, is ``k``; 0 for all of them.

    ``magnitudes`` (n,) are float32. Entries above 1 / lambda are certain, and the sum S of the
    others has (k - certain) / S = lambda: Algorithm 3 of the paper comes to that after as many
    steps as it needs. Rounded to float32; beyond its range infinite.

    Example:
        >>> least_sent(np.array([4.0, 1.0, 1.0, 2.0], np.float32), 2)
        4.0
        >>> least_sent(np.array([9.0, 1.0, 1.0, 2.0], np.float32), 2)
        4.0
    """
    if np.count_nonzero(magnitudes) <= k:
        return 0.0
    sizes = magnitudes.astype(np.float64)
    top = np.sort(np.partition(sizes, sizes.size - k)[sizes.size - k :])
    below = sizes[sizes < top[0]]
    ties = sizes.size - below.size - k  # as large as the least of the k, and not among them
    # from the least up, one after the other: no digits cancel, and every machine has the same sum
    tail = np.cumsum(below)[-1] if below.size else 0.0
    tail_sums = np.cumsum(np.concatenate(([tail + ties * top[0]], top)))[:0:-1]  # of all but j
    top = top[::-1]
    floors = tail_sums / np.arange(k, 0, -1)
    fits = np.flatnonzero(top <= floors)
    with np.errstate(over="ignore"):
        return float(np.float32(floors[fits[0] if fits.size else k - 1]))


@dataclass(frozen=True)
class GSpar(BasePart, Fraction):
    """Each entry with the chance min(1, lambda |x|), divided by it: k = round(p n) expected.

        x_hat_i = x_i / p_i with chance p_i, else 0
        p_i = min(1, lambda |x_i|),  sum_i p_i = k

    Source: Gradient Sparsification for Communication-Efficient Distributed Optimization (Wangni et
    al. 2018, https://arxiv.org/abs/1710.09854, section 3): the unbiased choice of least variance
    with k entries expected. lambda is exact (``least_sent``); the paper's Algorithm 3 comes near in
    two steps.

    Certain entries travel as they are; everything else that travels becomes its sign times 1 /
    lambda, one magnitude per tensor. Zeros never travel; a tensor with at most k other entries
    sends those. The number sent follows from the draw and travels, as do the positions. Chances are
    multiples of 2**-32.

    Raises ``ValueError`` unless 0 < p <= 1.

    Example:
        >>> indices, least = GSpar(0.5).select(torch.tensor([8.0, -1.0, 0.0, 3.0]), seed=1)
        >>> least  # 8 is certain, 3 has the chance 3/4
        4.0
        >>> GSpar(0.5).weigh(torch.tensor([8.0, -1.0, 3.0]), least)
        tensor([ 8., -4.,  4.])
    """

    codec_id: ClassVar[str] = "gspar"

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        """See ``Sparsifier.select``; the number is 1 / lambda, for ``weigh``."""
        sizes = x.detach().abs()
        least = least_sent(sizes.numpy(), self.count(x.numel()))
        if least == 0:
            return (sizes > 0).nonzero().flatten(), least
        chances = sizes.double() / least * _WORDS
        rolled = torch.from_numpy(words(seed, np.arange(x.numel())).astype(np.float64))
        return (rolled < chances).nonzero().flatten(), least

    def weigh(self, values: Tensor, scale: float) -> Tensor:
        """See ``Weighted.weigh``: magnitudes below ``scale`` become ``scale``."""
        return torch.copysign(values.abs().clamp(min=scale), values)

    def faults_on(self, d: int) -> tuple[Fault, ...]:
        """It multiplies what it keeps: with omega >= 1 by too much."""
        noisy = d / self.count(d) - 1 >= 1
        return (Fault(self, "multiplies what it keeps", TopK(self.p)),) if noisy else ()

    def kept_of(self, d: int) -> Sparsity:
        """omega = d / k - 1, of equal chances: no others that sum to k vary more."""
        k = self.count(d)
        return Sparsity(unbiased(d / k - 1, "at most d / k - 1, where all entries are equal"), d, k)


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


@dataclass(frozen=True)
class Dryden(BasePart, Fraction):
    """The fraction ``p`` of the positive entries, the largest, and of the negative, the smallest.

        S = {the k+ largest x_i > 0} and {the k- smallest x_i < 0},  k+ = max(1, round(p n+))
        x_hat_i = x_i for i in S, else 0

    n+ and n- are the numbers of entries above and below zero, and k- follows from n- as k+ from n+;
    a side without entries sends none. Adaptive quantization (Dryden et al. 2016) has a positive and
    a negative threshold, too, each from its own side, and then sends means; here values are the
    quantizer's. Ties go to the lowest index.

    Example:
        >>> Dryden(0.5).select(torch.tensor([1.0, -3.0, 0.5, 2.0, 4.0]), 0)
        (tensor([1, 3, 4]), 1.0)
    """

    codec_id: ClassVar[str] = "dryden"

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        entries = x.detach().numpy()
        above, below = (nominal_count(self.p, n) for n in signs(entries))
        sides = select.both_sides(entries, above, below)
        return torch.cat([torch.from_numpy(side) for side in sides]).sort().values, 1.0

    def kept_of(self, d: int) -> Sparsity:
        """Each sign keeps max(1, round(p m)) of its m entries, the least share at m = 1.5 / p.

        Above p = 0.75 it is least where the first entry is lost, at m = 0.5 / (1 - p).
        """
        delta, note = 1 / min(d, max(1, math.floor(1.5 / self.p))), "2 p / 3"
        if self.p > 0.75:
            first = 0 if self.p == 1 else math.floor(0.5 / (1 - self.p))  # halves go to even
            sizes = range(max(1, first), min(d, first + 2) + 1)
            delta = min((nominal_count(self.p, m) / m for m in sizes), default=1.0)
            note = "2 p - 1"
        note = f"ours: {note}, from rounding on each side"
        capacity = min(d, math.floor(self.p * d) + 2)
        above = round((d + math.sqrt(d)) / 2)  # of random signs: by one sigma more than below
        mean = self.count(above) + self.count(d - above)
        return Sparsity(contraction(delta, note), capacity, mean)
