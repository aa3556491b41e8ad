"""A threshold from a random sample of a tensor (Aji & Heafield 2017, section 4; DGC)."""

import math

import numpy as np
import torch
from torch import Tensor

from compressors.kernels import select
from compressors.kernels.noise import words

LEAST = 25  # survivors expected in a sample: the number sent is k within 1 / sqrt(25), one sigma
MAX_OVERSHOOT = 2  # times k: more are never sent


def sample_size(n: int, p: float, sample: float) -> int:
    """How many of ``n`` entries are looked at for the fraction ``p``: a share, but enough.

    Example:
        >>> sample_size(25_600_000, 0.001, sample=0.001), sample_size(10**6, 0.001, sample=0.001)
        (25600, 25000)
    """
    return max(round(sample * n), math.ceil(LEAST / p))


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
    if indices.size > MAX_OVERSHOOT * k:
        return torch.from_numpy(select.largest_of(indices, keys, k).copy())
    return torch.from_numpy(indices.copy())
