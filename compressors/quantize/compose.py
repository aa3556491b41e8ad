"""A quantizer on top of another one (Horváth et al. 2022, section 2.5)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from compressors.base import tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, compose
from compressors.grammar import shown
from compressors.parts import Place, Quantizer, Symbols

_FIRST, _SECOND = 1, 2  # the noise of one must not be that of the other


@dataclass(frozen=True)
class Then:
    """What ``second`` makes of the numbers that ``first`` would decode.

        x_hat = C2(C1(x))
        omega = omega1 omega2 + omega1 + omega2

    C1 is ``first`` and C2 ``second``. Only the bits of ``second`` travel. Where both are unbiased
    with variances omega1 and omega2 relative to the squared norm, so is this, with omega (Horváth
    et al. 2022, Theorem 5; the paper's C1 is the outer one); with natural compression as the second
    that is 9/8 omega1 + 1/8. The two draw from streams of their own, as the theorem needs. The
    receiver knows nothing of ``first``: its side information and its seed stay with the sender.

    Raises ``ValueError`` where one of the two is not a quantizer.

    Example:
        >>> from compressors import compress, parse
        >>> update = {"w": torch.tensor([3.0, -0.3])}
        >>> sent = compress(parse("then(float16, cnat(rounding=nearest))"), update)[0].sent
        >>> sent["w"].decoded
        tensor([ 4.0000, -0.2500])
    """

    codec_id: ClassVar[str] = "then"
    first: Quantizer
    second: Quantizer

    def __post_init__(self) -> None:
        for name, part in (("first", self.first), ("second", self.second)):
            if not hasattr(part, "quantize") or not hasattr(part, "dequantize"):
                raise ValueError(
                    f"then: {name} is {shown(part)}: it takes two quantizers, as in "
                    "then(float16, cnat)"
                )

    @property
    def needs_seed(self) -> bool:
        """Whether ``second`` does: nobody decodes ``first`` at the receiver."""
        return self.second.needs_seed

    @property
    def one_sign(self) -> bool:
        """Whether either takes values of one sign only."""
        return self.first.one_sign or self.second.one_sign

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """The symbols and side information of ``second`` alone."""
        first_seed, scratch = tensor_seed(seed, _FIRST), BitWriter()
        symbols = self.first.quantize(values, place, scratch, first_seed)
        between = self.first.dequantize(symbols, place, first_seed)
        return self.second.quantize(between, place, out, tensor_seed(seed, _SECOND))

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, object]:
        return self.second.read_side(bits, place)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        return self.second.dequantize(symbols, place, tensor_seed(seed, _SECOND))

    def bound_on(self, k: int) -> Bound:
        """Theorem 5, or what is known of projections."""
        projects = getattr(self.first, "projects", False)
        return compose(bound(self.first, k), bound(self.second, k), projects)
