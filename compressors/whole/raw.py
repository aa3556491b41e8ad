"""The reference: float32 as it is."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors.base import ALL, Sent, SentTensor, State, Tensors
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, exact


@dataclass(frozen=True)
class Raw:
    """Every entry in 32 bits.

        x_hat_i = x_i

    The reference: everything else is compared with it.
    """

    codec_id: ClassVar[str] = "raw"
    keeps: ClassVar[tuple[str, ...] | None] = ()
    needs_seed: ClassVar[bool] = False

    def init(self, template: Tensors) -> State:
        return {}

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        out.reserve(sum(32 * x.numel() for x in update.values()))
        with out.span("values"):
            for x in update.values():
                out.float32s(x.detach().numpy())
        return {name: SentTensor(x.detach(), ALL, x.shape) for name, x in update.items()}, state

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        with bits.span("values"):
            return {
                name: torch.from_numpy(bits.float32s(x.numel())).view(x.shape)
                for name, x in template.items()
            }

    def bound_on(self, d: int) -> Bound:
        """Lossless."""
        return exact()
