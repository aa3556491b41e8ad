"""Natural compression: every value becomes a power of two (Horváth et al. 2022)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, neither, unbiased
from compressors.grammar import shown
from compressors.kernels import natural, noise
from compressors.parts import BasePart, Place, Symbols, code_dtype
from compressors.settings import check_one_of, check_whole, plain

_BIAS = 127  # of a float32's exponent
_TOP_OF_8 = 63  # 127 exponents from -63: the window that is centred on 1


@dataclass(frozen=True)
class Natural(BasePart):
    """Signs and exponents without mantissas: 9 bits per value in place of 32.

        C(t) = sign(t) 2^floor(a) with chance p, else sign(t) 2^ceil(a),  a = log2 |t|
        p = (2^ceil(a) - |t|) / (2^ceil(a) - 2^floor(a))

    Natural compression (Horváth et al. 2022, Definition 1, equation 2); powers of two and zero stay
    as they are.

    ``rounding="random"`` is the paper's. The mean is t, and the second moment at most 9/8 of t**2
    (Theorem 3), with these exceptions:

    * zero stays zero, and its sign travels;
    * a denormal (|t| < 2**-126) becomes 0 or 2**-126: unbiased, but beyond 9/8;
    * above 2**127 a greater power is missing: such values always become 2**127, biased.

    ``rounding="nearest"`` takes the nearer power, the greater of two at equal distance: biased,
    no random numbers, within a third of t.

    ``bits`` below 9 leave ``bits - 1`` for the exponent, which is then one of the 2**(bits - 1) - 1
    exponents up to ``top``: the lowest power is 2**(top - 2**(bits - 1) + 2). A magnitude above
    2**top becomes 2**top (biased). One below the lowest power is rounded at random to it or to
    zero, unbiased up to 2**-33 of that power, but beyond 9/8. Eight bits hold 2**-63 to 2**63 by
    default: the paper shows how little of the range the exponents of gradients take (Figure 21; its
    text gives no numbers), so half of it, around 1, is ample; fewer bits must be told their
    ``top``. float64 would need 12 bits, 64 / 12 = 5.33 times less.

    Noise is the 32 bits that belong to (seed, place among the sent values): the low 23 of
    them are added to the mantissa. The receiver needs no seed.

    Raises ``ValueError`` for bits outside 2 to 9, a window beyond float32's normal exponents
    (-126 to 127), a ``top`` with 9 bits, or none with fewer than 8.

    Example:
        >>> from compressors import compress, parse
        >>> update = {"w": torch.tensor([1.0, -0.5, 0.0, 2.5])}
        >>> compress(parse("cnat(rounding=nearest)"), update)[0].sent["w"].decoded
        tensor([ 1.0000, -0.5000,  0.0000,  2.0000])
    """

    codec_id: ClassVar[str] = "cnat"

    bits: int = 9
    top: int | None = None
    rounding: str = "random"

    def __post_init__(self) -> None:
        plain(self)
        check_whole("bits of cnat", self.bits, 2, 9)
        check_one_of("rounding of cnat", self.rounding, ("random", "nearest"))
        if self.bits == 9 and self.top is not None:
            raise ValueError(
                f"top of cnat is {shown(self.top)}: nine bits hold every exponent; leave it out"
            )
        if self.bits < 8 and self.top is None:
            raise ValueError(
                f"top of cnat is None: bits={self.bits} holds {self._exponents} exponents; "
                "say the highest"
            )
        name = f"top of cnat with bits={self.bits}"
        check_whole(name, self.highest, self._exponents - _BIAS, _BIAS)

    @property
    def _exponents(self) -> int:
        return min((1 << self.bits - 1) - 1, 2 * _BIAS)

    @property
    def highest(self) -> int:
        """The exponent of the greatest power of two."""
        if self.bits == 9:
            return _BIAS
        return _TOP_OF_8 if self.top is None else self.top

    @property
    def lowest(self) -> int:
        """The exponent of the least power of two above zero."""
        return self.highest - self._exponents + 1

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Codes of ``bits`` bits: sign, then exponent; no side information."""
        alphabet = 1 << self.bits
        values = values.detach().contiguous()
        low, high, sign = self.lowest + _BIAS, self.highest + _BIAS, self.bits - 1
        target = np.empty(values.numel(), np.uint16 if self.bits == 9 else np.uint8)
        floats = values.numpy()
        window = np.uint32(low), np.uint32(high), np.uint32(sign)
        bits = floats.view(np.uint32)
        if self.rounding == "nearest":
            natural.codes_nearest(bits, *window, target)
        elif self.bits == 9:
            natural.codes_random(bits, *noise.key(seed), 0, target)
        else:
            natural.codes_window(floats, bits, *noise.key(seed), 0, *window, target)
        return Symbols(torch.from_numpy(target).view(code_dtype(alphabet)), alphabet)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, None]:
        return 1 << self.bits, None

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """The powers of two, with their signs."""
        return self.decode(symbols.codes)

    def decode(self, codes: Tensor) -> Tensor:
        """The float32 numbers (k,) that ``codes`` (k,) mean."""
        lowest, sign = self.lowest + _BIAS, self.bits - 1
        symbols = codes.contiguous().numpy().view(np.uint16 if self.bits == 9 else np.uint8)
        target = np.empty(symbols.size, np.uint32)
        natural.decode_powers(symbols, np.uint32(lowest), np.uint32(sign), target)
        return torch.from_numpy(target.view(np.float32))

    def bound_on(self, k: int) -> Bound:
        """1/8 (Theorem 3), 8/9 for the nearer power; none for a narrow window of exponents."""
        window = f"2^{self.lowest} to 2^{self.highest}"
        if self.bits < 9:
            return neither(f"entries are cut above {window.split()[2]}; omega = 1/8 in {window}")
        if self.rounding == "nearest":
            return contraction(8 / 9, f"within a third of each entry in {window}")
        return unbiased(1 / 8, f"Theorem 3 (Horváth et al. 2022), for entries in {window} and zero")
