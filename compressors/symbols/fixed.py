"""Symbols of equal width."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.errors import PayloadError
from compressors.quantize.base import IEEE, code_dtype

_UNSIGNED: dict[torch.dtype, Any] = {
    torch.uint8: np.uint8,
    torch.int16: np.uint16,
    torch.int32: np.uint32,
}


@dataclass(frozen=True)
class Fixed:
    """ceil(log2 alphabet) bits a symbol: none for an alphabet of one, 32 for float32 bits.

    Symbols wider than a byte travel as two planes, as ceil(log2 alphabet) bits each all the
    same: what stands above the lowest byte of every symbol, then the lowest bytes. Whole
    bytes can be moved eight at a time.
    """

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes every symbol in the same width."""
        if alphabet == 1:
            return  # there is nothing to say
        numbers = codes.cpu().numpy().view(_UNSIGNED[codes.dtype])
        width = (alphabet - 1).bit_length()
        if alphabet == IEEE:
            out.float32s(numbers.view(np.float32))
        elif width <= 8:
            out.uints(numbers, width)
        else:
            out.uints(numbers, width - 8, low=8)
            out.uints(numbers, 8)

    def read_symbols(
        self, bits: BitReader, k: int, alphabet: int, device: torch.device
    ) -> Tensor:
        """``PayloadError`` where a symbol is outside the alphabet."""
        dtype = code_dtype(alphabet)
        if alphabet == 1:
            return torch.zeros(k, dtype=dtype, device=device)
        if alphabet == IEEE:
            return torch.from_numpy(bits.float32s(k).view(np.int32)).to(device)
        width = (alphabet - 1).bit_length()
        bits.need(k * width)
        kind = _UNSIGNED[dtype]
        if width <= 8:
            numbers = bits.uints(k, width, kind)
        else:
            numbers = bits.uints(k, width - 8, kind, low=8)
            numbers |= bits.uints(k, 8, kind)
        if alphabet < 1 << width and numbers.size and int(numbers.max()) >= alphabet:
            raise PayloadError(f"symbol {int(numbers.max())} is outside an alphabet of {alphabet}")
        return torch.from_numpy(numbers).view(dtype).to(device)
