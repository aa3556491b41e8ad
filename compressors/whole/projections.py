"""A few numbers for a whole vector: its sums with random signs, which the receiver draws too."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, SentTensor, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, unbiased
from compressors.errors import PayloadError
from compressors.kernels import projections as kernel
from compressors.kernels.noise import key
from compressors.settings import check_flags, check_whole, plain


@dataclass(frozen=True)
class Projections:
    """``k`` float32 numbers per tensor: the dot products of its values with ``k`` vectors of signs.

        c_j = <z_j, x>,  z_j ~ U({-1, 1}^d),  j = 1, ..., k
        x_hat = sum_j c_j z_j / k  (over k + d - 1 unless scaled)

    The receiver draws the same vectors from the message's seed, and adds them up, each times its
    number: k numbers stand for any size. FedScalar (Rostami & Kia 2024,
    https://arxiv.org/abs/2410.02260) sends one for the whole update, ``flat(projections(1))``,
    and found signs to have less variance than normal values. Zeroth-order federations such as
    DeComFL (Li et al. 2024, https://arxiv.org/abs/2405.15861) send the same number of a gradient,
    found by two forward passes in place of a backward one. With downlink ``relay`` nothing but
    such numbers and seeds travels.

    The noise of one message is (d - 1) / k times its signal, so that a mean of N clients bears a
    server's step of about N k / d: digits with 4 clients, k = 1 and a step of 1 ends in NaN at
    round 15. Unscaled numbers make the step that small by themselves. Time grows with k times d.

    Args:
        k: numbers per tensor, 1 to 65536.
        scaled: the mean of the k vectors, unbiased; else over k + d - 1 in place of k, so
            that the error is never larger than the values in the mean: for ``ef``.

    Raises ``ValueError`` for any other setting.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.tensor([3.0, -1.0])}
        >>> packet, _ = compress(parse("projections(1)"), x)
        >>> packet.sent["w"].decoded.abs().tolist() in ([2.0, 2.0], [4.0, 4.0])
        True
        >>> packet.spans["values"]
        32
    """

    codec_id: ClassVar[str] = "projections"
    k: int = 1
    scaled: bool = True
    needs_seed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        plain(self)
        check_whole("projections: k", self.k, 1, 1 << 16)
        check_flags("projections", scaled=self.scaled)

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        numbers = np.empty(self.k, np.float32)
        values = x.detach().reshape(-1).contiguous().numpy()
        kernel.project(values, *self._keys(seed), numbers)
        out.float32s(numbers)
        return SentTensor(self._spread(numbers, x, seed), ALL, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        """``PayloadError`` for a number that is not finite."""
        numbers = np.array(bits.float32s(self.k), np.float32)
        if not np.isfinite(numbers).all():
            raise PayloadError("projections: a number is NaN or infinity")
        return self._spread(numbers, template, seed)

    def _keys(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The keys of the k directions: multipliers and offsets (k,)."""
        keys = np.array([key(tensor_seed(seed, j)) for j in range(self.k)], np.uint32)
        return np.ascontiguousarray(keys[:, 0]), np.ascontiguousarray(keys[:, 1])

    def _spread(self, numbers: np.ndarray, template: Tensor, seed: int) -> Tensor:
        """What the numbers stand for, in the shape of ``template``."""
        values = np.empty(template.numel(), np.float32)
        over = self.k if self.scaled else self.k + values.size - 1
        kernel.spread_directions(numbers, *self._keys(seed), 1 / over, values)
        return torch.from_numpy(values).view(template.shape)

    def bound_on(self, d: int) -> Bound:
        """Signs have fourth moments of 1: E||z<z, x>||^2 = d ||x||^2, and k of them average."""
        if self.scaled:
            return unbiased((d - 1) / self.k, "(d - 1) / k, reached")
        return contraction(self.k / (self.k + d - 1), "k / (k + d - 1), in the mean, reached")
