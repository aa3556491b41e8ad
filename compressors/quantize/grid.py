"""Values on an even grid, rounded by chance: between the extremes, or of a fixed step."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither, unbiased
from compressors.kernels import rounding as kernel
from compressors.kernels.noise import key
from compressors.parts import BasePart, Place, Symbols, code_dtype
from compressors.quantize.levels import fresh
from compressors.settings import check_number, check_whole, plain

_LARGEST = float(torch.finfo(torch.float32).max)


@dataclass(frozen=True)
class MinMax(BasePart):
    """2**bits equally spaced levels from the least to the greatest value: unbiased.

        y_i = L (x_i - x_min) / (x_max - x_min),  L = 2^bits - 1
        q_i = floor(y_i) + 1 with chance y_i - floor(y_i), else floor(y_i)
        x_hat_i = x_min + (x_max - x_min) q_i / L

    Probabilistic quantization of Konečný et al. (Federated Learning: Strategies for Improving
    Communication Efficiency, 2016, https://arxiv.org/abs/1610.05492, section 3): a value goes
    to one of the two levels around it, with the chances that make its mean right. Symbol j is
    level j from below. Side information: least and greatest as two float32 numbers (-0 is
    sent as 0); nothing sent, none. Equal values arrive exactly; so do the extremes.
    Levels are computed in float64, so the spread may exceed the largest float32.

    Args:
        bits: a value, 1 to 16.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("minmax(2)"), {"w": torch.tensor([0.0, 1.0, 3.0])})
        >>> packet.sent["w"].decoded, packet.spans["values"], packet.spans["side"]
        (tensor([0., 1., 3.]), 6, 64)
    """

    codec_id: ClassVar[str] = "minmax"
    bits: int

    def __post_init__(self) -> None:
        plain(self)
        check_whole("minmax: bits", self.bits, 1, 16)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The level of each value; the extremes are the side information."""
        alphabet = 1 << self.bits
        ends = np.array([float(end) for end in torch.aminmax(values)], np.float32) + 0.0
        low, high = (float(end) for end in ends)
        scale = (alphabet - 1) / (high - low) if high > low else 0.0
        values = values.contiguous()
        codes = fresh(values.numel(), code_dtype(alphabet))
        kernel.between(values.numpy(), low, scale, alphabet - 1, *key(seed), codes.numpy())
        out.float32s(ends)
        return Symbols(codes, alphabet, ends)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Any]:
        """The extremes as a float32 array (2,)."""
        return 1 << self.bits, bits.float32s(2)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        codes, alphabet, ends = symbols
        low, high = (float(end) for end in ends)
        if codes.numel() < alphabet:
            return _even(codes, alphabet - 1, low, high)
        return _pick(_even(torch.arange(alphabet, device="cpu"), alphabet - 1, low, high), codes)

    def bound_on(self, k: int) -> Bound:
        """k / (2 (2^b - 1)^2): (greatest - least)^2 <= 2 ||x||^2 (Suresh et al. 2017)."""
        omega = k / (2 * (2**self.bits - 1) ** 2)
        return unbiased(omega, "d / (2 (2^b - 1)^2) (Suresh et al. 2017)")


@dataclass(frozen=True)
class Codebook(BasePart):
    """A fixed grid -2**(bits - 1) step, ..., -step, 0, step, ..., (2**(bits - 1) - 1) step.

        y_i = min(max(x_i, -2^(b - 1) delta), (2^(b - 1) - 1) delta)
        x_hat_i = e with chance (e + delta - y_i) / delta, else e + delta,  e <= y_i <= e + delta

    b is ``bits``, delta ``step`` and e a point of the grid (Gajjala et al. 2020, equation 1, after
    Yu et al.): unbiased inside. The paper leaves values outside open: here they become the nearer
    end, a BIAS, and the grid reaches one step further below zero than above. No side information:
    both sides know the step. Symbol 0 is zero, then -step, step, -2 step, ... (zig-zag).

    Args:
        bits: a value, b = 1 to 16.
        step: the distance of neighbours, delta > 0, in the values' unit.

    Raises ``ValueError`` for other settings, and where a grid point is not a finite float32 or
    the step is zero as one.

    Example:
        >>> from compressors import compress, parse
        >>> x = torch.tensor([0.0, 0.5, -1.0, 9.0])
        >>> packet, _ = compress(parse("codebook(3, 0.5)"), {"w": x})
        >>> packet.sent["w"].decoded, packet.spans["values"], packet.spans["side"]
        (tensor([ 0.0000,  0.5000, -1.0000,  1.5000]), 12, 0)
    """

    codec_id: ClassVar[str] = "codebook"
    bits: int
    step: float

    def __post_init__(self) -> None:
        plain(self)
        check_whole("codebook: bits", self.bits, 1, 16)
        top = _LARGEST / 2 ** (self.bits - 1)
        allowed = "give a number above 0 whose grid of 2**bits points fits in float32"
        check_number("codebook: step", self.step, lambda x: 2.0**-149 <= x <= top, allowed)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The grid point of each value; no side information."""
        half = 1 << self.bits - 1
        values, step = values.contiguous(), float(self.step)
        codes = fresh(values.numel(), code_dtype(2 * half))
        kernel.round_signed(values.numpy(), step, half, half - 1, *key(seed), codes.numpy())
        return Symbols(codes, 2 * half)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, None]:
        return 1 << self.bits, None

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        return _pick(_grid(self.bits, float(self.step)), symbols.codes)

    def bound_on(self, k: int) -> Bound:
        """None: the step does not scale."""
        return neither(
            "the step is absolute and values outside the grid are cut; "
            "inside unbiased, at most step^2 / 4 per entry"
        )


def _even(levels: Tensor, top: int, low: float, high: float) -> Tensor:
    """Of ``levels`` 0 to ``top``, where they lie between ``low`` and ``high``, as float32."""
    where = low + (high - low) * (levels.to(torch.float64) / top)
    return torch.where(levels == top, high, where).to(torch.float32)


@lru_cache(maxsize=16)
def _grid(bits: int, step: float) -> Tensor:
    """The grid point of every symbol (2**bits,), as float32."""
    symbols = torch.arange(1 << bits, dtype=torch.int64, device="cpu")
    j = (symbols + 1) // 2
    return (torch.where(symbols % 2 == 1, -j, j).to(torch.float64) * step).to(torch.float32)


def _pick(table: Tensor, codes: Tensor) -> Tensor:
    """``table[codes]``."""
    values = fresh(codes.numel(), torch.float32)
    kernel.pick(table.numpy(), codes.numpy(), values.numpy())
    return values
