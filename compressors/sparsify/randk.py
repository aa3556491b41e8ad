"""Entries chosen by chance alone: a fixed number of them, or each with a fixed probability.

Where the positions follow from the seed (``seeded``), the receiver draws them too and
none are written; the message then carries the seed, once. A chosen entry may be zero and
is sent all the same.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors.base import nominal_count
from compressors.bounds import Sparsity, contraction, unbiased
from compressors.kernels import sample
from compressors.settings import check_flags, check_share, plain
from compressors.sparsify.topk import Fraction

_WORDS = 2**32  # how many noise words there are


def drawn(n: int, k: int, seed: int) -> Tensor:
    """Sorted int64 places (k,) of 0..n-1, without replacement, every subset as likely as any.

    Those with the smallest noise words of ``seed``; n lies below 2**31.
    """
    return torch.from_numpy(sample.smallest(n, k, seed))


class Drawn:
    """Entries chosen by chance alone; what is ``seeded`` the receiver draws, too."""

    codec_id: ClassVar[str]
    one_sign: ClassVar[bool] = False
    unit: ClassVar[int] = 1
    scaled: bool
    seeded: bool

    def __post_init__(self) -> None:
        plain(self)
        check_flags(self.codec_id, scaled=self.scaled, seeded=self.seeded)

    @property
    def needs_seed(self) -> bool:
        """Whether the receiver draws the positions."""
        return self.seeded


@dataclass(frozen=True)
class RandK(Drawn, Fraction):
    """Exactly k entries at random, without replacement (random sparsification; Stich et al. 2018).

        S ~ U(subsets of k entries),  x_hat_i = (n / k) x_i for i in S, else 0

    ``scaled`` has the factor n / k, so that the message is unbiased with omega = n / k - 1 (Konečný
    et al. 2016, section 3; chances that follow the magnitudes are ``gspar``); plain, the message is
    a contraction: E||x - C(x)||^2 = (1 - k / n) ||x||^2. ``seeded``: no positions are written, they
    follow from the seed.

    Example:
        >>> indices, scale = RandK(0.5).select(torch.ones(6), seed=1)
        >>> len(indices), scale
        (3, 2.0)
    """

    codec_id: ClassVar[str] = "randk"
    scaled: bool = True
    seeded: bool = True

    def __post_init__(self) -> None:
        Fraction.__post_init__(self)
        Drawn.__post_init__(self)

    def places(self, n: int, seed: int) -> Tensor:
        return drawn(n, self.count(n), seed)

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        n = x.numel()
        scale = n / self.count(n) if self.scaled and n else 1.0
        return self.places(n, seed), scale

    def kept_of(self, d: int) -> Sparsity:
        """omega = d / k - 1 scaled, delta = k / d plain."""
        k = self.count(d)
        if self.scaled:
            return Sparsity(unbiased(d / k - 1, "d / k - 1"), k, k)
        return Sparsity(contraction(k / d, "k / d, in the mean"), k, k)


@dataclass(frozen=True)
class Bernoulli(Drawn):
    """Each entry with probability ``q``, q n of n expected.

        x_hat_i = x_i / r with chance r, else 0,  r = max(1, round(q 2^32)) / 2^32

    S_q (Horváth et al. 2022, Table 1, where q is the expected number of entries). r is q in the
    steps of the noise. ``scaled`` has the factor 1 / r: unbiased, omega = 1 / q - 1. ``seeded``: as
    for ``RandK``.

    Example:
        >>> Bernoulli(1).select(torch.ones(3), seed=1)
        (tensor([0, 1, 2]), 1.0)
    """

    codec_id: ClassVar[str] = "bernoulli"
    q: float
    scaled: bool = True
    seeded: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("bernoulli: q", self.q)

    @property
    def _below(self) -> int:
        return max(1, round(self.q * _WORDS))

    def count(self, n: int) -> int:
        """The expected number, rounded; the true one differs."""
        return nominal_count(self.q, n)

    def places(self, n: int, seed: int) -> Tensor:
        return torch.from_numpy(sample.up_to(n, self._below - 1, seed))

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        return self.places(x.numel(), seed), _WORDS / self._below if self.scaled else 1.0

    def kept_of(self, d: int) -> Sparsity:
        """omega = 1 / q - 1 scaled (S_q of Horváth et al. 2022), delta = q plain."""
        if self.scaled:
            share = max(1, round(self.q * 2**32)) / 2**32  # in the steps of the noise
            return Sparsity(unbiased(1 / share - 1, "1 / q - 1"), d, self.q * d)
        return Sparsity(contraction(self.q, "q, in the mean"), d, self.q * d)
