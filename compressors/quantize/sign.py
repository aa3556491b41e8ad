"""One bit per value: signs with a magnitude that is known, the mean one, or two column means.

A code is 1 for minus and 0 for plus. What a bit cannot say is zero, and each method has its
own way out, as its source has it or as is stated here.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import mean
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, neither
from compressors.kernels import noise, rounding, sign
from compressors.parts import BasePart, Place, Symbols
from compressors.quantize.levels import fresh
from compressors.settings import check_number, plain


def sign_codes(values: Tensor) -> Tensor:
    """1 where a value (k,) float32 is below zero, else 0: uint8 (k,); zeros count as plus."""
    codes = fresh(values.numel(), torch.uint8)
    sign.below_zero(values.detach().contiguous().numpy(), codes.numpy())
    return codes


def sign_codes_with_coins(values: Tensor, seed: int) -> Tensor:
    """``sign_codes``, but a value that is zero gets a fair coin from (seed, index)."""
    codes = fresh(values.numel(), torch.uint8)
    sign.with_coins(values.detach().contiguous().numpy(), *noise.key(seed), 0, codes.numpy())
    return codes


def with_signs(magnitudes: Tensor, codes: Tensor) -> Tensor:
    """``magnitudes`` (k,) or (), float32, with the signs that ``codes`` (k,) say."""
    if magnitudes.numel() == 1:  # one number for all: a table of two
        one = magnitudes.reshape(())
        values = fresh(codes.numel(), torch.float32)
        rounding.pick(torch.stack([one, -one]).numpy(), codes.numpy(), values.numpy())
        return values
    return torch.where(codes.bool(), -magnitudes, magnitudes)


def _is_positive(magnitude: float) -> bool:
    """Whether a number, which may be beyond float64, is above zero and finite as a float32."""
    with np.errstate(over="ignore"):
        return 0 < magnitude < 3.5e38 and 0 < float(np.float32(magnitude)) < float("inf")


@dataclass(frozen=True)
class Sign(BasePart):
    """The sign of each value times a ``magnitude`` that both sides know: one bit per value.

        x_hat_i = magnitude sign(x_i),  sign(0) = 1 or -1 with chance 1 / 2 each

    signSGD (Bernstein et al. 2018, Algorithm 1), whose step size is the magnitude: the
    receiver adds what it decodes. A value of zero gets a fair coin from the seed's noise, for
    one bit cannot say zero and an entry that never changes (of a unit that is switched off)
    would else be pushed the same way in every round; the coins cancel out. Neither unbiased
    nor a contraction: the magnitude does not depend on the values.

    ``magnitude`` is a float32 number above zero. Raises ``ValueError`` for another.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("sign(0.5)"), {"w": torch.tensor([3.0, -0.1])})
        >>> packet.sent["w"].decoded, packet.spans["values"]
        (tensor([ 0.5000, -0.5000]), 2)
    """

    codec_id: ClassVar[str] = "sign"
    magnitude: float = 1.0

    def __post_init__(self) -> None:
        plain(self)
        allowed = "give a float32 number above 0"
        check_number("sign: magnitude", self.magnitude, _is_positive, allowed)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The signs, and coins for zeros; no side information."""
        return Symbols(sign_codes_with_coins(values, seed), 2)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, None]:
        return 2, None

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        magnitude = torch.tensor(self.magnitude, dtype=torch.float32, device=symbols.codes.device)
        return with_signs(magnitude, symbols.codes)

    def bound_on(self, k: int) -> Bound:
        """None: the magnitude is fixed."""
        return neither("the magnitude does not follow the values")


@dataclass(frozen=True)
class ScaledSign(BasePart):
    """The sign of each value times the mean magnitude: 1 bit per value, 32 per tensor.

        v_hat_i = sign(v_i) ||v||_1 / k,  sign(0) = 1

    The compressor of EF-signSGD (Karimireddy et al. 2019, section 4), made for error feedback: a
    delta-contraction with delta = ||v||_1^2 / (k ||v||_2^2) of each vector of k values. The sum is
    taken in float64 and rounded to float32 once.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("l1_sign"), {"w": torch.tensor([3.0, -1.0])})
        >>> packet.sent["w"].decoded, packet.spans["side"]
        (tensor([ 2., -2.]), 32)
    """

    codec_id: ClassVar[str] = "l1_sign"
    projects: ClassVar[bool] = True  # see compressors.bounds

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The signs; the mean magnitude is the side information."""
        side = np.array([mean(values.abs())], np.float32)
        out.float32s(side)
        return Symbols(sign_codes(values), 2, torch.from_numpy(side)[0])

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Tensor]:
        """The mean magnitude."""
        return 2, torch.from_numpy(bits.float32s(1))[0]

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        return with_signs(symbols.side, symbols.codes)

    def bound_on(self, k: int) -> Bound:
        """||v||_1^2 / (k ||v||_2^2), at least 1 / k (Karimireddy et al. 2019)."""
        return contraction(1 / max(k, 1), "at least ||x||_1^2 / (d ||x||_2^2) >= 1 / d")
