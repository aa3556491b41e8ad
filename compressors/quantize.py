"""What is said about an entry that travels: the second slot of a pipeline."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.sparsify import mean


class Symbols(NamedTuple):
    """Integers 0 <= code < ``alphabet`` (k,), and the side information that was written.

    Codes of an alphabet of 2**32 are an int32 tensor read as unsigned.
    """

    codes: Tensor
    alphabet: int
    side: Tensor | None


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

    def quantize(
        self, values: Tensor, indices: Tensor | None, shape: torch.Size, out: BitWriter, seed: int
    ) -> Symbols:
        """Symbols for ``values`` (k,) at ``indices`` (k,; None: all); writes side information."""
        ...

    def read_side(
        self, bits: BitReader, indices: Tensor | None, shape: torch.Size, k: int
    ) -> tuple[int, Tensor | None]:
        """The alphabet and the side information, as ``quantize`` wrote them."""
        ...

    def dequantize(self, symbols: Symbols, seed: int) -> Tensor:
        """The float32 values (k,) that the symbols mean."""
        ...


@dataclass(frozen=True)
class Float32:
    """Values as they are: 32 bits each."""

    needs_seed: ClassVar[bool] = False
    one_sign: ClassVar[bool] = False

    def quantize(
        self, values: Tensor, indices: Tensor | None, shape: torch.Size, out: BitWriter, seed: int
    ) -> Symbols:
        """The IEEE bits as symbols; no side information."""
        return Symbols(values.contiguous().view(torch.int32), 1 << 32, None)

    def read_side(
        self, bits: BitReader, indices: Tensor | None, shape: torch.Size, k: int
    ) -> tuple[int, Tensor | None]:
        """Nothing to read."""
        return 1 << 32, None

    def dequantize(self, symbols: Symbols, seed: int) -> Tensor:
        """The values, bit for bit."""
        return symbols.codes.view(torch.float32)


@dataclass(frozen=True)
class Mean:
    """All sent entries as their mean: 32 bits a tensor and none a value (SBC, Algorithm 2).

    Only sensible, and only accepted by ``Pipeline``, behind a sparsifier that never
    mixes signs. A tensor that sends nothing has no mean in the message.
    """

    needs_seed: ClassVar[bool] = False
    one_sign: ClassVar[bool] = True

    def quantize(
        self, values: Tensor, indices: Tensor | None, shape: torch.Size, out: BitWriter, seed: int
    ) -> Symbols:
        """One symbol for all; the mean is the side information."""
        codes = torch.zeros(values.numel(), dtype=torch.int64, device=values.device)
        if values.numel() == 0:
            return Symbols(codes, 1, None)
        side = np.array([mean(values)], np.float32)
        with out.span("side"):
            out.float32s(side)
        return Symbols(codes, 1, torch.from_numpy(side)[0].to(values.device))

    def read_side(
        self, bits: BitReader, indices: Tensor | None, shape: torch.Size, k: int
    ) -> tuple[int, Tensor | None]:
        """The mean, if anything was sent."""
        if k == 0:
            return 1, None
        with bits.span("side"):
            return 1, torch.from_numpy(bits.float32s(1))[0]

    def dequantize(self, symbols: Symbols, seed: int) -> Tensor:
        """The mean, once an entry."""
        codes, _, side = symbols
        if side is None:
            return torch.empty(0, dtype=torch.float32, device=codes.device)
        return side.to(codes.device).expand(codes.numel())
