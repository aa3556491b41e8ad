"""EF21: a sender says how its update differs from what it has said, and the server adds up."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from compressors.base import Compressor, Sent, State, Tensors, empty_like
from compressors.bits import BitReader, BitWriter
from compressors.errors import UpdateError
from compressors.printing import short_text
from compressors.settings import check_compressor
from compressors.whole.growth import always_grows, grows
from compressors.whole.keepers import check_keeps_nothing
from compressors.whole.memory import added, check_sums, inside, nest, recall


@dataclass(frozen=True)
class Differences:
    """Sends ``update - g`` by the inner compressor, where g is the sum of all it has sent so far.

    EF21 (Richtárik, Sokolov & Fatkhullin 2021, https://arxiv.org/abs/2106.05203, Algorithm 2):
    where updates change little from round to round, so do their differences, and g comes
    closer to the update with each message, whatever the inner contraction leaves out. A message
    alone is not an update: the receiver keeps the sum of what all senders sent and moves by its
    mean over them. The strategy ``ef21`` does; every other one refuses this method. On that
    strategy's downlink it is EF21-BC (``strategies.channel.directions``).

    The memory is -g, as ``shift``: what was sent and not applied is added to it again. Raises
    ``ValueError`` around what has a memory or a server itself (``ef``, ``dgc``, ``diana``),
    and around what ``ef`` refuses because its error would grow.

    Example:
        >>> from compressors import compress, parse
        >>> import torch
        >>> method, update = parse("ef21(topk(0.5) | float32)"), {"w": torch.tensor([4.0, 1.0])}
        >>> first, memory = compress(method, update)
        >>> again, _ = compress(method, update, memory)
        >>> first.sent["w"].decoded, again.sent["w"].decoded
        (tensor([4., 0.]), tensor([0., 1.]))
    """

    codec_id: ClassVar[str] = "ef21"
    server: ClassVar[str] = "ef21"  # see compressors.whole.keepers
    held: ClassVar[str] = "shift"  # see compressors.whole.returned
    keeps: ClassVar[tuple[str, ...]] = ("shift", "inner")  # see compressors.whole.whose
    inner: Compressor

    def __post_init__(self) -> None:
        check_compressor("ef21", self.inner)
        check_keeps_nothing("ef21", self.inner)
        if why := always_grows(self.inner):
            raise ValueError(f"ef21 around {short_text(self.inner)}: {_here(why)}")

    @property
    def needs_seed(self) -> bool:
        """As the inner compressor."""
        return self.inner.needs_seed

    def init(self, like: Tensors) -> State:
        """A zero shift per tensor, and the inner memory; ``UpdateError`` as for ``ef``."""
        if why := grows(self.inner, like):
            raise UpdateError(f"ef21 around {short_text(self.inner)}: {_here(why)}")
        return nest("shift", empty_like(like)) | nest("inner", self.inner.init(like))

    def write(
        self, update: Tensors, state: State, out: BitWriter, seed: int
    ) -> tuple[Sent, State]:
        """See ``Compressor.write``; what is sent is the difference."""
        shift = recall("shift", state, {name: x.shape for name, x in update.items()})
        sent, memory = self.inner.write(added(update, shift), inside("inner", state), out, seed)
        after: dict[str, Tensor] = {n: shift[n] - one.decoded for n, one in sent.items()}
        check_sums(after)
        return sent, nest("shift", after) | nest("inner", memory)

    def read(self, bits: BitReader, like: Tensors, seed: int) -> dict[str, Tensor]:
        """See ``Compressor.read``: the difference."""
        return self.inner.read(bits, like, seed)


def _here(why: str) -> str:
    """The words of ``ef`` about its memory, for this one's."""
    return why.replace("use ef(", "use ef21(").replace("leave ef out", "leave ef21 out")
