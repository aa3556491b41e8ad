"""DIANA: a sender says how its update differs from a shift that learns what updates are."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from compressors.base import Compressor, Sent, State, Tensors, empty_like
from compressors.bits import BitReader, BitWriter
from compressors.printing import short_text, shown
from compressors.settings import check_compressor, plain
from compressors.theory.rules import bound
from compressors.whole.growth import SIZES
from compressors.whole.keepers import check_keeps_nothing
from compressors.whole.lift import ByName, Flat, PerTensor
from compressors.whole.memory import added, check_sums, inside, nest, recall


@dataclass(frozen=True)
class Shifts:
    """Sends ``update - h`` by an unbiased compressor; then h moves by ``alpha`` of what was sent.

    DIANA (Mishchenko, Gorbunov, Takáč & Richtárik 2019, https://arxiv.org/abs/1901.09269,
    Algorithm 1, without its momentum and its proximal step). The shift h comes to be the sender's
    mean update, and what is left to send, whose noise is in proportion to it, goes to zero: so
    clients of unlike data reach the optimum that a compression without shifts stays away from. The
    receiver adds the mean of all shifts, which it keeps by the same rule. The strategy ``diana``
    does; every other one refuses this method.

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
    server: ClassVar[str] = "diana"  # see compressors.whole.keepers
    held: ClassVar[str] = "learned"  # see compressors.whole.returned
    keeps: ClassVar[tuple[str, ...]] = ("learned", "inner")  # see compressors.whole.whose
    inner: Compressor
    alpha: float | None = None

    def __post_init__(self) -> None:
        plain(self)
        check_compressor("diana", self.inner)
        number = isinstance(self.alpha, int | float) and not isinstance(self.alpha, bool)
        if self.alpha is not None and not (number and 0 < self.alpha <= 1):
            raise ValueError(f"diana: alpha is {shown(self.alpha)}: 0 < alpha <= 1")
        check_unbiased("diana", self.inner)
        if self.alpha is None and any(bound(self.inner, d).kind == "unknown" for d in SIZES):
            raise ValueError(f"diana around {short_text(self.inner)}, of which no omega is known: "
                             "give alpha")  # fmt: skip

    @property
    def needs_seed(self) -> bool:
        """As the inner compressor."""
        return self.inner.needs_seed

    def steps(self, like: Tensors) -> dict[str, float]:
        """By tensor, the part of a message by which the shift moves.

        Example:
            >>> from compressors import parse
            >>> import torch
            >>> parse("diana(randk(0.25) | float32)").steps({"w": torch.zeros(8)})
            {'w': 0.25}
        """
        if self.alpha is not None:
            return dict.fromkeys(like, float(self.alpha))
        return {name: 1 / (1 + omega) for name, omega in _omegas(self.inner, like).items()}

    def init(self, like: Tensors) -> State:
        """A zero shift per tensor."""
        return nest("learned", empty_like(like)) | nest("inner", self.inner.init(like))

    def write(
        self, update: Tensors, state: State, out: BitWriter, seed: int
    ) -> tuple[Sent, State]:
        """See ``Compressor.write``; what is sent is the difference."""
        shift = recall("learned", state, {name: x.shape for name, x in update.items()})
        sent, memory = self.inner.write(added(update, shift), inside("inner", state), out, seed)
        alpha = self.steps(update)
        after: dict[str, Tensor] = {n: shift[n] - alpha[n] * x.decoded for n, x in sent.items()}
        check_sums(after)
        return sent, nest("learned", after) | nest("inner", memory)

    def read(self, bits: BitReader, like: Tensors, seed: int) -> dict[str, Tensor]:
        """See ``Compressor.read``: the difference."""
        return self.inner.read(bits, like, seed)


def check_unbiased(name: str, inner: Compressor) -> None:
    """Raises ``ValueError`` where ``name`` is around what has a memory, or is known as biased."""
    check_keeps_nothing(name, inner)
    if any(bound(inner, d).kind in ("contraction", "neither") for d in SIZES):
        raise ValueError(f"{name} around {short_text(inner)}, which is biased: {name} needs an "
                         f"unbiased method; use ef21({short_text(inner)})")  # fmt: skip


def _omegas(inner: Any, like: Tensors) -> dict[str, float]:
    """omega of an unbiased compressor on each tensor; 0 where a tensor is empty."""
    if isinstance(inner, ByName):
        found: dict[str, float] = {}
        for rule, part in inner.parts(like):
            found |= _omegas(rule, part)
        return {name: found[name] for name in like}
    whole = sum(x.numel() for x in like.values())
    sizes = {n: whole if isinstance(inner, Flat) else x.numel() for n, x in like.items()}
    codec = inner.codec if isinstance(inner, PerTensor | Flat) else inner
    return {n: (bound(codec, size).omega or 0.0) if size else 0.0 for n, size in sizes.items()}
