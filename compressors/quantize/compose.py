"""Quantizers around another one: on top of it, or as a contraction for error feedback."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from compressors.base import tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, compose, contraction
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


@dataclass(frozen=True)
class Shrink:
    """What an unbiased quantizer decodes, divided by 1 + omega: a contraction.

        x_hat = Q(x) / (1 + omega)

    Q is the quantizer, E||Q(x) - x||^2 <= omega ||x||^2.

    Error feedback needs E||C(x) - x||^2 < ||x||^2, or its residual feeds on the noise and
    grows without end; an unbiased quantizer with omega >= 1 has it not. Divided by 1 + omega it
    has, with delta = 1 / (1 + omega) (Basu et al. 2019 scale QSGD so). omega follows from the
    settings and the number of values (``compressors.bounds``), which both sides know:
    it costs no bits.

    Raises ``ValueError`` unless ``inner`` is a quantizer that is unbiased for every vector.

    Example:
        >>> from compressors import parse, text
        >>> text(parse("topk(0.1) | shrink(qsgd(7))"))
        'per_tensor(topk(0.1) | shrink(dither(7)) | golomb)'
    """

    codec_id: ClassVar[str] = "shrink"
    inner: Any  # a quantizer; hashable: all that is configured is frozen

    def __post_init__(self) -> None:
        if not hasattr(self.inner, "dequantize") or _omega(self.inner, 2) is None:
            raise ValueError(
                "shrink takes a quantizer that is unbiased (qsgd(levels), cnat), not "
                f"{shown(self.inner)}"
            )

    @property
    def needs_seed(self) -> bool:
        return self.inner.needs_seed

    @property
    def one_sign(self) -> bool:
        return self.inner.one_sign

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        return self.inner.quantize(values, place, out, seed)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, object]:
        return self.inner.read_side(bits, place)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        values = self.inner.dequantize(symbols, place, seed)
        factor = torch.tensor(self.factor(place.k), dtype=torch.float32, device=values.device)
        return values * factor

    def factor(self, k: int) -> float:
        """1 / (1 + omega) of ``k`` values."""
        return 1 / (1 + (_omega(self.inner, k) or 0.0))

    def bound_on(self, k: int) -> Bound:
        """1 / (1 + omega): the least error of a multiple of an unbiased value."""
        omega = bound(self.inner, k).omega or 0.0
        return contraction(1 / (1 + omega), "1 / (1 + omega) (Basu et al. 2019)")


@lru_cache(maxsize=1024)
def _omega(inner: Any, k: int) -> float | None:
    inner_bound = bound(inner, max(1, k))
    return inner_bound.omega if inner_bound.kind == "unbiased" else None
