"""DIANA: differences from a shift that learns (Mishchenko et al. 2019)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from compressors.base import Compressor, Sent, Tensors
from compressors.bounds import bound
from compressors.grammar import short_text
from compressors.settings import check_compressor, check_number, plain
from compressors.whole.feedback import Remembering, check_unbiased
from compressors.whole.growth import SIZES
from compressors.whole.lift import ByName, Flat, PerTensor


@dataclass(frozen=True)
class Diana(Remembering):
    """Sends ``update - h`` by an unbiased compressor; then h moves by ``alpha`` of what was sent.

        c = Q(x - h),  h <- h + alpha c

    x is the update and c what is sent. DIANA (Mishchenko, Gorbunov, Takáč & Richtárik 2019,
    https://arxiv.org/abs/1901.09269, Algorithm 1, without its momentum and its proximal step). The
    shift h comes to be the sender's mean update, and what is left to send, whose noise is in
    proportion to it, goes to zero: so clients of unlike data reach the optimum that a compression
    without shifts stays away from. The receiver adds the mean of all shifts, which it keeps by the
    same rule. The strategy ``diana`` does; every other one refuses this method.

    Args:
        inner: an unbiased compressor without a memory of its own.
        alpha: the part of a message by which the shift moves, 0 < alpha <= 1. None: 1 / (1 + omega)
            for each tensor, the largest for which convergence is proved.

    The memory is -h, as ``learned``. Raises ``ValueError`` for another alpha, around what is biased
    or has a memory, and without an alpha around what theory has no omega for.

    Example:
        >>> from compressors import compress, parse
        >>> import torch
        >>> method, update = parse("diana(float32, 0.5)"), {"w": torch.tensor([4.0, 1.0])}
        >>> first, memory = compress(method, update)
        >>> again, _ = compress(method, update, memory)
        >>> first.sent["w"].decoded, again.sent["w"].decoded
        (tensor([4., 1.]), tensor([2.0000, 0.5000]))
    """

    codec_id: ClassVar[str] = "diana"
    server: ClassVar[str] = "diana"
    held: ClassVar[str] = "learned"
    keeps: ClassVar[tuple[str, ...] | None] = ("learned", "inner")
    inner: Compressor
    alpha: float | None = None

    def __post_init__(self) -> None:
        plain(self)
        check_compressor("diana", self.inner)
        if self.alpha is not None:
            check_number("diana: alpha", self.alpha, lambda a: 0 < a <= 1, "0 < alpha <= 1")
        check_unbiased("diana", self.inner)
        if self.alpha is None and any(bound(self.inner, d).kind == "unknown" for d in SIZES):
            raise ValueError(
                f"diana around {short_text(self.inner)}, of which no omega is known: give alpha"
            )

    def steps(self, template: Tensors) -> dict[str, float]:
        """By tensor, the part of a message by which the shift moves.

        Example:
            >>> from compressors import parse
            >>> import torch
            >>> parse("diana(randk(0.25) | float32)").steps({"w": torch.zeros(8)})
            {'w': 0.25}
        """
        if self.alpha is not None:
            return dict.fromkeys(template, float(self.alpha))
        return {name: 1 / (1 + omega) for name, omega in _omegas(self.inner, template).items()}

    def after(
        self, memory: Mapping[str, Tensor], target: dict[str, Tensor], sent: Sent
    ) -> dict[str, Tensor]:
        """The shift less ``alpha`` of what was sent."""
        alpha = self.steps(memory)
        return {n: memory[n] - alpha[n] * part.decoded for n, part in sent.items()}


def _omegas(inner: Any, template: Tensors) -> dict[str, float]:
    """omega of an unbiased compressor on each tensor; 0 where a tensor is empty."""
    if isinstance(inner, ByName):
        omegas: dict[str, float] = {}
        for rule, part in inner.parts(template):
            omegas |= _omegas(rule, part)
        return {name: omegas[name] for name in template}
    total = sum(x.numel() for x in template.values())
    sizes = {n: total if isinstance(inner, Flat) else x.numel() for n, x in template.items()}
    codec = inner.codec if isinstance(inner, PerTensor | Flat) else inner
    return {n: (bound(codec, size).omega or 0.0) if size else 0.0 for n, size in sizes.items()}
