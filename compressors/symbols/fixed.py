"""Symbols of equal width."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.errors import PayloadError

_IEEE = 1 << 32


@dataclass(frozen=True)
class Fixed:
    """ceil(log2 alphabet) bits a symbol: none for an alphabet of one, 32 for float32 bits."""

    def write(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes every symbol in the same width."""
        if alphabet == 1:
            return  # there is nothing to say
        numbers = codes.cpu().numpy()
        if alphabet == _IEEE:
            out.float32s(numbers.view(np.float32))
        else:
            out.uints(numbers.view(np.uint64), (alphabet - 1).bit_length())

    def read(self, bits: BitReader, k: int, alphabet: int, device: torch.device) -> Tensor:
        """``PayloadError`` where a symbol is outside the alphabet."""
        if alphabet == _IEEE:
            return torch.from_numpy(bits.float32s(k).view(np.int32)).to(device)
        if alphabet == 1:
            return torch.zeros(k, dtype=torch.int64, device=device)
        codes = bits.uints(k, (alphabet - 1).bit_length()).view(np.int64)
        if codes.size and int(codes.max()) >= alphabet:
            raise PayloadError(f"symbol {int(codes.max())} is outside an alphabet of {alphabet}")
        return torch.from_numpy(codes).to(device)
