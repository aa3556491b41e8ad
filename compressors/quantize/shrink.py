"""An unbiased quantizer made fit for error feedback."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, contraction
from compressors.grammar import shown
from compressors.parts import Place, Symbols


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
