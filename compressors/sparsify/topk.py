"""The largest entries, exactly: of either sign, or of the stronger sign alone.

Ties go to the lowest flat index, so exactly k entries are chosen where there are
that many with anything to say: an entry that is zero (for ``OneSided``: not
strictly on the chosen side) carries nothing and is never sent. An all-zero tensor
therefore sends nothing, and a tensor with fewer than k such entries sends those.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import nominal_count
from compressors.bounds import Sparsity, contraction
from compressors.kernels import select
from compressors.kernels.noise import words
from compressors.parts import BasePart
from compressors.settings import check_share, plain

_LEAST = 25  # survivors expected in a sample: the number sent is k within 1 / sqrt(25), one sigma
_MAX_OVERSHOOT = 2  # times k: more are never sent


def sample_size(n: int, p: float, sample: float) -> int:
    """How many of ``n`` entries are looked at for the fraction ``p``: a share, but enough.

    Example:
        >>> sample_size(25_600_000, 0.001, sample=0.001), sample_size(10**6, 0.001, sample=0.001)
        (25600, 25000)
    """
    return max(round(sample * n), math.ceil(_LEAST / p))


def sampled_threshold(x: Tensor, p: float, size: int, seed: int) -> Tensor:
    """The magnitude that the fraction ``p`` of ``size`` entries reach, drawn with replacement.

    It is a key (), int32: the magnitude's IEEE bits (``kernels.select``).

    Noise word w means entry floor(w n / 2**32): no entry is likelier than another by more
    than n / 2**32.
    """
    drawn = torch.from_numpy(words(seed, np.arange(size)).astype(np.int64))
    keys = x[drawn * x.numel() >> 32].view(torch.int32) & 0x7FFFFFFF
    return torch.topk(keys, max(1, round(p * size))).values[-1]


def above_sampled(x: Tensor, k: int, threshold: Tensor) -> Tensor:
    """Sorted indices of the entries that reach ``threshold``, a key; the k largest of over 2 k.

    No zero is among them.
    """
    indices, keys = select.at_least(x.detach().numpy(), threshold.numpy()[()], select.MAGNITUDE)
    if indices.size > _MAX_OVERSHOOT * k:
        return torch.from_numpy(select.largest_of(indices, keys, k).copy())
    return torch.from_numpy(indices.copy())


def largest(x: Tensor, k: int, side: int) -> Tensor:
    """Sorted indices of the ``k`` entries of flat ``x`` (float32) with the largest key.

    ``side``: ``select.MAGNITUDE`` |x|, ``select.POSITIVE`` x, ``select.NEGATIVE`` -x.
    Entries whose key is not above zero are left out.
    """
    return torch.from_numpy(select.select_largest(x.detach().numpy(), k, side))


@dataclass(frozen=True)
class Fraction:
    """Sends about the fraction ``p`` of the entries; ``ValueError`` unless 0 < p <= 1."""

    codec_id: ClassVar[str]
    p: float

    def __post_init__(self) -> None:
        plain(self)
        check_share(f"{self.codec_id}: p", self.p)

    def count(self, n: int) -> int:
        """k = max(1, round(p n)), the nominal number."""
        return nominal_count(self.p, n)


@dataclass(frozen=True)
class TopK(BasePart, Fraction):
    """The fraction ``p`` of largest magnitude, exactly k of them.

        S = {the k largest |x_i| > 0},  k = max(1, round(p n))
        x_hat_i = x_i for i in S, else 0

    Gradient dropping (Aji & Heafield 2017, Algorithm 1, without its residuals). The paper keeps
    what lies strictly above the k-th magnitude, so that ties send fewer; here ties go to the lowest
    index and k is exact.

    ``sample`` (the paper's section 4 has 0.001; DGC) estimates the threshold from that share of
    the entries instead, drawn by the seed, and sends all that reach it. The sample has at
    least 25 / p entries, so that 25 of it are expected to survive: the number sent is then k
    give or take a fifth. A tensor that is not larger than its sample is selected from
    exactly. At most 2 k are ever sent: where more reach the threshold, exactly the k largest.

    Example:
        >>> TopK(0.5).select(torch.tensor([1.0, -3.0, 0.0, 2.0]), 0)
        (tensor([1, 3]), 1.0)
    """

    codec_id: ClassVar[str] = "topk"
    sample: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sample is not None:
            check_share("topk: sample", self.sample)

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        """See ``Sparsifier.select``; the seed draws the sample, if any."""
        n = x.numel()
        k = self.count(n)
        size = n if self.sample is None else sample_size(n, self.p, self.sample)
        if size >= n:
            return largest(x, k, select.MAGNITUDE), 1.0
        return above_sampled(x, k, sampled_threshold(x, self.p, size, seed)), 1.0

    def kept_of(self, d: int) -> Sparsity:
        """k / d: the k largest of d squares are at least their share (Remark 1 of DeepReduce).

        By a sample's threshold at least 0.49 of it: fewer than k / 2 are sent only where as many of
        the sample, 25 or more, lie among them as are expected among k; by Chernoff's bound the
        chance is below (e / 4)^12.5 < 0.01.
        """
        k = self.count(d)
        if self.sample is None or sample_size(d, self.p, self.sample) >= d:
            return Sparsity(contraction(k / d, "k / d"), k, k)
        delta = max(1 / d, 0.49 * k / d)
        stated = contraction(delta, "ours: 0.49 k / d, about k / d")
        return Sparsity(stated, min(d, _MAX_OVERSHOOT * k), k)


@dataclass(frozen=True)
class OneSided(BasePart, Fraction):
    """The fraction ``p`` of largest or of smallest entries, whichever mean is greater in magnitude.

        H = {the k largest x_i > 0},  L = {the k largest -x_i > 0},  k = max(1, round(p n))
        S = H if mean(x_H) >= -mean(x_L) else L,  x_hat_i = x_i for i in S, else 0

    SBC's selection (Sattler et al. 2018, Algorithm 2, lines 3 to 9), read with the weight-update
    where the paper prints W. A side without entries is not chosen. Values are the quantizer's
    (``mean`` in SBC).

    Example:
        >>> OneSided(0.5).select(torch.tensor([1.0, -3.0, 0.5, -2.0]), 0)
        (tensor([1, 3]), 1.0)
    """

    codec_id: ClassVar[str] = "one_sided"
    one_sign: ClassVar[bool] = True

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        k = self.count(x.numel())
        return torch.from_numpy(select.one_sided(x.detach().numpy(), k)), 1.0

    def kept_of(self, d: int) -> Sparsity:
        """delta = 1 / (1 + max(d - 1, min(k, d - 1)^2)): ours, for the paper states none.

        Let the side of the greater mean m be chosen. If it has one entry, it keeps m^2; the k
        largest of the other side sum to at most k m, so their squares to at most (k m)^2, and every
        further one is at most m. More entries on the chosen side keep more than they add.
        (1, -k, -0, ...) reaches it.
        """
        k = self.count(d)
        return Sparsity(contraction(one_sided_delta(k, d), "ours: 1 / (1 + max(d - 1, k^2))"), k, k)


def one_sided_delta(k: int, d: int) -> float:
    """delta of the ``k`` entries of the stronger side of ``d``, as they are or as their mean.

    Example:
        >>> one_sided_delta(1, 100), one_sided_delta(20, 100)
        (0.01, 0.0024937655860349127)
    """
    return 1 / (1 + max(d - 1, min(k, d - 1) ** 2))
