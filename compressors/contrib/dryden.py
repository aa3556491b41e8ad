"""The largest entries of either sign, each sign by a threshold of its own (Dryden et al. 2016)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors.base import nominal_count
from compressors.bounds import Sparsity, contraction
from compressors.kernels import select
from compressors.kernels.sign import signs
from compressors.parts import BasePart
from compressors.sparsify.fraction import Fraction


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
