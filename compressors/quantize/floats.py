"""Values as IEEE numbers."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.quantize.base import IEEE, Place, Symbols


@dataclass(frozen=True)
class Float32:
    """Values as they are: 32 bits each."""

    needs_seed: ClassVar[bool] = False
    one_sign: ClassVar[bool] = False

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The IEEE bits as symbols; no side information."""
        return Symbols(values.contiguous().view(torch.int32), IEEE)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, None]:
        """Nothing to read."""
        return IEEE, None

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The values, bit for bit."""
        return symbols.codes.view(torch.float32)
