"""The contract of a symbol code."""

from typing import Protocol

import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter


class SymbolCode(Protocol):
    """Symbols to bits and back, exactly."""

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes ``codes`` (k,), integers from 0 to alphabet - 1."""
        ...

    def read_symbols(
        self, bits: BitReader, k: int, alphabet: int, device: torch.device
    ) -> Tensor:
        """The ``k`` symbols."""
        ...
