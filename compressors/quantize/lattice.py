"""Pairs of values as points of a lattice, with dither that the receiver takes off again."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, unbiased
from compressors.errors import PayloadError
from compressors.kernels import lattice as kernel
from compressors.kernels.noise import key
from compressors.parts import BasePart, Place, Symbols, code_dtype
from compressors.quantize.levels import bucket_norms
from compressors.settings import check_number, plain

_MOST = 1 << 31  # a coordinate is an int32
_PAIR = 5 / (36 * math.sqrt(3))  # second moment per entry of a hexagon of area 1
_ALONE = 1 / (6 * math.sqrt(3))  # the same of a value without a second: a square of across, over 12


@dataclass(frozen=True)
class Lattice(BasePart):
    """Pairs of values to the nearest point of a hexagonal lattice, with subtractive dither.

        x_hat = Q(x + z) - z,  z ~ U(cell around 0)
        area of a cell = 2 pi e 4^-bits ||x||_2^2 / k

    x is a pair, Q the nearest point, z the dither and ||x||_2^2 / k the mean square of all k
    values. Source: UVeQFed (Shlezinger et al. 2021, https://arxiv.org/abs/2006.03262, section III).
    The receiver draws the same dither from the message's seed and takes it off. The error is
    uniform on a cell for any values: unbiased, of known size. The paper scales the lattice until
    its points in a ball fill a budget of bits and leaves their coding open. Here the cell's area
    gives the symbols of normal values about ``bits`` bits of entropy from 2 bits on, every point
    may be sent, and a coder of symbols (``ans``, ``huffman``) follows. Behind ``fixed`` the largest
    point decides.

    Symbols: the row of a point, and its place in the row; 0, -1, 1, -2, ... are 0, 1, 2, 3. Side
    information: the root mean square as float32, and the largest symbol in 32 bits. The
    last value of an odd number has a line of points for itself.

    Args:
        bits: per value, above 0 and at most 8; need not be whole.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.tensor([0.5, -1.0, 2.0, 0.25])}
        >>> near = compress(parse("lattice(8) | huffman"), x)[0].sent["w"].decoded
        >>> bool((near - x["w"]).abs().max() < 0.02)
        True
    """

    codec_id: ClassVar[str] = "lattice"
    bits: float

    needs_seed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        plain(self)
        allowed = "give a number above 0, at most 8"
        check_number("lattice: bits", self.bits, lambda b: 0 < b <= 8, allowed)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """A pair's coordinates as two symbols; scale and largest symbol are the side."""
        x = values.detach().contiguous()
        size = np.float64(bucket_norms(x, "2", x.numel())[0]) / math.sqrt(x.numel())
        scale = np.float32(size) if size else np.float32(0)
        if size and not scale:
            scale = np.float32(2.0**-149)
        codes, top = np.zeros(x.numel(), np.int32), 0
        if scale:
            top = int(kernel.to_points(x.numpy(), *self._steps(scale), *key(seed), codes))
        out.float32s(np.array([scale], np.float32))
        out.uint(top, 32)
        symbols = torch.from_numpy(codes).to(code_dtype(top + 1))
        return Symbols(symbols, top + 1, scale)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Any]:
        """The scale, a float32."""
        scale, top = bits.float32s(1)[0], bits.uint(32)
        if top >= _MOST or not 0 <= float(scale) < math.inf:
            raise PayloadError(f"lattice: a scale of {scale} and a largest symbol of {top}")
        return top + 1, scale

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The points less the dither, in float64, rounded to float32."""
        codes, _, scale = symbols
        values = np.zeros(codes.numel(), np.float32)
        if scale:
            numbers = codes.to(torch.int32).numpy()
            kernel.from_points(numbers, *self._steps(scale), *key(seed), values)
        return torch.from_numpy(values)

    def _steps(self, scale: np.float32) -> tuple[float, float]:
        """Neighbours' distance, and half the distance of rows that are alike: units of u and v."""
        area = 2 * math.pi * math.e * 4.0**-self.bits * float(scale) ** 2
        across = math.sqrt(area * 2 / math.sqrt(3))
        return across, across * math.sqrt(3) / 2

    def bound_on(self, k: int) -> Bound:
        """The second moment of a cell, per entry, over the mean square."""
        odd = k % 2 / max(k, 1)
        share = 2 * math.pi * math.e * 4.0**-self.bits * (_PAIR * (1 - odd) + _ALONE * odd)
        return unbiased(
            share,
            "2 pi e 4^-b 5 / (36 sqrt(3)): the cell's second moment "
            "(Shlezinger et al. 2021, Theorem 1)",
        )
