"""Symbols of an alphabet, the papers' examples of them, and a code's way there and back."""

from typing import Any

import numpy as np
import torch

from compressors import BitReader, BitWriter, SymbolCode
from compressors.parts import code_dtype

STRING = [0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0]  # Gajjala et al. 2020, Figure 1
SHS = [0.21, 0.05, 0.05, 0.2, 0.147, 0.1029, 0.072, 0.168]  # its section 3.3


def symbol_codes(numbers: list[int] | np.ndarray, alphabet: int) -> torch.Tensor:
    """Symbols in the dtype of the alphabet: those of 2**31 and more are negative int32."""
    wide = torch.from_numpy(np.asarray(numbers, np.int64).astype(np.uint32).view(np.int32))
    return wide.to(code_dtype(alphabet))


def round_trip(code: SymbolCode, numbers: Any, alphabet: int, before: str = "") -> int:
    """Writes behind ``before``, reads it back exactly; returns the bits it took."""
    symbols, out = symbol_codes(numbers, alphabet), BitWriter()
    for bit in before:
        out.uint(int(bit), 1)
    code.write_symbols(symbols, alphabet, out)
    bits = BitReader(out.to_bytes())
    bits.uint(len(before))
    got = code.read_symbols(bits, symbols.numel(), alphabet)
    assert got.dtype == symbols.dtype
    assert torch.equal(got, symbols)
    assert bits.position == out.position
    return out.position - len(before)
