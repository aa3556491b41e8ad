"""Whole numbers by chance: the unbiased rounding whose variance has no bound."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither
from compressors.errors import PayloadError
from compressors.kernels import rounding as kernel
from compressors.kernels.noise import key
from compressors.parts import IEEE, BasePart, Place, Symbols, code_dtype
from compressors.quantize.levels import fresh

_WHOLE = 1 << 24  # from here on every float32 is a whole number


@dataclass(frozen=True)
class RandomInteger(BasePart):
    """C_int: a value becomes one of the two whole numbers around it by chance; unbiased.

        x_hat_i = floor(x_i) + 1 with chance x_i - floor(x_i), else floor(x_i)

    The counterexample of natural compression (Horváth et al. 2022, section 2.3, Theorem 4): no
    omega bounds its variance, since near zero the second moment is |x| where the square is x * x.

    One bit of side information says how symbols are meant. 0: all results lie within
    +-2**24; the least follows in 32 bits (two's complement), then an Elias gamma code of the
    number of whole numbers from least to greatest, and symbols count from the least. 1: some
    are larger, and are whole already as any float32 from 2**24 on: symbols are the IEEE
    bits of the results. Zero has no sign. Nothing sent, no side information.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("cint"), {"w": torch.tensor([-1.0, 0.0, 2.0])})
        >>> packet.sent["w"].decoded, packet.spans["values"], packet.spans["side"]
        (tensor([-1.,  0.,  2.]), 6, 38)
    """

    codec_id: ClassVar[str] = "cint"

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Whole numbers from the least one, or IEEE bits; which, is the side information."""
        values = values.contiguous()
        near = fresh(values.numel(), torch.float32)
        kernel.round_integers(values.numpy(), *key(seed), near.numpy())
        low, high = (float(end) for end in torch.aminmax(near))
        wide = max(-low, high) > _WHOLE
        out.uint(int(wide), 1)
        if wide:
            return Symbols(near.view(torch.int32), IEEE)
        least, alphabet = int(low), int(high) - int(low) + 1
        out.uint(least & 0xFFFFFFFF, 32)
        out.gamma(alphabet)
        codes = fresh(near.numel(), code_dtype(alphabet))
        kernel.add_number(near.numpy(), -least, codes.numpy())
        return Symbols(codes, alphabet, least)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, int | None]:
        """The alphabet, and the least number or None for IEEE bits."""
        if bits.uint(1):
            return IEEE, None
        least = bits.uint(32)
        alphabet = bits.gamma()
        least -= (least >> 31) << 32
        if least < -_WHOLE or least + alphabet - 1 > _WHOLE:
            raise PayloadError(f"{alphabet} whole numbers from {least} on leave +-2**24")
        return alphabet, least

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The whole numbers, exact in float32."""
        codes, _, least = symbols
        if least is None:
            return codes.view(torch.float32)
        values = fresh(codes.numel(), torch.float32)
        kernel.add_number(codes.numpy(), least, values.numpy())
        return values

    def bound_on(self, k: int) -> Bound:
        """None (Theorem 4)."""
        return neither(
            "unbiased, but no omega is finite: near 0 the second moment is |x|, not x^2 "
            "(Theorem 4 of Horváth et al. 2022); at most 1/4 per entry"
        )
