"""The contract of a quantizer: the second slot of a pipeline."""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter

IEEE = 1 << 32
"""The alphabet of float32 bits; its codes are an int32 tensor read as unsigned."""


class Place(NamedTuple):
    """Where a tensor's k values stand: sorted flat ``indices`` (k,), or None for all of them."""

    indices: Tensor | None
    shape: torch.Size

    @property
    def k(self) -> int:
        """How many values there are."""
        return self.shape.numel() if self.indices is None else self.indices.numel()


class Symbols(NamedTuple):
    """Integers 0 <= code < ``alphabet`` (k,), and the side information that was written.

    ``codes`` has the dtype ``code_dtype(alphabet)`` and lies on the values' device. ``side``
    is whatever the quantizer's ``dequantize`` needs of it.
    """

    codes: Tensor
    alphabet: int
    side: Any = None


class Quantizer(Protocol):
    """Values of the sent entries to symbols and back."""

    @property
    def needs_seed(self) -> bool:
        """Whether ``dequantize`` needs the seed."""
        ...

    @property
    def one_sign(self) -> bool:
        """Whether the values of a tensor must all have the same sign."""
        ...

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Symbols for ``values`` (k,), float32, finite; writes side information to ``out``."""
        ...

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Any]:
        """The alphabet and the side information, as ``quantize`` wrote them."""
        ...

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The float32 values (k,) that the symbols mean, on the device of the codes."""
        ...


def code_dtype(alphabet: int) -> torch.dtype:
    """The smallest dtype that holds the codes: uint8, int16 or int32.

    Example:
        >>> code_dtype(256), code_dtype(512), code_dtype(IEEE)
        (torch.uint8, torch.int16, torch.int32)
    """
    if alphabet <= 1 << 8:
        return torch.uint8
    return torch.int16 if alphabet <= 1 << 15 else torch.int32
