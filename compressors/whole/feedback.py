"""Residual accumulation: what was not sent is added to the next update (SBC, equation 2)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from compressors.base import Compressor, Sent, SentTensor, State, Tensors, empty_like
from compressors.bits import BitReader, BitWriter
from compressors.errors import UpdateError
from compressors.printing import short_text, shown
from compressors.settings import check_compressor, plain
from compressors.whole.growth import always_grows, grows
from compressors.whole.keepers import check_keeps_nothing
from compressors.whole.memory import added, check_sums, inside, nest, recall


@dataclass(frozen=True)
class ErrorFeedback:
    """Sends ``update + residual`` and keeps what the receiver will not see of it.

    At every moment the sum of what was decoded plus the residual is the sum of the
    updates, up to float32 rounding.

    With a ``decay`` below 1 it sends ``update + decay * residual``: what is left of old updates
    fades, and that much of them is never sent. SparseLoCo (Sarfi et al. 2025, Algorithm 1) has it
    in the place of an outer momentum, DeMo (Peng et al. 2024, Algorithm 1) as its momentum.

    Args:
        inner: the compressor that sends.
        decay: the residual's factor, 0 < decay <= 1.

    Raises ``ValueError`` for another decay; around what has a memory or a server itself (``ef``,
    ``dgc``, ``ef21``): what is not sent would be kept, and sent, twice; and around what would feed
    that residual on its own noise, for tensors of any size (``compressors.whole.growth``).

    Example:
        >>> from compressors import parse
        >>> ErrorFeedback(parse("randk(0.1) | float32"))
        Traceback (most recent call last):
        ValueError: ef around randk(0.1) | float32: randk(0.1) multiplies what it keeps, so that \
the memory would grow without end: use ef(randk(0.1, false) | float32), or leave ef out
    """

    codec_id: ClassVar[str] = "ef"
    held: ClassVar[str] = "residual"  # see compressors.whole.returned
    keeps: ClassVar[tuple[str, ...]] = ("residual", "inner")  # see compressors.whole.whose
    inner: Compressor
    decay: float = 1.0

    def __post_init__(self) -> None:
        plain(self)
        check_compressor("ef", self.inner)
        number = isinstance(self.decay, int | float) and not isinstance(self.decay, bool)
        if not number or not 0 < self.decay <= 1:
            raise ValueError(f"ef: decay is {shown(self.decay)}: 0 < decay <= 1")
        check_keeps_nothing("ef", self.inner)
        if why := always_grows(self.inner):
            raise ValueError(f"ef around {short_text(self.inner)}: {why}")

    @property
    def needs_seed(self) -> bool:
        """As the inner compressor."""
        return self.inner.needs_seed

    def init(self, like: Tensors) -> State:
        """A zero residual per tensor, and the inner memory.

        Raises ``UpdateError`` where the residual would grow without end for tensors of these sizes.
        """
        if why := grows(self.inner, like):
            raise UpdateError(f"ef around {short_text(self.inner)}: {why}")
        return nest("residual", empty_like(like)) | nest("inner", self.inner.init(like))

    def write(
        self, update: Tensors, state: State, out: BitWriter, seed: int
    ) -> tuple[Sent, State]:
        """See ``Compressor.write``."""
        kept = recall("residual", state, {name: x.shape for name, x in update.items()})
        if self.decay != 1:
            kept = {name: x * self.decay for name, x in kept.items()}
        wanted = added(update, kept)
        sent, memory = self.inner.write(wanted, inside("inner", state), out, seed)
        residual = {name: _rest(x, sent[name]) for name, x in wanted.items()}
        check_sums(residual)
        return sent, nest("residual", residual) | nest("inner", memory)

    def read(self, bits: BitReader, like: Tensors, seed: int) -> dict[str, Tensor]:
        """See ``Compressor.read``."""
        return self.inner.read(bits, like, seed)


def _rest(wanted: Tensor, sent: SentTensor) -> Tensor:
    """What is left of ``wanted``, which was made for this message and may be used up."""
    if not isinstance(sent.indices, Tensor):
        return wanted - sent.values
    wanted.view(-1)[sent.indices] -= sent.values
    return wanted
