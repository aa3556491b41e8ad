"""The contracts of a pipeline's parts: sparsifier, position code, quantizer, symbol code.

In this order they handle one tensor: which entries travel, how their positions are written, which
symbols stand for their values, and how the symbols are written.
"""

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter

IEEE = 1 << 32
"""The alphabet of float32 bits; its codes are an int32 tensor read as unsigned."""


class Sparsifier(Protocol):
    """Chooses units of a flat vector: single entries, or blocks of ``unit`` entries each.

    The last block of a vector may be shorter. Positions of units are what is coded.
    """

    @property
    def needs_seed(self) -> bool:
        """Whether the receiver draws the positions from the seed; then none are written."""
        ...

    @property
    def one_sign(self) -> bool:
        """Whether all chosen entries of a tensor have the same sign."""
        ...

    @property
    def unit(self) -> int:
        """Entries in a unit."""
        ...

    def count(self, n: int) -> int:
        """The nominal number of units sent of ``n`` units, which both sides know."""
        ...

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        """Sorted int64 units (k,) of the flat ``x`` (n,), and the factor on their values.

        A ``Weighted`` sparsifier's number is what its ``weigh`` takes.
        """
        ...


@runtime_checkable
class Weighted(Protocol):
    """A sparsifier that multiplies different values by different factors."""

    def weigh(self, values: Tensor, scale: float) -> Tensor:
        """The numbers sent for the chosen ``values`` (k,); ``select`` returned ``scale``."""
        ...


@runtime_checkable
class Seeded(Protocol):
    """A sparsifier whose positions follow from the seed alone: the receiver draws them too."""

    def places(self, n: int, seed: int) -> Tensor:
        """The sorted int64 positions (k,) that ``select`` chooses of ``n`` entries."""
        ...


class PositionCode(Protocol):
    """Sorted int64 indices below n to bits and back."""

    @property
    def needs_seed(self) -> bool:
        """Whether ``read_positions`` needs the seed."""
        ...

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        """Writes ``indices`` (k,) and returns those that the receiver will rebuild."""
        ...

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The indices that ``write_positions`` returned, of which ``k`` were written."""
        ...


@runtime_checkable
class Lossy(Protocol):
    """A position code whose receiver may rebuild other positions than were written."""

    @property
    def shifts(self) -> bool:
        """Whether the values of the written positions travel in order, right or wrong.

        As many positions are rebuilt then as were written. Otherwise the values that
        travel are those of the rebuilt positions.
        """
        ...


@runtime_checkable
class Measured(Protocol):
    """A position code that knows how long its message will be, without writing it."""

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        """Exactly the bits that ``write_positions`` takes for ``indices`` (k,) below ``n``."""
        ...


class BasePart:
    """A sparsifier or a quantizer of any sign and of single entries, read without the seed."""

    needs_seed: ClassVar[bool] = False
    one_sign: ClassVar[bool] = False
    unit: ClassVar[int] = 1


class Place(NamedTuple):
    """The places of a tensor's k values: sorted flat ``indices`` (k,), or None for all of them."""

    indices: Tensor | None
    shape: torch.Size

    @property
    def k(self) -> int:
        """How many values there are."""
        return self.shape.numel() if self.indices is None else self.indices.numel()


class Symbols(NamedTuple):
    """Integers 0 <= code < ``alphabet`` (k,), and the side information that was written.

    ``codes`` has the dtype ``code_dtype(alphabet)``. ``side`` is what the quantizer's
    ``dequantize`` needs of it.
    """

    codes: Tensor
    alphabet: int
    side: Any = None


class Quantizer(Protocol):
    """Values of the sent entries, one or more, to symbols and back.

    Of no values neither side information nor symbols travel: nobody is asked.
    """

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
        """The float32 values (k,) that the symbols mean."""
        ...


class SymbolCode(Protocol):
    """Symbols to bits and back, exactly."""

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes ``codes`` (k,), integers from 0 to alphabet - 1."""
        ...

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """The ``k`` symbols."""
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
