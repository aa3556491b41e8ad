"""Entries drawn by chance in proportion to their magnitude (Wangni et al. 2018, GSpar)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bounds import Sparsity, unbiased
from compressors.kernels.noise import words
from compressors.parts import BasePart
from compressors.sparsify.fraction import Fraction
from compressors.sparsify.topk import TopK
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
