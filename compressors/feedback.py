"""Residual accumulation: what was not sent is added to the next update (SBC, equation 2)."""

from dataclasses import dataclass

from torch import Tensor

from compressors.base import (
    Compressor,
    Sent,
    SentTensor,
    State,
    Tensors,
    check_compressor,
    empty_like,
    finite,
)
from compressors.bits import BitReader, BitWriter
from compressors.errors import UpdateError
from compressors.lift import inside, nest


@dataclass(frozen=True)
class ErrorFeedback:
    """Sends ``update + residual`` and keeps what the receiver will not see of it.

    At every moment the sum of what was decoded plus the residual is the sum of the
    updates, up to float32 rounding.
    """

    inner: Compressor

    def __post_init__(self) -> None:
        check_compressor("ef", self.inner)

    @property
    def needs_seed(self) -> bool:
        """As the inner compressor."""
        return self.inner.needs_seed

    def init(self, like: Tensors) -> State:
        """A zero residual a tensor, and the inner memory."""
        return nest("residual", empty_like(like)) | nest("inner", self.inner.init(like))

    def write(
        self, update: Tensors, state: State, out: BitWriter, seed: int
    ) -> tuple[Sent, State]:
        """See ``Compressor.write``."""
        wanted = {
            name: (x.detach() + state[f"residual/{name}"]).contiguous()
            for name, x in update.items()
        }
        for name, x in wanted.items():
            if not finite(x):
                raise UpdateError(f"tensor {name!r} and its memory overflow float32")
        sent, memory = self.inner.write(wanted, inside("inner", state), out, seed)
        residual = {name: _rest(x, sent[name]) for name, x in wanted.items()}
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
