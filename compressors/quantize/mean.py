"""One mean for all values of a tensor (Sparse Binary Compression)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import mean
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction
from compressors.parts import BasePart, Place, Symbols


@dataclass(frozen=True)
class Mean(BasePart):
    """All sent entries as their mean: 32 bits per tensor and none per value.

        x_hat_i = mean_j x_j

    j runs over the entries that are sent (SBC; Sattler et al. 2018, Algorithm 2).

    Only sensible, and only accepted by ``Pipeline``, behind a sparsifier that never
    mixes signs. A tensor that sends nothing has no mean in the message.
    """

    codec_id: ClassVar[str] = "mean"
    projects: ClassVar[bool] = True  # see compressors.bounds
    one_sign: ClassVar[bool] = True

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """One symbol for all; the mean is the side information."""
        codes = torch.zeros(values.numel(), dtype=torch.uint8, device=values.device)
        side = np.array([mean(values)], np.float32)
        out.float32s(side)
        return Symbols(codes, 1, torch.from_numpy(side)[0])

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Tensor]:
        """The mean."""
        return 1, torch.from_numpy(bits.float32s(1))[0]

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        mean_of_all: Tensor = symbols.side
        return mean_of_all.expand(symbols.codes.numel())

    def bound_on(self, k: int) -> Bound:
        """delta = 1 / k: values of one sign, so (sum v)^2 >= sum v^2."""
        note = "1 / k: values of one sign; one entry against k - 1 zeros"
        return contraction(1 / max(k, 1), note)
