"""Nearest levels: even bins around the mean with their means, and whole numbers per bucket."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction
from compressors.kernels import bins as kernel
from compressors.parts import BasePart, Place, Symbols
from compressors.settings import check_number, check_whole, plain


@dataclass(frozen=True)
class Bins(BasePart):
    """Each value as the mean of its bin: 2**bits even bins around the mean of all.

        b_i = min(max(floor((x_i - m) / w), -B / 2), B / 2 - 1),  B = 2^bits,  w = spread s / B
        x_hat_i = mean(x_j with b_j = b_i)

    m and s are the mean and the standard deviation (over k - 1) of the k values, b_i the bin of
    value i. With s = 0 all are in bin 0.

    For the 2 bits of SparseLoCo (Sarfi et al. 2025, https://arxiv.org/abs/2508.15706); their levels
    are this project's choice. Bins are ``spread`` standard deviations wide together, as many below
    the mean as above it; the first and the last take what lies beyond, and each value arrives as
    the mean of its bin's values: the best level that a bin can have. So the error is orthogonal to
    what arrives, and never larger than the values. Side information: 2**bits means, float32; a bin
    without values has 0.

    Args:
        bits: a value, 1 to 8.
        spread: the width of all bins in standard deviations, above 0; None for 2.7 + 0.66 bits,
            about the width of least error for normal values (Max 1960).

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.tensor([5.0, 7.0, -6.0, -6.0])}
        >>> compress(parse("bins(2, 2)"), x)[0].sent["w"].decoded
        tensor([ 6.,  6., -6., -6.])
    """

    codec_id: ClassVar[str] = "bins"
    projects: ClassVar[bool] = True  # see compressors.bounds
    bits: int
    spread: float | None = None

    def __post_init__(self) -> None:
        plain(self)
        check_whole("bins: bits", self.bits, 1, 8)
        if self.spread is not None:
            allowed = "0 < spread < 1e6, or none"
            check_number("bins: spread", self.spread, lambda x: 0 < x < 1e6, allowed)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The bin of each value; the bins' means are the side information."""
        alphabet = 1 << self.bits
        x = values.detach().contiguous().numpy()
        center, deviation = kernel.moments(x)
        codes = np.empty(x.size, np.uint8)
        sums, counts = np.zeros(alphabet), np.zeros(alphabet, np.int64)
        width = 2.7 + 0.66 * self.bits if self.spread is None else self.spread
        kernel.even(x, center, width * deviation / alphabet, codes, sums, counts)
        means = (sums / np.maximum(counts, 1)).astype(np.float32)
        out.float32s(means)
        return Symbols(torch.from_numpy(codes), alphabet, means)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, np.ndarray]:
        """The means (2**bits,)."""
        return 1 << self.bits, bits.float32s(1 << self.bits)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        codes, _, means = symbols
        return torch.from_numpy(means[codes.numpy()])

    def bound_on(self, k: int) -> Bound:
        """min(1, 2 / k): no means are worse than two, of what is below the mean m and of the rest.

        These two hold k m^2 + (sum |x - m|)^2 / k at least, and a sum of numbers that cancel has
        (sum |y|)^2 >= 2 sum y^2.
        """
        worst = "ours: 2 / d, where one entry is above the mean and one below"
        return contraction(min(1.0, 2 / max(k, 1)), f"{worst}; far more for spread values")


@dataclass(frozen=True)
class Steps(BasePart):
    """The nearest whole number of steps: int4 or int8 values with a float32 step per bucket.

        s = max_j |x_j| / m,  m = 2^(bits - 1) - 1
        x_hat_i = s sign(x_i) min(floor(|x_i| / s + 1 / 2), m)

    s is the step and j runs over the bucket of i. Levels are symmetric and zero is one of them;
    halves go away from zero. CocktailSGD (Wang et al. 2023) sends 4 bits so, and 8 bits are common
    for updates of large models (DiLoCo's followers). A part of the largest magnitude is lost on
    each entry, at most half a step: no entry is further off than 1 / (2**bits - 2) of it. Steps
    below the least float32 make zeros.

    Args:
        bits: a value, 2 to 8.
        bucket: values that share a step, in the order in which they are sent; None for all.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("steps(4)"), {"w": torch.tensor([7.0, -2.6, 0.4])})
        >>> packet.sent["w"].decoded, packet.spans["values"], packet.spans["side"]
        (tensor([ 7., -3.,  0.]), 12, 32)
    """

    codec_id: ClassVar[str] = "steps"
    bits: int
    bucket: int | None = None

    def __post_init__(self) -> None:
        plain(self)
        check_whole("steps: bits", self.bits, 2, 8)
        if self.bucket is not None:
            check_whole("steps: bucket", self.bucket, 1, (1 << 31) - 1)

    @property
    def _half(self) -> int:
        return (1 << self.bits - 1) - 1

    def _bucket(self, k: int) -> int:
        return max(1, k if self.bucket is None else min(k, self.bucket))

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Symbol j is j - (2**(bits - 1) - 1) steps; a step per bucket is the side information."""
        x = values.detach().contiguous().numpy()
        size = self._bucket(x.size)
        codes, scales = np.empty(x.size, np.uint8), np.empty(-(-x.size // size), np.float32)
        # a step of which self._most are a float32 too, as large as can be but for its last bit
        top = np.nextafter(np.float32(float(np.finfo(np.float32).max) / self._half), np.float32(0))
        kernel.round_steps(x, size, self._half, top, scales, codes)
        out.float32s(scales)
        return Symbols(torch.from_numpy(codes), 2 * self._half + 1, scales)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, np.ndarray]:
        """The steps (buckets,)."""
        return 2 * self._half + 1, bits.float32s(-(-place.k // self._bucket(place.k)))

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """Steps times whole number, a float32 product."""
        codes, _, scales = symbols
        levels = codes.numpy().astype(np.float32) - np.float32(self._half)
        each = np.repeat(scales, self._bucket(levels.size))[: levels.size]
        with np.errstate(over="ignore", invalid="ignore"):  # of hostile steps: refused afterwards
            return torch.from_numpy(levels * each + np.float32(0))

    def bound_on(self, k: int) -> Bound:
        """4 m^2 / (4 m^2 + k - 1), m = 2^(b - 1) - 1 steps: the largest entry arrives.

        No error exceeds its entry or half a step. Most is lost where all others are half a step.
        """
        square = 4 * (2 ** (self.bits - 1) - 1) ** 2
        delta = square / (square + self._bucket(k) - 1)
        return contraction(delta, "ours: 4 m^2 / (4 m^2 + d - 1), reached")
